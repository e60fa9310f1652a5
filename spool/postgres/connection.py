"""A connection to Postgres over psycopg, for what is written once for SQLite and Postgres."""

import os
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg.rows import TupleRow

CONNECT: Final[dict[str, Any]] = {
    "application_name": "ai-telemetry-gateway",
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",  # of several hosts, the primary
    "autocommit": True,
}
"""Of every connection."""
SILENT_S: Final = 5
"""The server ends a transaction whose process says nothing for so long, as one that was stopped: it
holds what another gateway waits for. A COMMIT that waits for its standbys is not ended."""
SESSION: Final = (
    f"SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = {SILENT_S * 1000};"
    " SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
)
"""To be run first on every connection. A commit that is cancelled answers success, so nothing is.
The locks of a process whose machine is gone are freed within half a minute."""
_STATEMENTS: Final = 512
"""Texts of SQL whose translation is kept; some state the ids of streams."""


class PostgresConnection:
    """`spool.sql.connection.Connection` inside a transaction.

    Postgres keeps no NUL in a text: it is kept as U+FFFD.
    """

    def __init__(self, connection: psycopg.Connection, *, is_binary: bool = False) -> None:
        """*is_binary*: whether values come in Postgres' own form, which is shorter for bytes."""
        self._connection = connection
        self._is_binary = is_binary

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor[TupleRow]:
        if not parameters:  # a migration has several statements, which go out at once
            return self._connection.execute(sql)
        return self._connection.execute(_placeholders(sql), _values(parameters), binary=self._is_binary)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> psycopg.Cursor[TupleRow]:
        cursor = self._connection.cursor()
        cursor.executemany(_placeholders(sql), map(_values, parameters))
        return cursor


def break_off(connection: psycopg.Connection) -> None:
    """From another thread than the one that uses it: what is under way fails there at once, and the
    server goes on with it.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as server:
        server.shutdown(socket.SHUT_RDWR)


def text_of(error: psycopg.Error) -> str:
    """The error in one line, without what Postgres adds to it: that may quote a row."""
    return " ".join((error.diag.message_primary or str(error)).split()) or type(error).__name__


@lru_cache(_STATEMENTS)
def _placeholders(sql: str) -> str:
    """*sql* as psycopg reads it. No statement of ours has a `?` in a text."""
    return sql.replace("%", "%%").replace("?", "%s")


def _values(parameters: Sequence[Any]) -> list[Any]:
    return [x.replace("\0", "\ufffd") if isinstance(x, str) else x for x in parameters]
