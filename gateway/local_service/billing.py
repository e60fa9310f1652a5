"""Billing drops to an established connection: validated, kept, read back (wire contract 6.5).

The Common Bill Format replaces a month, replaces hours, or adds. FOCUS rows replace one UTC day of
one sender (`gateway.common.contract.billing`): parts wait until the last one is there, then the day
is put into force in one transaction.
"""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final

import orjson

from gateway.common.contract.billing import FOCUS, MAX_ROWS, MONTH, REPLACE_DAILY
from gateway.common.lists.conventions import Filterable, ListShape, Sort
from gateway.common.lists.table import ListTable
from gateway.local_service.billing_bodies import OPERATIONS, Drop, Manifest, read_drop, refuse_other_sums
from gateway.local_service.billing_connections import Connection, find
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.checks import Fields, decoded_object
from gateway.local_service.errors import Invalid, TooLarge
from gateway.local_service.lists import list_answer
from gateway.local_service.times import DAY_MS, parse_ms
from spool.clock import rfc3339_ms

_OF_CONNECTION: Final = "connection_id = ?"
_OF_DAY: Final = "WHERE connection_no = ? AND source = ? AND month = ? AND starts_at_ms >= ? AND starts_at_ms < ?"


def _drop_item(row: tuple[object, ...]) -> dict[str, object]:
    drop_id, month, operation, format_, row_count, stored_at_ms, day, source, revision = row
    return {
        "id": drop_id,
        "month": month,
        "operation": operation,
        "format": format_,
        "row_count": row_count,
        "stored_at": rfc3339_ms(stored_at_ms),  # type: ignore[arg-type]  # an INTEGER column
        "day": day,
        "source": source,
        "revision": revision,
    }


DROPS: Final = ListTable(
    shape=ListShape(
        root="billing_drops",
        sort_keys=("month", "stored_at"),
        default_sort=Sort("stored_at", "asc"),
        filters=(Filterable("format", ("cbf", FOCUS)), Filterable("operation", (*OPERATIONS, REPLACE_DAILY))),
    ),
    source="billing_drops",
    row_id="drop_no",
    expressions={"month": "month", "stored_at": "stored_at_ms", "format": "format", "operation": "operation"},
    select="drop_id, month, operation, format, row_count, stored_at_ms, day, source, revision",
    item_of=_drop_item,
    numbers=("stored_at",),
)
ROWS: Final = ListTable(
    shape=ListShape(root="rows", name="billing", sort_keys=("starts_at",), default_sort=Sort("starts_at", "asc")),
    source="billing_rows",
    row_id="row_no",
    expressions={"starts_at": "starts_at_ms"},
    select="row",
    item_of=lambda row: orjson.Fragment(row[0]),  # type: ignore[arg-type]  # the column is a BLOB
    numbers=("starts_at",),
)


