"""A damaged page among streams, totals and their batches: the spool opens, both identities hold,
and nothing is replaced on faith.
"""

import random
import shutil
from pathlib import Path

from spool.data_dir import DATABASE
from spool.sqlite.database import PAGE_BYTES
from spool.sqlite.recovery.summary import FILE as SUMMARY
from tests.support.unit_streams import UnitRig, metered, place

DAMAGES = 30


async def test_c03_any_damaged_page_leaves_a_spool_that_balances_and_ships(
    tmp_path: Path, chance: random.Random
) -> None:
    whole = UnitRig.in_folder(tmp_path / "whole", can_read=True)
    for number in range(400):
        await whole.keep(metered(1, place(f"element-{number}")))
        await whole.event(f"e-{number}", metered(1, place(f"element-{number}")))
    await whole.lane.learn_base("tokens", [])
    assert await whole.freeze(max_records=100) is not None
    await whole.close()
    content = (tmp_path / "whole" / DATABASE).read_bytes()
    for number in range(DAMAGES):
        folder = tmp_path / f"damaged-{number}"
        folder.mkdir()
        damaged = bytearray(content)
        at = chance.randrange(1, len(content) // PAGE_BYTES) * PAGE_BYTES
        damaged[at : at + 200] = chance.randbytes(200)
        (folder / DATABASE).write_bytes(damaged)
        shutil.copy(tmp_path / "whole" / SUMMARY, folder)
        rig = UnitRig.in_folder(folder, can_read=True)
        edge = dict(rig.spool.edge())
        assert edge["received"] == edge["kept"] == 800, at // PAGE_BYTES
        await rig.ship()
        depth = rig.spool.depth("unit_cost")
        assert depth.kept == depth.delivered + depth.dead_lettered
        assert sum(rig.far.values.values()) <= 800
        assert sum(rig.far.values.values()) == depth.delivered
        await rig.close()
