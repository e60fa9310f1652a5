"""Removes a user from the records of the local service; sums and counts stay."""

import sqlite3
from collections.abc import Collection
from functools import partial

import orjson

from gateway.common.storage.database import Database


async def forget_users(database: Database, users: Collection[str], *, dry_run: bool) -> int:
    """How many records name one of *users*; without *dry_run* none does any more."""
    ask = database.read if dry_run else database.write
    return await ask(partial(_forget_users, users=users, dry_run=dry_run))


def _forget_users(connection: sqlite3.Connection, users: Collection[str], *, dry_run: bool) -> int:
    named = [
        record_no
        for (record_no,) in connection.execute(
            "SELECT record_no FROM ai_records WHERE user IN (SELECT value FROM json_each(?))",
            (orjson.dumps([*users]).decode(),),
        )
    ]
    if not dry_run:
        connection.execute("PRAGMA secure_delete = ON")  # what is written over is no longer in the file
        for record_no in named:
            _forget(connection, record_no)
    return len(named)


def _forget(connection: sqlite3.Connection, record_no: int) -> None:
    connection.execute("UPDATE ai_records SET user = NULL WHERE record_no = ?", (record_no,))
    (body,) = connection.execute("SELECT record FROM ai_record_bodies WHERE record_no = ?", (record_no,)).fetchone()
    record = orjson.loads(body)
    record["attribution"]["user"] = None
    connection.execute("UPDATE ai_record_bodies SET record = ? WHERE record_no = ?", (orjson.dumps(record), record_no))
