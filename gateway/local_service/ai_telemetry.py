"""AI telemetry: ingest, and the list of accepted records (wire contract 6.1)."""

import sqlite3
from collections.abc import Sequence

import orjson

from gateway.common.contract.ai_telemetry import ENVELOPE_SCHEMA
from gateway.common.lists.conventions import Filterable, ListShape, Sort
from gateway.common.lists.table import ListTable
from gateway.local_service.ai_records import COLUMNS, KINDS, STATUSES, RecordRow, record_row
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.checks import Fields, as_list, choice, decoded_object, present, text, time_ms
from gateway.local_service.errors import Invalid, TooLarge
from gateway.local_service.lists import list_answer

MAX_RECORDS = 1000
MAX_BYTES = 4 * 1024 * 1024

_INSERT = (
    f"INSERT OR IGNORE INTO ai_records ({', '.join(COLUMNS)}, stored_at_ms, gateway_id, batch_id)"  # noqa: S608 - constant
    f" VALUES ({', '.join('?' * (len(COLUMNS) + 3))})"
)
_INSERT_BODY = (
    "INSERT OR IGNORE INTO ai_record_bodies (record_no, record)"
    " VALUES ((SELECT record_no FROM ai_records WHERE record_id = ?), ?)"
)

RECORDS = ListTable(
    shape=ListShape(
        root="records",
        name="ai-telemetry",
        sort_keys=("model", "operation", "provider", "started_at"),
        default_sort=Sort("started_at", "asc"),
        filters=(
            Filterable("billed", ("true", "false"), ("boolean",)),
            Filterable("kind", KINDS),
            Filterable("status", STATUSES),
        ),
    ),
    source="ai_records",
    row_id="record_no",
    expressions={
        "started_at": "started_at_ms",
        "operation": "operation",
        "provider": "ifnull(provider, '')",
        "model": "ifnull(model, '')",
        "kind": "kind",
        "status": "status",
        "billed": "iif(billed, 'true', 'false')",
    },
    select="(SELECT record FROM ai_record_bodies AS b WHERE b.record_no = ai_records.record_no)",
    item_of=lambda row: orjson.Fragment(row[0]),  # type: ignore[arg-type]  # the column is a BLOB
    numbers=("started_at",),
)


def ingest(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """Store the valid records and list the invalid ones. A known record id is accepted, and its
    record stays unchanged.
    """
    body = decoded_object(call.body)
    origin = _origin(body)
    records = as_list(present(body, "records"), "records")
    if len(records) > MAX_RECORDS:
        raise TooLarge(f"{len(records)} records; {MAX_RECORDS} are the most")
    rows, rejected = _sorted_out(records)
    store_rows(connection, rows, call, origin)
    return json_answer(202, {"accepted": len(rows), "rejected": rejected})


def store_rows(
    connection: sqlite3.Connection, rows: Sequence[RecordRow], call: ServiceCall, origin: tuple[str, str]
) -> None:
    """Store the records that are new; *origin*: (gateway id, batch id)."""
    connection.executemany(_INSERT, [(*row.columns, call.now_ms, *origin) for row in rows])
    connection.executemany(_INSERT_BODY, [(row.record_id, row.record) for row in rows])


def records(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    return list_answer(connection, RECORDS, call)


def _origin(body: Fields) -> tuple[str, str]:
    """(gateway id, batch id) of an envelope."""
    choice(body, "schema", (ENVELOPE_SCHEMA,))
    time_ms(body, "sent_at")
    return text(body, "gateway_id"), text(body, "batch_id")


def _sorted_out(records: list[object]) -> tuple[list[RecordRow], list[dict[str, object]]]:
    rows, rejected = [], []
    for index, record in enumerate(records):
        try:
            rows.append(record_row(record))
        except Invalid as error:
            rejected.append({"index": index, "code": error.code, "message": str(error)})
    return rows, rejected
