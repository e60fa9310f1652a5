"""The one connection of a spool: opened, checked, and what it sees of numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg.types.numeric import Int8BinaryDumper, IntLoader, NumericBinaryLoader

from spool.errors import SpoolError, SpoolFull
from spool.postgres.connection import CONNECT, SESSION, text_of
from spool.postgres.durability import SETTINGS, Durability, unsafe_settings

READ_ONLY: Final = "25006"
"""SQLSTATE of a change at a server that became a standby."""


class _WholeNumberLoader(NumericBinaryLoader):
    """Sums of whole numbers are numeric in Postgres; the spool keeps no other numeric."""

    def load(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]  # a number in place of a Decimal
        return int(super().load(data))


def connect(dsn: str, durability: Durability) -> psycopg.Connection:
    """To a server that is safe enough. Raises SpoolError."""
    with mapped_errors():
        connection = psycopg.connect(dsn, **CONNECT)
        try:
            connection.execute(SESSION)
            _refuse_unsafe(connection, durability)
        except BaseException:
            connection.close()
            raise
        types = connection.adapters
        types.register_loader("numeric", _WholeNumberLoader)
        types.register_loader("numeric", IntLoader)
        types.register_dumper(int, Int8BinaryDumper)  # one type whatever the number, so one prepared statement
    return connection


def _refuse_unsafe(connection: psycopg.Connection, durability: Durability) -> None:
    rows = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", (list(SETTINGS),))
    unsafe = unsafe_settings(dict(rows.fetchall()), durability)
    if unsafe:
        raise SpoolError("Postgres: " + "; ".join(unsafe))


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Raise what psycopg raises as SpoolFull or SpoolError."""
    try:
        yield
    except psycopg.Error as error:
        raise spool_error(error) from error


def spool_error(error: psycopg.Error) -> SpoolError:
    """The SpoolError that stands for it."""
    kind = SpoolFull if isinstance(error, psycopg.errors.DiskFull) else SpoolError
    return kind(f"Postgres: {text_of(error)}")


def is_broken(connection: psycopg.Connection, error: psycopg.Error) -> bool:
    """Whether the connection is of no use after *error*."""
    return bool(connection.closed or connection.broken or error.sqlstate == READ_ONLY)
