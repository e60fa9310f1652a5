"""How far a long command is: a bar on a terminal, else a line on stderr every few seconds."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LINE_EVERY_S: Final = 5.0
LOOK_EVERY_S: Final = 0.25


class Shown(Protocol):
    """One command's progress, step by step."""

    def begin(self, step: str, total: int | None) -> Callable[[int], None]:
        """Show *step*, of *total* bytes (None: unknown); call the result with the bytes done since
        its last call.
        """


class Bars:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def begin(self, step: str, total: int | None) -> Callable[[int], None]:
        task = self._progress.add_task(step, total=total)
        return lambda done: self._progress.update(task, advance=done)


class Lines:
    """*monotonic_s* decides when a line is due."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s

    def begin(self, step: str, total: int | None) -> Callable[[int], None]:
        done, next_s = 0, self._monotonic_s() + LINE_EVERY_S

        def advance(more: int) -> None:
            nonlocal done, next_s
            done += more
            if self._monotonic_s() >= next_s:
                next_s = self._monotonic_s() + LINE_EVERY_S
                click.echo(line_of(step, done, total), err=True)

        return advance


def line_of(step: str, done: int, total: int | None) -> str:
    """`Copying: 12 of 80 MiB (15 %)`"""
    if not total:
        return f"{step}: {done >> 20} MiB"
    return f"{step}: {done >> 20} of {total >> 20} MiB ({min(100, 100 * done // total)} %)"


@contextmanager
def progress() -> Iterator[Shown]:
    """Bars while stderr is a terminal, else lines."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        DownloadColumn(binary_units=True),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield Bars(bars)


@contextmanager
def watched(measure: Callable[[], int], advance: Callable[[int], None]) -> Iterator[None]:
    """Report to *advance*, every quarter of a second, what *measure* has grown by."""
    before = 0

    def look() -> None:
        nonlocal before
        now = measure()
        advance(max(0, now - before))
        before = max(now, before)

    with every(LOOK_EVERY_S, look):
        yield


@contextmanager
def waiting(step: str) -> Iterator[None]:
    """Show that *step* goes on where nothing states how far it is: the time on a terminal, else a
    line every few seconds.
    """
    if sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), SpinnerColumn("line"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            bars.add_task(step, total=None)
            yield
        return
    began_s = time.monotonic()
    with every(LINE_EVERY_S, lambda: click.echo(f"{step}: {time.monotonic() - began_s:.0f} s", err=True)):
        yield


@contextmanager
def every(pause_s: float, act: Callable[[], None]) -> Iterator[None]:
    """Call *act* again and again, on a thread of its own, until the block ends."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause_s):
            act()

    repeating = threading.Thread(target=repeat, daemon=True)
    repeating.start()
    try:
        yield
    finally:
        over.set()
        repeating.join()
