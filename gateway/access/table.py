"""The SQL behind the key store: one function a statement, each inside the caller's transaction."""

import sqlite3
from collections.abc import Awaitable

from aiosqlite import Connection

from gateway.access.errors import LegacyKeyExists, NameTaken, NoSuchKey, NotConfirmed, PepperMismatch
from gateway.access.record import COLUMNS, KeyId, KeyRecord, Which, from_row, grant_from_columns, one_form, to_row
from gateway.common.contract.scopes import Grant

_COUNT_CHANGE = "UPDATE key_facts SET generation = generation + 1"


async def check_pepper(connection: Connection, check: bytes) -> None:
    """Note *check* with the first use. Raises PepperMismatch when another one was noted."""
    ((stored,),) = await connection.execute_fetchall("SELECT pepper_check FROM key_facts")
    if stored is None:
        await connection.execute("UPDATE key_facts SET pepper_check = ?", (check,))
    elif stored != check:
        raise PepperMismatch("the pepper file is not the one the stored keys were hashed with; restore it")


async def find(connection: Connection, which: Which) -> KeyRecord:
    """Raises NoSuchKey."""
    column, value = ("key_id", which.text) if isinstance(which, KeyId) else ("name", which)
    query = f"SELECT {COLUMNS} FROM keys WHERE {column} = ?"  # noqa: S608 - constants
    for row in await connection.execute_fetchall(query, (value,)):
        return from_row(row)  # type: ignore[arg-type]  # a plain tuple, as no row factory is set
    raise NoSuchKey("no key has this id" if isinstance(which, KeyId) else f"no key is named {which!r}")


async def insert(connection: Connection, key: KeyRecord, secret_hash: bytes) -> None:
    """Raises NameTaken, LegacyKeyExists."""
    row = (*to_row(key), secret_hash)
    statement = f"INSERT INTO keys ({COLUMNS}, secret_hash) VALUES ({', '.join('?' * len(row))})"  # noqa: S608 - constants
    await _unique(key.name, connection.execute(statement, row))
    await connection.execute(f"{_COUNT_CHANGE}, created = created + 1")


async def save(connection: Connection, key: KeyRecord) -> None:
    """All of it but the time of last access, which only ever goes forward. Raises NameTaken."""
    changes = [
        (column, value)
        for column, value in zip(COLUMNS.split(", "), to_row(key), strict=True)
        if column != "accessed_at_ms"
    ]
    statement = f"UPDATE keys SET {', '.join(f'{column} = ?' for column, _ in changes)} WHERE key_id = ?"  # noqa: S608 - constants
    await _unique(key.name, connection.execute(statement, (*(value for _, value in changes), key.key_id)))
    await connection.execute(_COUNT_CHANGE)


async def save_secret(connection: Connection, key_id: str, secret_hash: bytes) -> None:
    await connection.execute("UPDATE keys SET secret_hash = ? WHERE key_id = ?", (secret_hash, key_id))


async def find_legacy(connection: Connection) -> tuple[KeyRecord, bytes] | None:
    """The imported key with its secret's hash."""
    return await _with_hash(connection, "is_legacy")


async def find_by_id(connection: Connection, key_id: str) -> tuple[KeyRecord, bytes] | None:
    """The key with its secret's hash."""
    return await _with_hash(connection, "key_id = ?", key_id)


async def _with_hash(connection: Connection, where: str, *values: str) -> tuple[KeyRecord, bytes] | None:
    query = f"SELECT secret_hash, {COLUMNS} FROM keys WHERE {where}"  # noqa: S608 - constants
    for row in await connection.execute_fetchall(query, values):
        return from_row(row[1:]), row[0]
    return None


async def _unique(name: str, statement: Awaitable[object]) -> None:
    try:
        await statement
    except sqlite3.IntegrityError as error:
        if "keys.name" in str(error):
            raise NameTaken(f"name: a key named {name!r} exists") from error
        if "keys.is_legacy" in str(error):
            raise LegacyKeyExists("there is a key from before there were several already; delete it first") from error
        raise


async def delete(connection: Connection, which: Which, typed_name: str) -> None:
    """Raises NoSuchKey, NotConfirmed."""
    key = await find(connection, which)
    if one_form(typed_name) != one_form(key.name):
        raise NotConfirmed("name: deleting a key needs its exact name")
    await connection.execute("DELETE FROM keys WHERE key_id = ?", (key.key_id,))
    await connection.execute(_COUNT_CHANGE)


async def note_access(connection: Connection, noted: dict[str, int]) -> None:
    """*noted*: key id -> epoch ms of its last access; a stored time only ever goes forward."""
    await connection.executemany(
        "UPDATE keys SET accessed_at_ms = ?1 WHERE key_id = ?2 AND coalesce(accessed_at_ms, 0) < ?1",
        [(time_ms, key_id) for key_id, time_ms in noted.items()],
    )


async def every_key(connection: Connection) -> list[KeyRecord]:
    """By name."""
    rows = await connection.execute_fetchall(f"SELECT {COLUMNS} FROM keys ORDER BY name")  # noqa: S608 - constant
    return [from_row(row) for row in rows]  # type: ignore[arg-type]  # as above


def enabled_grant(connection: sqlite3.Connection, key_id: str) -> Grant | None:
    """What the key may do now; None for one that is disabled or deleted."""
    row = connection.execute(
        "SELECT mode, grants FROM keys WHERE key_id = ? AND status = 'Enabled'", (key_id,)
    ).fetchone()
    return None if row is None else grant_from_columns(*row)


def facts(connection: sqlite3.Connection) -> tuple[int, int]:
    """(generation, keys ever created)."""
    generation, created = connection.execute("SELECT generation, created FROM key_facts").fetchone()
    return generation, created


def every_key_with_hash(connection: sqlite3.Connection) -> list[tuple[KeyRecord, bytes]]:
    rows = connection.execute(f"SELECT secret_hash, {COLUMNS} FROM keys")  # noqa: S608 - constant
    return [(from_row(row[1:]), row[0]) for row in rows]
