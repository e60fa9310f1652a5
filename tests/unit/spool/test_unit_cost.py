"""Unit cost: decimals, buckets, and the file: a backup that is older than the upstream, rows that
are lost.

What is promised of streams and totals is tested on each home: `contract/test_unit_cost.py`.
"""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import orjson
import pytest

from spool.record import UNIT_COST
from spool.sql import unit_doubts
from spool.unit_cost import bucket_start_ms, decimal_text, next_bucket_ms, sent_value
from tests.support.spool_homes import letters_of
from tests.support.spool_rig import copied
from tests.support.unit_streams import STREAM, UnitRig, metered, place


@pytest.mark.parametrize(
    ("granularity", "start", "following"),
    [("HOURLY", "2026-01-31T23", "2026-02-01T00"), ("DAILY", "2026-01-31T00", "2026-02-01T00"),
     ("MONTHLY", "2026-01-01T00", "2026-02-01T00")],
)  # fmt: skip
def test_buckets_begin_and_end_at_utc_hours_days_and_months(granularity: str, start: str, following: str) -> None:
    time_ms = 1_769_903_999_999  # 2026-01-31T23:59:59.999Z

    def stamp(ms: int) -> str:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat()[:13]

    assert stamp(bucket_start_ms(time_ms, granularity)) == start  # type: ignore[arg-type]
    assert stamp(next_bucket_ms(time_ms, granularity)) == following  # type: ignore[arg-type]


def test_decimals_are_plain_digits() -> None:
    assert decimal_text(Decimal("1E+3")) == "1000"
    assert decimal_text(Decimal("-0.00")) == "0"
    assert decimal_text(sent_value(Decimal("1.2345678901234565"))) == "1.23456789012346"


# ---- files that are older than the upstream


@pytest.mark.parametrize("can_read", [True, False])
async def test_a_backup_that_was_put_back_wipes_nothing(data_dir: Path, tmp_path: Path, can_read: bool) -> None:  # noqa: FBT001 - a parameter
    rig = UnitRig.in_folder(data_dir, can_read=can_read)
    await rig.lane.learn_base(STREAM, [])
    await rig.keep(metered(5), metered(1, place("steady")))
    await rig.lane.learn_base(STREAM, [])
    await rig.ship()
    await rig.keep(metered(4))
    backup = copied(data_dir, tmp_path / "backup")
    await rig.ship()
    await rig.keep(metered(3), metered(7, place("new")))
    await rig.ship()
    assert (rig.far.at(), rig.far.at("new")) == (12, 7)
    await rig.spool.close()
    for name in ("spool.db", "spool.db-wal"):
        (backup / name).replace(data_dir / name)
    rig.open_spool()
    await rig.keep(metered(2), metered(1, place("new")))
    await rig.ship()
    assert rig.far.at("steady") == 1
    assert rig.far.at("new") == 8
    assert rig.far.at() == 12 + 2, "what waited at the moment of the backup was delivered since"
    letters = [] if can_read else [("restored", "4")]
    assert [
        (code, orjson.loads(record)["record"]["value"]) for code, _, record in await letters_of(rig.spool, UNIT_COST)
    ] == letters
    await rig.close()


async def test_totals_whose_stream_is_gone_are_counted_as_lost(data_dir: Path) -> None:
    rig = UnitRig.in_folder(data_dir)
    await rig.keep(metered(5))
    await rig.spool.ask(lambda c, _: c.execute("DELETE FROM unit_stream").rowcount)
    await rig.spool.ask(lambda c, _: unit_doubts.distrust(c, 0))
    assert (await rig.spool.recount())[UNIT_COST]["pending"] == 0
    await rig.spool.close()
