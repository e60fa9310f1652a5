"""Results: as a table for a terminal or for docs/otlp-conformance.md, and as a file."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TypeVar

from tests.conformance.otlp.every_line import LINES
from tests.conformance.otlp.lines import Line, Result, run
from tests.conformance.otlp.target import Target

T = TypeVar("T")

OVERS = ("http", "grpc", "sender")
MAX_SEEN = 120
"""Characters of a cell."""


async def results(target: Target) -> list[Result]:
    """Of every line that the target can be asked."""
    return [await run(one, target) for one in LINES if target.speaks(one.over)]


def report(found: Sequence[Result], file: Path | None) -> int:
    """Print the table, and keep the results in *file*; the exit code."""
    if file is not None:
        rows = [(repr(one.line), one.verdict, one.seen, one.level) for one in found]
        file.write_text(json.dumps(rows, indent=1))
    counts = Counter(result.verdict for result in found)
    sums = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("pass", "fail", "not applicable"))
    sys.stdout.write(f"{printed(found)}\n{sums}\n")
    return 1 if counts["fail"] else 0


def saved(file: Path) -> list[Result]:
    """What `report` kept."""
    by_name = {repr(one): one for one in LINES}
    return [Result(by_name[name], *rest) for name, *rest in json.loads(file.read_text())]


def printed(found: Sequence[Result]) -> str:
    """One line a result, cut to the terminal."""
    width = max(get_terminal_size((160, 24)).columns, 100)
    return "\n".join(
        f"{line.number}  {line.over:6}  {shown(result):13}  {f'{line.what} ({line.level})':70}  {result.seen}"[:width]
        for line, result in in_order({result.line: result for result in found})
    )


def markdown(columns: Mapping[str, Sequence[Result]]) -> str:
    """A row a line of one transport; a column a server."""
    rows = ["| line | level | what | " + " | ".join(columns) + " |", "|---|---|---|" + "---|" * len(columns)]
    results_by_line = [{result.line: result for result in found} for found in columns.values()]
    for line, _ in in_order(dict.fromkeys(LINES)):
        cells = " | ".join(cell(found.get(line)) for found in results_by_line)
        rows.append(f"| {line.number} {line.over} | {line.level} | {line.what} | {cells} |")
    return "\n".join(rows)


def in_order(by_line: Mapping[Line, T]) -> list[tuple[Line, T]]:
    return sorted(by_line.items(), key=lambda item: (OVERS.index(item[0].over), item[0].number))


def shown(result: Result) -> str:
    """The verdict, with the level of a fault that is against less than the line's own."""
    if result.verdict == "not applicable":
        return "n/a"
    is_weaker = result.verdict == "fail" and result.level != result.line.level
    return f"fail ({result.level})" if is_weaker else result.verdict


def cell(result: Result | None) -> str:
    """What was seen is stated where it is no plain pass."""
    if result is None or result.verdict == "pass":
        return "" if result is None else "pass"
    seen = result.seen if len(result.seen) <= MAX_SEEN else result.seen[:MAX_SEEN] + " …"
    return f"{shown(result)}: {seen.replace('|', '/')}"
