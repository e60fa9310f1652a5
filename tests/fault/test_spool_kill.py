"""kill -9 of a process that appends: what it said was acknowledged is in the spool,
once, and the figures state it.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from spool.record import AI_TELEMETRY
from tests.support.spool_rig import assert_balanced, drained, open_spool

KILLS = 8


def lines_until_killed(data_dir: Path, first: int, alive_s: float) -> list[str]:
    """What the process said, killed *alive_s* after its first line."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.appending", str(data_dir), str(first)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        begun = process.stdout.readline()
        until_s = time.monotonic() + alive_s
        lines = [begun.strip()]
        while time.monotonic() < until_s:
            lines.append(process.stdout.readline().strip())
        os.kill(process.pid, signal.SIGKILL)
        lines += [line.strip() for line in process.stdout]
    return [line for line in lines if line]


async def test_every_acknowledged_record_is_there_once_after_each_kill(tmp_path: Path, chance: random.Random) -> None:
    said: dict[str, list[int]] = {"appended": [], "acking": [], "delivered": []}
    for kill in range(KILLS):
        for line in lines_until_killed(tmp_path, kill * 1_000_000, chance.uniform(0.0, 0.3)):
            what, _, number = line.rpartition(" ")
            said[what or "appended"].append(int(number))
        spool = open_spool(tmp_path)
        await assert_balanced(spool)
        await spool.close()
    acknowledged, delivered = set(said["appended"]), set(said["delivered"])
    perhaps_delivered = set(said["acking"]) - delivered
    assert len(acknowledged) > KILLS
    assert len(delivered) == len(said["delivered"]) > 0, "no batch was delivered twice"

    spool = open_spool(tmp_path)
    depth = spool.depth(AI_TELEMETRY)
    left = [int(record) for record in await drained(spool)]
    await assert_balanced(spool)
    await spool.close()
    assert len(set(left)) == len(left) == depth.pending
    assert delivered.isdisjoint(left), "a delivered record came back"
    assert acknowledged <= delivered | set(left) | perhaps_delivered, "an acknowledged record is gone"
    assert depth.delivered == len((delivered | perhaps_delivered) - set(left)), "the figures say the same"
