"""The results of runs as a file, and their medians."""

import json
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.side_by_side.build import COLLECTOR_VERSION, go_version
from benchmarks.side_by_side.growth import Level
from benchmarks.side_by_side.runs import Run

_SUMMED = ("lost", "twice", "not_acked")
_FIGURES = [each.name for each in fields(Run) if each.type in {float, "float"}]


@dataclass(slots=True)
class Results:
    """All that was measured on one machine."""

    machine: dict[str, Any] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    growth: list[Level] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "Results":
        """As `write` wrote it; empty where there is no such file."""
        if not path.exists():
            return cls()
        stored = json.loads(path.read_text("utf-8"))
        runs = [Run(**run) for run in stored["runs"]]
        return cls(stored["machine"], runs, [Level(**level) for level in stored["growth"]])

    def write(self, path: Path) -> None:
        """Floats are rounded to four digits that count: the file is read by people too."""
        path.write_text(json.dumps(_rounded(asdict(self)), indent=1) + "\n")


def machine(seconds: Iterable[float]) -> dict[str, Any]:
    """What the figures depend on; nothing names the machine. *seconds*: lengths of runs."""
    return {
        "day": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "go": go_version(),
        "collector": COLLECTOR_VERSION,
        "seconds": sorted({*seconds}),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


@dataclass(frozen=True, slots=True)
class Median:
    """The median of each figure over the runs of one product under one load."""

    run: Run
    """`lost`, `twice` and `not_acked` are sums."""
    runs: int
    lowest_per_s: float
    """`taken_per_s` of the slowest run."""
    highest_per_s: float


def medians(runs: Iterable[Run]) -> dict[tuple[str, str], Median]:
    """By load and product, in the order in which they first ran."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.load, run.product), []).append(run)
    return {key: _median(group) for key, group in groups.items()}


def _median(runs: Sequence[Run]) -> Median:
    middle: dict[str, Any] = {name: statistics.median(getattr(run, name) for run in runs) for name in _FIGURES}
    sums: dict[str, Any] = {name: sum(getattr(run, name) for run in runs) for name in _SUMMED}
    rates = [run.taken_per_s for run in runs]
    return Median(replace(runs[0], **middle, **sums), len(runs), min(rates), max(rates))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