def validate(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """The dry run: the same checks, nothing stored."""
    drop = read_drop(decoded_object(call.body))
    if drop.manifest is not None and drop.manifest.parts == 1:
        refuse_other_sums(drop.rows, drop.manifest)
    return json_answer(200, {"connection": {"month": drop.month, "row_count": len(drop.rows)}})


def drop(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """Take a drop, or a part of one. Raises Invalid: 404 for a connection that is not established,
    423 for one that is paused.
    """
    body = decoded_object(call.body)
    to = find(connection, call.params["connection_id"])
    if to.status != "active":
        raise Invalid("connection_paused", "the billing connection is paused: it takes no drop", status=423)
    taken = read_drop(body)
    if taken.manifest is not None:
        return _take_part(connection, call, to, taken, taken.manifest)
    _replace_cbf(connection, to, taken)
    _add_rows(connection, to, taken, "")
    _note_drop(connection, call, to, taken, len(taken.rows))
    return _taken(taken, {"drop_id": call.request_id})


def drops(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """What was dropped to the connection; of FOCUS one a day and revision."""
    to = find(connection, call.params["connection_id"]).connection_id
    return list_answer(connection, DROPS.of(to), call, only=_OF_CONNECTION, params=(to,))


def month_rows(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """The rows of a month that are in force."""
    to, month = find(connection, call.params["connection_id"]), call.params["month"]
    if MONTH.fullmatch(month) is None:
        raise Invalid("invalid_month", "month: YYYY-MM is needed")
    table = ROWS.of(f"{to.connection_id}/{month}")
    return list_answer(
        connection, table, call, only="connection_no = ? AND month = ?", params=(to.connection_no, month)
    )


def _taken(drop: Drop, more: dict[str, object]) -> ServiceAnswer:
    return json_answer(200, {"connection": {"month": drop.month, "row_count": len(drop.rows), **more}})


# ---- Common Bill Format


def _replace_cbf(connection: sqlite3.Connection, to: Connection, drop: Drop) -> None:
    whole_month = "DELETE FROM billing_rows WHERE connection_no = ? AND source = '' AND month = ?"
    if drop.operation == "replace_drop":
        connection.execute(whole_month, (to.connection_no, drop.month))
    elif drop.operation == "replace_hourly":
        hours = [(to.connection_no, drop.month, hour) for hour in set(drop.starts_at_ms)]
        connection.executemany(f"{whole_month} AND starts_at_ms = ?", hours)


# ---- FOCUS


def _take_part(
    connection: sqlite3.Connection, call: ServiceCall, to: Connection, drop: Drop, manifest: Manifest
) -> ServiceAnswer:
    """Parts of another revision, or of the same divided otherwise, are deleted: the answer to the
    last one is `partial`, and the sender sends all again.
    """
    of_day = (to.connection_no, manifest.source, manifest.day)
    in_force = connection.execute(
        "SELECT revision, drop_id FROM billing_days WHERE connection_no = ? AND source = ? AND day = ?", of_day
    ).fetchone()
    if in_force is not None and in_force[0] == manifest.revision:
        _refuse_other_rows(_rows_in_force(connection, to, drop.month, manifest), drop, manifest)
        return _taken(drop, {"drop_id": in_force[1], "state": "complete", "parts_received": manifest.parts})
    division = f"{manifest.revision}/{manifest.parts}"
    connection.execute(
        "DELETE FROM billing_parts WHERE connection_no = ? AND source = ? AND day = ? AND revision <> ?",
        (*of_day, division),
    )
    connection.execute(
        "INSERT INTO billing_parts (connection_no, source, day, revision, part, rows) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET rows = excluded.rows",
        (*of_day, division, manifest.part, orjson.dumps(drop.rows)),
    )
    parts = connection.execute(
        "SELECT rows FROM billing_parts WHERE connection_no = ? AND source = ? AND day = ? ORDER BY part", of_day
    ).fetchall()
    if len(parts) < manifest.parts:
        return _taken(drop, {"state": "partial", "parts_received": len(parts)})
    whole = chain.from_iterable(orjson.loads(rows) for (rows,) in parts)
    _put_in_force(connection, call, to, drop, manifest, tuple(whole))
    return _taken(drop, {"drop_id": call.request_id, "state": "complete", "parts_received": len(parts)})


def _rows_in_force(
    connection: sqlite3.Connection, to: Connection, month: str, manifest: Manifest
) -> tuple[Fields, ...]:
    rows = connection.execute(f"SELECT row FROM billing_rows {_OF_DAY}", _of_day(to, month, manifest))  # noqa: S608 - own SQL
    return tuple(orjson.loads(row) for (row,) in rows)


def _refuse_other_rows(in_force: Sequence[Fields], drop: Drop, manifest: Manifest) -> None:
    """Raises Invalid where *drop* is no part of the rows that are *in_force* under its revision: it
    would be answered as complete, and not be stored.
    """
    refuse_other_sums(in_force, manifest)
    if Counter(map(_canonical, drop.rows)) - Counter(map(_canonical, in_force)):
        text = "manifest.revision: it is in force with other rows; a day that changed needs another revision"
        raise Invalid("revision_in_force", text, status=409)


def _canonical(row: Fields) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)


def _of_day(to: Connection, month: str, manifest: Manifest) -> tuple[object, ...]:
    """The parameters of `_OF_DAY`."""
    day_ms = parse_ms(manifest.day) or 0
    return to.connection_no, manifest.source, month, day_ms, day_ms + DAY_MS


def _put_in_force(
    connection: sqlite3.Connection,
    call: ServiceCall,
    to: Connection,
    part: Drop,
    manifest: Manifest,
    rows: tuple[Fields, ...],
) -> None:
    """Replace the day by the *rows* of all its parts. Raises Invalid where they are not what the
    manifest states.
    """
    refuse_other_sums(rows, manifest)
    of_day = (to.connection_no, manifest.source, manifest.day)
    connection.execute(f"DELETE FROM billing_rows {_OF_DAY}", _of_day(to, part.month, manifest))  # noqa: S608 - own SQL
    starts = tuple(parse_ms(str(row["ChargePeriodStart"])) or 0 for row in rows)
    _add_rows(connection, to, part._replace(rows=rows, starts_at_ms=starts), manifest.source)
    connection.execute("DELETE FROM billing_parts WHERE connection_no = ? AND source = ? AND day = ?", of_day)
    connection.execute(
        "INSERT INTO billing_days (connection_no, source, day, revision, drop_id) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET revision = excluded.revision, drop_id = excluded.drop_id",
        (*of_day, manifest.revision, call.request_id),
    )
    _note_drop(connection, call, to, part, len(rows))


# ---- both


def _add_rows(connection: sqlite3.Connection, to: Connection, drop: Drop, source: str) -> None:
    connection.executemany(
        "INSERT INTO billing_rows (connection_no, source, month, starts_at_ms, row) VALUES (?, ?, ?, ?, ?)",
        [
            (to.connection_no, source, drop.month, starts_at_ms, orjson.dumps(row))
            for row, starts_at_ms in zip(drop.rows, drop.starts_at_ms, strict=True)
        ],
    )
    (count,) = connection.execute(
        "SELECT count(*) FROM billing_rows WHERE connection_no = ? AND month = ?", (to.connection_no, drop.month)
    ).fetchone()
    if count > MAX_ROWS:
        raise TooLarge(f"the month would have {count} rows; {MAX_ROWS} are the most")


def _note_drop(connection: sqlite3.Connection, call: ServiceCall, to: Connection, drop: Drop, row_count: int) -> None:
    manifest = drop.manifest
    of_focus = (None, None, None) if manifest is None else (manifest.day, manifest.source, manifest.revision)
    connection.execute(
        "INSERT INTO billing_drops (drop_id, connection_id, month, operation, row_count, stored_at_ms, format, day,"
        " source, revision) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (call.request_id, to.connection_id, drop.month, drop.operation, row_count, call.now_ms, drop.format, *of_focus),
    )
