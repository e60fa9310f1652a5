"""The SQL behind the key store: one function a statement, each inside the caller's transaction."""

import sqlite3
from collections.abc import Callable

from gateway.keys.errors import LegacyKeyExists, NameTaken, NoSuchKey, NotConfirmed, PepperMismatch
from gateway.keys.record import COLUMNS, KeyId, KeyRecord, Which, from_row, one_form, to_row


def check_pepper(check: bytes, connection: sqlite3.Connection) -> None:
    (stored,) = connection.execute("SELECT pepper_check FROM key_facts").fetchone()
    if stored is None:
        connection.execute("UPDATE key_facts SET pepper_check = ?", (check,))
    elif stored != check:
        raise PepperMismatch("the pepper file is not the one the stored keys were hashed with; restore it")


def find(which: Which, connection: sqlite3.Connection) -> KeyRecord:
    column, value = ("key_id", which.text) if isinstance(which, KeyId) else ("name", which)
    row = connection.execute(f"SELECT {COLUMNS} FROM keys WHERE {column} = ?", (value,)).fetchone()  # noqa: S608 - constants
    if row is None:
        raise NoSuchKey("no key has this id" if isinstance(which, KeyId) else f"no key is named {which!r}")
    return from_row(row)


def insert(key: KeyRecord, secret_hash: bytes, connection: sqlite3.Connection) -> None:
    row = (*to_row(key), secret_hash)
    statement = f"INSERT INTO keys ({COLUMNS}, secret_hash) VALUES ({', '.join('?' * len(row))})"  # noqa: S608 - constants
    _unique(key.name, lambda: connection.execute(statement, row))
    connection.execute("UPDATE key_facts SET generation = generation + 1, created = created + 1")


def save(key: KeyRecord, connection: sqlite3.Connection) -> None:
    """All of it but the time of last access, which only ever goes forward."""
    changes = [
        (column, value)
        for column, value in zip(COLUMNS.split(", "), to_row(key), strict=True)
        if column != "accessed_at_ms"
    ]
    statement = f"UPDATE keys SET {', '.join(f'{column} = ?' for column, _ in changes)} WHERE key_id = ?"  # noqa: S608 - constants
    _unique(key.name, lambda: connection.execute(statement, (*(value for _, value in changes), key.key_id)))
    connection.execute("UPDATE key_facts SET generation = generation + 1")


def _unique(name: str, run: Callable[[], object]) -> None:
    try:
        run()
    except sqlite3.IntegrityError as error:
        if "keys.name" in str(error):
            raise NameTaken(f"name: a key named {name!r} exists") from error
        if "keys.is_legacy" in str(error):
            raise LegacyKeyExists("there is a key from before there were several already; delete it first") from error
        raise


def delete(which: Which, typed_name: str, connection: sqlite3.Connection) -> None:
    key = find(which, connection)
    if one_form(typed_name) != one_form(key.name):
        raise NotConfirmed("name: deleting a key needs its exact name")
    connection.execute("DELETE FROM keys WHERE key_id = ?", (key.key_id,))
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
