"""The sender and the sink as processes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import Process
from benchmarks.scenario import fetch


class SinkCounts(NamedTuple):
    """As `/_counts` of the sink states them."""

    unique: int
    repeats: int
    unknown: int
    bad: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Sink:
    """The upstream: one bit an item."""

    process: Process
    port: int

    def counts(self) -> SinkCounts:
        stated = json.loads(fetch(f"http://127.0.0.1:{self.port}/_counts"))
        return SinkCounts(*(stated[name] for name in SinkCounts._fields))

    def accept(self) -> None:
        """End the refusals."""
        fetch(f"http://127.0.0.1:{self.port}/_accept")


@contextmanager
def running_sink(peerbench: Path, log: Path, *, field: str = "span_id", refuses: bool = False) -> Iterator[Sink]:
    """A sink on a free port, ended with the block. *field* of a record holds the item's number."""
    process = Process([str(peerbench), "sink", "-field", field, *(["-refuse"] if refuses else [])], log=log)
    try:
        yield Sink(process, json.loads(process.read_line())["port"])
    finally:
        process.kill()


@dataclass(frozen=True, slots=True)
class SenderReport:
    """What the sender saw; `p50_ms` and its like over all answers."""

    requests: int
    acked_requests: int
    acked_items: int
    statuses: dict[str, int]
    broken: int
    elapsed_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    cpu_s: float
    body_bytes: int
    next_number: int
    last_refusal: str


class Sender:
    """Built and waiting; `go` sends."""

    def __init__(self, peerbench: Path, log: Path, *, port: int, template: Path, **options: Any) -> None:
        """*options*: flags of `peerbench load`."""
        flags = [f"-{name}={str(value).lower()}" for name, value in options.items()]
        command = [str(peerbench), "load", f"-address=127.0.0.1:{port}", f"-template={template}", *flags]
        self._process = Process(command, log=log)
        try:
            self._process.read_line()
        except BaseException:
            self._process.kill()
            raise

    def go(self) -> SenderReport:
        """Send, and return when the last answer is there."""
        try:
            self._process.write_line("go")
            return SenderReport(**json.loads(self._process.read_line()))
        finally:
            self._process.kill()
