"""What captured payloads become: computed once a process, for all tests that assert its parts."""

from typing import Any, Final, NamedTuple

import orjson

from gateway.cli.explaining import Explained, explain_payloads
from gateway.cli.normalising import records_of_payloads
from tests.support.corpus import CANARY, Payload

Sent = tuple[bytes, str, str, str]
"""Body, path, Content-Type, Content-Encoding."""


class Counted(NamedTuple):
    records: list[bytes]
    rejected: int
    outcomes: dict[str, int]
    """Items by outcome."""

    @property
    def parsed(self) -> list[dict[str, Any]]:
        return [orjson.loads(record) for record in self.records]


_COUNTED: Final[dict[tuple[Sent, ...], Counted]] = {}
_EXPLAINED: Final[dict[tuple[Sent, ...], Explained]] = {}


def sent(payload: Payload) -> Sent:
    content_type = "application/json" if payload.is_json else "application/x-protobuf"
    return payload.body, f"/v1/{payload.signal}", content_type, ""


async def counted(*payloads: Sent) -> Counted:
    """What a gateway makes of *payloads*, within one settle time.

    Asserts what holds of any: no content in a record, one outcome an item.
    """
    if payloads not in _COUNTED:
        records, receipt, outcomes = await records_of_payloads([*payloads])
        assert not any(CANARY.encode() in record for record in records)
        assert outcomes["received"] == sum(n for outcome, n in outcomes.items() if outcome != "received")
        _COUNTED[payloads] = Counted(records, len(receipt.rejected), outcomes)
    return _COUNTED[payloads]


async def explained(*payloads: Sent) -> Explained:
    """How a gateway explains what it makes of *payloads*."""
    if payloads not in _EXPLAINED:
        _EXPLAINED[payloads] = await explain_payloads(payloads)
    return _EXPLAINED[payloads]


def billed(records: list[bytes]) -> list[tuple[object, ...]]:
    """What counts of each record, in an order of its own."""
    parsed = [orjson.loads(record) for record in records]
    return sorted((x["record_id"], x["billed"], orjson.dumps(x["usage"])) for x in parsed)
