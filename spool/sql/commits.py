"""What the stores in one spool.db share: commits of its writer, numbers of chunks, both clocks."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from spool.counters import Counters
from spool.record import Lane
from spool.settings import SpoolSettings
from spool.sql.connection import Connection
from spool.store import SupervisedLaneStore

T = TypeVar("T")


class Commits(SupervisedLaneStore, Protocol):
    """A spool in SQL, as the stores that it hands out use it."""

    settings: SpoolSettings

    def ask(self, operation: Callable[[Connection, Counters], T]) -> Awaitable[T]:
        """Run *operation* in the next commit, whole or not at all."""

    def ask_behind(self, operation: Callable[[Connection, Counters], T]) -> Awaitable[T]:
        """As `ask`, of what no append depends on: none waits for it."""

    def ask_with_appends(self, operation: Callable[[Connection, Counters], T]) -> Awaitable[T]:
        """As `ask`, with all of what was appended in the same `reserve` or not at all."""

    def look(self, read: Callable[[Connection], T]) -> Awaitable[T]:
        """What *read* finds, behind what waits now; it writes nothing."""

    def reserve(self) -> AbstractContextManager[object]:
        """While it is held, a chunk's number stays the next one until the `ask` that writes it."""

    def number_chunk(self) -> int:
        """The number of a chunk that an operation asked in the same `reserve` writes itself."""

    def followers(self, own: Lane) -> list[Lane]:
        """The lanes that read the chunks of *own*."""

    def wake(self, own: Lane) -> None:
        """Something may be ready in the lanes that read *own*."""

    def freed(self, size_bytes: int) -> None:
        """About so much was deleted: a home that measures its room rarely counts it by that."""

    def age_ms(self) -> int:
        """The suspend-aware monotonic clock (`spool.age`)."""

    def wall_ms(self) -> int:
        """The wall clock, for stamps."""
