"""C02: what was acknowledged survives a power cut at any moment, with any of the writes that no
sync covered; and a sync that fails.
"""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.power import Disk, Note, built_shim, notes
from tests.support.spool_rig import Rig, assert_balanced, drained, open_spool

CUTS = int(os.environ.get("POWER_CUTS", "60"))
LINES = int(os.environ.get("POWER_LINES", "3000"))
SMALL_LOG_BYTES = 8 << 20
"""A spool this small keeps a log of 128 pages, so that it is copied into the
file many times in a short run."""

pytestmark = pytest.mark.timeout(0 if CUTS > 100 else 600)


def run_over_shim(folder: Path, module: str, *arguments: str, until: Callable[[int, bytes], bool]) -> list[Note]:
    """A process that writes until it said enough (*until*: of its lines so far and the last one);
    what it wrote, synced and said, in order.
    """
    data_dir, log = folder / "data", folder / "notes"
    env = {
        **os.environ,
        "LD_PRELOAD": str(built_shim(folder)),
        "DISK_SHIM_LOG": str(log),
        "DISK_SHIM_DIR": str(data_dir / "spool.db"),
    }
    command = [sys.executable, "-m", module, str(data_dir), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        for said, line in enumerate(process.stdout, 1):
            if until(said, line):
                break
        os.kill(process.pid, signal.SIGKILL)
    return list(notes(log))


async def test_c02_what_was_acknowledged_is_there_after_a_power_cut_at_any_moment(
    tmp_path: Path, chance: random.Random
) -> None:
    arguments = ("0", str(SMALL_LOG_BYTES))
    noted = run_over_shim(tmp_path, "tests.support.appending", *arguments, until=lambda said, _: said >= LINES)
    said = await must_hold_after(noted, [chance.randrange(len(noted)) for _ in range(CUTS)], tmp_path, chance)
    copied = sum(note.op == "w" and note.path.endswith("spool.db") for note in noted)
    assert copied > 20, "the log was never copied into the file: the run was too short"
    assert said.appended
    assert said.delivered
    sys.stderr.write(f"{CUTS} cuts of {len(noted)} notes, {len(said.appended)} acknowledged at the last one\n")


async def test_c02_a_power_cut_while_delivered_records_leave_the_disk_loses_none_and_brings_none_back(
    tmp_path: Path, chance: random.Random
) -> None:
    """No one waits for those commits, and still each must be on the
    disk before the next one is begun.
    """
    noted = run_over_shim(tmp_path, "tests.support.emptying", until=lambda _, line: line == b"end 0\n")
    began = next(at for at, note in enumerate(noted) if note.op == "s" and note.data == b"idle 0\n")
    pending = pending_writes(noted)
    unsynced = [at for at in range(began, len(noted)) if pending[at]]
    assert len(unsynced) > CUTS, "too little was deleted"
    cuts = chance.sample(unsynced, CUTS)
    said = await must_hold_after(noted, cuts, tmp_path, chance)
    assert said.delivered


def pending_writes(noted: Sequence[Note]) -> list[int]:
    """Before each note: writes that no sync covered yet."""
    disk, found = Disk(), []
    for note in noted:
        found.append(sum(len(file.pending) for file in disk.files.values()))
        disk.take(note)
    return found


async def must_hold_after(noted: Sequence[Note], cuts: Iterable[int], folder: Path, chance: random.Random) -> "Said":
    """Cut the power before each of these notes, and look; what had been said by the last."""
    disk, said = Disk(), Said()
    began = 0
    for number, cut in enumerate(sorted(cuts)):
        for note in noted[began:cut]:
            disk.take(note)
            said.take(note)
        began = cut
        data_dir = folder / f"cut-{number}"
        disk.after_a_cut(data_dir, str(folder / "data"), chance)
        await must_hold(data_dir, said, f"cut before note {cut}")
        shutil.rmtree(data_dir)
    return said


class Said:
    """What the process had stated others by then."""

    def __init__(self) -> None:
        self.appended: set[int] = set()
        self.acking: set[int] = set()
        self.delivered: set[int] = set()

    def take(self, note: Note) -> None:
        if note.op == "s":
            for line in note.data.decode().split("\n"):
                what, _, number = line.rpartition(" ")
                if number:
                    said = {"": self.appended, "acking": self.acking, "delivered": self.delivered}
                    said.get(what, set()).add(int(number))


async def must_hold(data_dir: Path, said: Said, what: str) -> None:
    """The files open without a salvage, whole, with all that was acknowledged and
    nothing that was delivered.
    """
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
    while rig.counting.recovery is not None and not rig.counting.recovery.done():
        await rig.counting.recovery
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
    """The system forgets what it could not write, and states that the next sync went well:
    the log must be written again.
    """
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
