"""Records that are refused and sent again, for tests of the spool."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from spool.dead_letters import Chosen
from spool.record import AI_TELEMETRY, Lane
from spool.store import Refusal, Spool
from tests.support.spool_rig import append, drained, frozen

DAY_MS: Final = 86_400_000
EACH: Final = Chosen()


def numbers(*span: int) -> list[bytes]:
    return [str(n).encode() for n in range(*span)]


async def refuse(spool: Spool, records: Sequence[bytes], lane: Lane = AI_TELEMETRY, code: str = "bad_record") -> None:
    """*records* come in and are refused one and all."""
    await append(spool, records, lane)
    batch = await frozen(spool, lane, max_records=len(records))
    await spool.ack(batch, [Refusal(i, code, "no good") for i in range(len(records))])


async def deliver(spool: Spool, records: Sequence[bytes], lane: Lane = AI_TELEMETRY) -> None:
    await append(spool, records, lane)
    assert await drained(spool, lane) == list(records)


def counts(spool: Spool, lane: Lane = AI_TELEMETRY) -> tuple[int, int, int, int, int]:
    """(kept, delivered, pending, dead_lettered, expired)"""
    x = spool.depth(lane)
    return x.kept, x.delivered, x.pending, x.dead_lettered, x.expired


async def beside(spool: Spool) -> dict[str, int]:
    """The counts beside the figures, over all lanes."""
    await spool.run_maintenance()
    found: Counter[str] = Counter()
    for _, name, n in spool.dead_letter_summary().counts:
        found[name] += n
    return dict(found)


async def records_of(spool: Spool, chosen: Chosen = EACH) -> list[bytes]:
    return [letter.record for letter in await spool.operator().find(chosen, most=1000)]
