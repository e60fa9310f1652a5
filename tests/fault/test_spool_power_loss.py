"""C02: what was acknowledged survives a power cut at any moment, with any of the writes that no sync covered; and a sync that fails."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.power import Disk, Note, built_shim, notes
from tests.support.spool_rig import Rig, assert_balanced, drained, open_spool

CUTS = int(os.environ.get("POWER_CUTS", "60"))
LINES = int(os.environ.get("POWER_LINES", "3000"))
SEED = int(os.environ.get("POWER_SEED", "20260105"))
SMALL_LOG_BYTES = 8 << 20
"""A spool this small keeps a log of 128 pages, so that it is copied into the file many times in a short run."""

pytestmark = pytest.mark.timeout(0 if CUTS > 100 else 120)


def run_over_shim(folder: Path) -> list[Note]:
    """A process that appends, freezes and acks until it said enough; what it wrote, synced and said, in order."""
    data_dir, log = folder / "data", folder / "notes"
    env = {
        **os.environ,
        "LD_PRELOAD": str(built_shim(folder)),
        "DISK_SHIM_LOG": str(log),
        "DISK_SHIM_DIR": str(data_dir / "spool.db"),
    }
    command = [sys.executable, "-m", "tests.support.appending", str(data_dir), "0", str(SMALL_LOG_BYTES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        for _ in range(LINES):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    return list(notes(log))


async def test_c02_what_was_acknowledged_is_there_after_a_power_cut_at_any_moment(tmp_path: Path) -> None:
    noted = run_over_shim(tmp_path)
    chance = random.Random(SEED)
    cuts = sorted(chance.randrange(len(noted)) for _ in range(CUTS))
    copied = sum(note.op == "w" and note.path.endswith("spool.db") for note in noted)
    disk, said = Disk(), Said()
    began = 0
    for number, cut in enumerate(cuts):
        for note in noted[began:cut]:
            disk.take(note)
            said.take(note)
        began = cut
        data_dir = tmp_path / f"cut-{number}"
        disk.after_a_cut(data_dir, str(tmp_path / "data"), chance)
        await must_hold(data_dir, said, f"cut before note {cut}")
    assert copied > 20, "the log was never copied into the file: the run was too short"
    assert said.appended
    assert said.delivered
    sys.stderr.write(f"{CUTS} cuts of {len(noted)} notes, {len(said.appended)} acknowledged at the last one\n")


class Said:
    """What the process had told others by then."""

    def __init__(self) -> None:
        self.appended: set[int] = set()
        self.acking: set[int] = set()
        self.delivered: set[int] = set()

    def take(self, note: Note) -> None:
        if note.op == "s":
            for line in note.data.decode().split("\n"):
                what, _, number = line.rpartition(" ")
                if number:
                    {"": self.appended, "acking": self.acking, "delivered": self.delivered}[what].add(int(number))


async def must_hold(data_dir: Path, said: Said, what: str) -> None:
    """The files open without a salvage, whole, with all that was acknowledged and nothing that was delivered."""
    spool = open_spool(data_dir)
    assert spool.quarantined == [], f"{what}: {spool.quarantined}"
    await assert_balanced(spool)
    left = [int(record) for record in await drained(spool)]
    await spool.close()
    with closing(sqlite3.connect(data_dir / "spool.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], what
    assert len(set(left)) == len(left), f"{what}: a record came twice"
    gone = said.appended - said.acking - set(left)
    assert not gone, f"{what}: acknowledged and gone: {sorted(gone)[:5]}"
    assert said.delivered.isdisjoint(left), f"{what}: a delivered record came back"


FAILING = """
import asyncio, sys
from pathlib import Path
from spool.errors import SpoolError
from tests.support.calls import call
from tests.support.spool_rig import Rig

async def main(data_dir, failing):
    rig = await Rig.opened(data_dir)
    await rig.send(call("before"))
    failing.touch()
    for name in ("x", "y"):
        try:
            await rig.send(call(name, trace=name))
        except SpoolError:
            continue
        raise SystemExit(f"{name} was acknowledged though it could not be synced")
    failing.unlink()
    while rig.counting._rebuilding is not None and not rig.counting._rebuilding.done():
        await rig.counting._rebuilding
    while True:
        try:
            await rig.send(call("x", trace="x"), call("after", trace="z"))
            break
        except SpoolError:
            await asyncio.sleep(0.05)
    print("acknowledged", flush=True)
    import os
    os._exit(0)

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


async def test_c02_a_sync_that_fails_acknowledges_nothing_and_what_is_sent_again_is_on_the_disk(tmp_path: Path) -> None:
    """The system forgets what it could not write, and says that the next sync went well: the log must be written anew."""
    data_dir, log, failing = tmp_path / "data", tmp_path / "notes", tmp_path / "failing"
    env = {
        **os.environ,
        "LD_PRELOAD": str(built_shim(tmp_path)),
        "DISK_SHIM_LOG": str(log),
        "DISK_SHIM_DIR": str(data_dir / "spool.db"),
        "DISK_SHIM_FAIL": str(failing),
    }
    command = [sys.executable, "-c", FAILING, str(data_dir), str(failing)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)  # noqa: ASYNC221 the loop has nothing else to do
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    disk = Disk()
    for note in notes(log):
        disk.take(note)
        if note.op == "s" and b"acknowledged" in note.data:
            break
    for file in disk.files.values():
        file.pending = []
    disk.after_a_cut(tmp_path / "cut", str(data_dir), random.Random(0))
    rig = await Rig.opened(tmp_path / "cut")
    assert rig.spool.quarantined == []
    await rig.settle()
    assert len(await rig.records()) in {3, 4}, "before, x, after; y may have come to disk, unacknowledged"
    await rig.close()
    with closing(sqlite3.connect(tmp_path / "cut" / "spool.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
