"""The SQL behind the key store: one function a statement, each inside the caller's transaction."""

import sqlite3
from collections.abc import Callable

from gateway.keys.errors import NameTaken, NoSuchKey, PepperMismatch
from gateway.keys.record import COLUMNS, KeyRecord, from_row, grant_columns


def check_pepper(check: bytes, connection: sqlite3.Connection) -> None:
    (stored,) = connection.execute("SELECT pepper_check FROM key_facts").fetchone()
    if stored is None:
        connection.execute("UPDATE key_facts SET pepper_check = ?", (check,))
    elif stored != check:
        raise PepperMismatch("the pepper file is not the one the stored keys were hashed with; restore it")


def find(name: str, connection: sqlite3.Connection) -> KeyRecord:
    row = connection.execute(f"SELECT {COLUMNS} FROM keys WHERE name = ?", (name,)).fetchone()  # noqa: S608 - constant
    if row is None:
        raise NoSuchKey(f"no key is named {name!r}")
    return from_row(row)


def insert(key: KeyRecord, secret_hash: bytes, connection: sqlite3.Connection) -> None:
    mode, grants = grant_columns(key.grant)
    row = (key.key_id, key.name, key.description, mode, grants, key.status, key.display)
    times = (key.created_by, key.created_at_ms, key.updated_by, key.modified_at_ms, key.accessed_at_ms)
    statement = f"INSERT INTO keys ({COLUMNS}, secret_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constant
    _unique_name(key.name, lambda: connection.execute(statement, (*row, *times, secret_hash)))
    connection.execute("UPDATE key_facts SET generation = generation + 1, created = created + 1")


def save(key: KeyRecord, connection: sqlite3.Connection) -> None:
    statement = (
        "UPDATE keys SET name = ?, description = ?, mode = ?, grants = ?, status = ?, updated_by = ?, modified_at_ms = ?"
        " WHERE key_id = ?"
    )
    changed = (key.name, key.description, *grant_columns(key.grant), key.status, key.updated_by, key.modified_at_ms)
    _unique_name(key.name, lambda: connection.execute(statement, (*changed, key.key_id)))
    connection.execute("UPDATE key_facts SET generation = generation + 1")


def _unique_name(name: str, run: Callable[[], object]) -> None:
    try:
        run()
    except sqlite3.IntegrityError as error:
        if "keys.name" not in str(error):
            raise
        raise NameTaken(f"a key named {name!r} exists") from error


def delete(name: str, connection: sqlite3.Connection) -> None:
    if connection.execute("DELETE FROM keys WHERE name = ?", (name,)).rowcount == 0:
        raise NoSuchKey(f"no key is named {name!r}")
    connection.execute("UPDATE key_facts SET generation = generation + 1")


def note_access(noted: dict[str, int], connection: sqlite3.Connection) -> None:
    connection.executemany(
        "UPDATE keys SET accessed_at_ms = ?1 WHERE key_id = ?2 AND coalesce(accessed_at_ms, 0) < ?1",
        [(time_ms, key_id) for key_id, time_ms in noted.items()],
    )


def every_key(connection: sqlite3.Connection) -> list[KeyRecord]:
    """By name."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM keys ORDER BY name")  # noqa: S608 - constant
    return [from_row(row) for row in rows]


def facts(connection: sqlite3.Connection) -> tuple[int, int]:
    """(generation, keys ever created)."""
    generation, created = connection.execute("SELECT generation, created FROM key_facts").fetchone()
    return generation, created


def every_key_with_hash(connection: sqlite3.Connection) -> list[tuple[KeyRecord, bytes]]:
    rows = connection.execute(f"SELECT secret_hash, {COLUMNS} FROM keys")  # noqa: S608 - constant
    return [(from_row(row[1:]), row[0]) for row in rows]
