"""Whether a hot path became markedly slower: its CPU time as a ratio to a reference loop in the
same run, against the ratio that is committed.

    python -m benchmarks.guard             measure and compare; exit code 1 when one is slower
    python -m benchmarks.guard --update    write the ratios of this reader to ratios.json

TELEMETRY_GATEWAY_READER chooses the reader (`python`, `native`); each has its own ratios. The guard
runs on one core, so that its parts do not slow each other, in rounds; the minimum of each
part counts. No absolute time is compared.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Protocol

from benchmarks.guard.paths import DocumentsPath, ReadPath, append_path, request_path
from benchmarks.guard.reference import reference_ns
from benchmarks.processes import raise_file_limit
from gateway.common.native import NATIVE

RATIOS: Final = Path(__file__).with_name("ratios.json")
SLOWER: Final = 1.4
"""A path that costs so many times its committed ratio is too slow."""
FASTER: Final = 0.7
"""Below this the committed ratio guards nothing any more."""
ROUNDS: Final = 6


class HotPath(Protocol):
    async def cpu_ns(self) -> int:
        """Do the work once; its CPU time."""


async def measured(rounds: int, folder: Path) -> dict[str, float]:
    """Ratio to the reference loop by path: minimum to minimum."""
    async with AsyncExitStack() as stack:
        paths: dict[str, HotPath] = {
            "read": ReadPath(),
            "documents": DocumentsPath(),
            "append": await stack.enter_async_context(append_path(folder / "append")),
            "request": stack.enter_context(request_path(folder / "request", sys.executable)),
        }
        taken: dict[str, list[int]] = {name: [] for name in paths}
        reference: list[int] = []
        for _ in range(rounds + 1):
            for name, path in paths.items():
                reference.append(reference_ns())
                taken[name].append(await path.cpu_ns())
    lowest = min(reference)
    return {name: min(times[1:]) / lowest for name, times in taken.items()}  # the first round warms up


def verdicts(found: Mapping[str, float], committed: Mapping[str, float]) -> dict[str, str]:
    """What is to be done about each path; `ok` where nothing is."""
    made = {}
    for name, ratio in found.items():
        change = ratio / committed[name] if name in committed else None
        if change is None:
            made[name] = "no ratio is committed: --update"
        elif change > SLOWER:
            made[name] = f"SLOWER: {change:.2f} times the committed {committed[name]:.3f}"
        elif change < FASTER:
            made[name] = f"ok, and faster ({change:.2f} times the committed ratio): --update guards it"
        else:
            made[name] = f"ok ({change:.2f} times the committed {committed[name]:.3f})"
    return made


def read_ratios() -> dict[str, dict[str, float]]:
    """Reader -> path -> ratio."""
    stored: dict[str, dict[str, float]] = json.loads(RATIOS.read_text())
    return stored


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--update", action="store_true", help="write what was measured")
    arguments = parser.parse_args()
    raise_file_limit()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    reader = "python" if NATIVE is None else "native"
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        found = asyncio.run(measured(arguments.rounds, Path(folder)))
    ratios = read_ratios()
    if arguments.update:
        ratios[reader] = {name: round(ratio, 3) for name, ratio in found.items()}
        RATIOS.write_text(json.dumps(ratios, indent=1) + "\n")
    stated = verdicts(found, ratios.get(reader, {}))
    for name, verdict in stated.items():
        print(f"{reader} {name}: {found[name]:.3f} of the reference loop, {verdict}")
    return 1 if any(verdict.startswith("SLOWER") for verdict in stated.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
