"""Tables by part, each part with a version of its own; gateways that start together make them one
after the other.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from spool.postgres.connection import PostgresConnection

ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended('ai-telemetry-gateway ' || current_schema(), 0))"
"""Begins a transaction that changes tables."""
_PARTS: Final = "CREATE TABLE IF NOT EXISTS parts (part TEXT PRIMARY KEY, version BIGINT NOT NULL)"


def migrate(connection: PostgresConnection, part: str, scripts: Sequence[str]) -> None:
    """Bring *part*'s tables to the last of *scripts*, which are numbered from 1 and never edited
    once released; in the transaction of *connection*, which began with `ONE_AT_A_TIME`.
    """
    connection.execute(_PARTS)
    row = connection.execute("SELECT version FROM parts WHERE part = ?", (part,)).fetchone()
    done: int = row[0] if row else 0
    for script in scripts[done:]:
        connection.execute(script)
    if done < len(scripts):  # a newer release only adds to what this one knows
        connection.execute(
            "INSERT INTO parts (part, version) VALUES (?, ?)"
            " ON CONFLICT (part) DO UPDATE SET version = excluded.version",
            (part, len(scripts)),
        )


def spool_scripts() -> list[str]:
    """The migrations of the spool's tables."""
    found = [file for file in files("spool.postgres.migrations").iterdir() if file.name.endswith(".sql")]
    return [file.read_text("utf-8") for file in sorted(found, key=lambda file: file.name)]
