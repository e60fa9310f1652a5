"""C22: a spool of every earlier layout opens with all that it holds; C21: who sent what, and
when, outlives a restart.
"""

import gzip
from pathlib import Path

import pytest

from gateway.common.contract.intake import Sender
from spool.data_dir import DATABASE
from spool.record import AI_TELEMETRY, USAGE_EVENTS
from spool.sqlite.database import migrations
from spool.sqlite.recovery.verify import verify_stopped
from tests.support.metrics_rig import MetricsRig
from tests.support.spans import call_span
from tests.support.spool_rig import Rig, assert_balanced, drained, frozen

SPOOLS = Path(__file__).parent.parent / "data" / "spools"
"""One a layout, written by the last commit that had it: 2 delivered, 1 refused, a frozen batch of
2, 3 that wait, an event."""
FROZEN = {
    1: "019b8d99-9010-71a8-9fad-1a4f5ad7a817",
    2: "019b8d99-9010-7038-9b64-15d0e19cb7e5",
    3: "019b8d99-9010-7a5c-a4a5-3fd0611ba627",
    4: "019b8d99-9010-7a96-b1fa-ddead206d1a8",
    5: "019b8d99-de30-709e-8b7e-2c179741b484",
}
GATEWAY_IDS = {
    1: "gw-2c05a998a3a56d35",
    2: "gw-3513bcba8d613320",
    3: "gw-7a9393eb2576d53e",
    4: "gw-8325d8cd7fefa5d8",
    5: "gw-ab2fac0f50fcbc84",
}


def laid_out(number: int, data_dir: Path) -> Path:
    data_dir.mkdir()
    (data_dir / DATABASE).write_bytes(gzip.decompress((SPOOLS / f"layout_{number}.db.gz").read_bytes()))
    return data_dir


def test_c22_there_is_a_spool_of_every_layout_that_was() -> None:
    before_newest = [number for number, _ in migrations()[:-1]]
    assert sorted(FROZEN) == before_newest, "write one with the release that had it, before a layout is added"


@pytest.mark.parametrize("number", sorted(FROZEN))
async def test_c22_a_spool_of_an_earlier_layout_opens_with_all_that_it_holds(tmp_path: Path, number: int) -> None:
    data_dir = laid_out(number, tmp_path / "data")
    rig = await Rig.opened(data_dir)
    spool = rig.spool
    assert spool.gateway_id == GATEWAY_IDS[number]
    assert spool.quarantined == []
    await assert_balanced(spool)
    assert dict(spool.edge()) == {
        "received": 10, "kept": 9, "duplicate": 1, "suppressed": 0, "rejected": 0, "ignored": 0,
    }  # fmt: skip
    depth = spool.depth(AI_TELEMETRY)
    assert (depth.delivered, depth.pending, depth.dead_lettered) == (2, 5, 1)
    batch = await frozen(spool)
    assert (batch.batch_id, len(batch.records)) == (FROZEN[number], 2), "the batch that was frozen, before all others"
    await spool.ack(batch)
    await rig.settle()
    assert len(await rig.records()) == 3
    assert await drained(spool, USAGE_EVENTS) == [b'{"event":1}']
    await rig.close()
    assert verify_stopped(data_dir).findings == []


@pytest.mark.parametrize("number", sorted(FROZEN))
async def test_c22_a_damaged_spool_of_an_earlier_layout_is_salvaged_and_brought_forward(
    tmp_path: Path, number: int
) -> None:
    data_dir = laid_out(number, tmp_path / "data")
    content = bytearray((data_dir / DATABASE).read_bytes())
    content[20:60] = b"\xee" * 40  # of the header, before the layout's number
    (data_dir / DATABASE).write_bytes(content)
    rig = await Rig.opened(data_dir)
    assert len(rig.spool.quarantined) == 1
    assert rig.spool.quarantined[0].records == 0
    assert rig.spool.gateway_id == GATEWAY_IDS[number]
    assert (await frozen(rig.spool)).batch_id == FROZEN[number]
    assert rig.spool.depth(AI_TELEMETRY).pending == 5
    await rig.close()


async def test_c21_who_sent_a_record_and_when_outlive_a_restart(tmp_path: Path) -> None:
    stopped = rig = await MetricsRig(tmp_path / "data").open()
    await rig.traces(call_span("a", (100, 20)), sender=Sender("team blue", "192.0.2.7"))
    rig.clock.now_ms += 3_000
    await rig.reopen()
    rig = await rig.killed(tmp_path / "killed")
    await rig.settle()
    (record,) = await rig.records()
    assert record["attribution"]["key"] == "team blue"
    assert record["received_at"] == "2026-01-05T10:00:00.000Z"
    await rig.close()
    await stopped.close()
