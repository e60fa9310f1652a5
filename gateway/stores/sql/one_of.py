"""A list of values as one parameter: SQLite bounds how many a statement has."""

import json
import sqlite3
from collections.abc import Collection
from typing import Any, Literal

from spool.sql.connection import Connection


def one_of(
    connection: Connection, values: Collection[int | str], kind: Literal["BIGINT", "TEXT"]
) -> tuple[str, list[Any]]:
    """What stands behind IN for *values*, which are of *kind*, and its parameters."""
    if isinstance(connection, sqlite3.Connection):
        return "(SELECT value FROM json_each(?))", [json.dumps([*values])]
    return f"(SELECT unnest(CAST(? AS {kind}[])))", [[*values]]
