"""Rows of a product's log -> calls, by one table a product. Pure; the reader of all
sources whose items are rows.

A source of rows is one module: a `Convention` (where names and counts stand), a
`RowTable` (what is a call, when it ran, what identifies it), a `Source`
(authentication, snippet, retries), a line in `catalogue.py`, a page in `docs/senders/`
and a folder of real payloads in `tests/data/corpus/gateways/`. What no table expresses
is a small named function that the table refers to.

The steps of a row: prepare, pick, outcome, adjust, answer, report, refine.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gateway.common.operations import reassembled
from gateway.products.answers import error_in, take_body
from gateway.products.documents import Document
from gateway.products.fields import Path, at_path, pick_fields, text_of
from gateway.products.items import at, http_status, ignore, is_failure, objects, reject, spoken_ms, suppress
from gateway.products.paths import operation_of_path
from gateway.products.reporting import Report, add_call, content_id, epoch_ms
from gateway.products.source import Read, SourceRead
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json

Row = dict[str, Json]
Paths = tuple[str, ...]
"""Where a value stands, dots between names (`gateway.products.fields`); the
first path with a value wins."""

CALL: Final = ""
IGNORED: Final = "ignored"


def itself(row: Row) -> Row:
    return row


def by_content(row: Row, picked: Extracted, context: Context) -> str:
    """The identity of a row without an id: its counts and model."""
    return content_id(picked.texts.get("request_model"), *sorted(picked.counts.items()))


@dataclass(frozen=True, slots=True)
class RowTable:
    """How the rows of one product become calls.

    Absent paths: the product does not report that value.
    """

    convention: Convention
    outcome: Callable[[Row, Extracted], str]
    """`CALL`, `IGNORED`, or the reason why the row is suppressed."""
    items: Paths = ()
    """Names under which a document holds its rows, as a list or as one object;
    else the document is the row."""
    prepare: Callable[[Row], Row] = itself
    """The row as the table's paths expect it: maps unwrapped, names in one spelling."""
    start: Paths = ()
    end: Paths = ()
    duration: Paths = ()
    """Milliseconds as a number, or a text with its unit."""
    status: Paths = ()
    """HTTP status: 400 or more is a failure."""
    event_id: Paths = ()
    identity: Callable[[Row, Extracted, Context], str] = by_content
    """Where no event id stands."""
    trace_id: Paths = ()
    span_id: Paths = ()
    path: Paths = ()
    """The request's path or address, which names the operation."""
    operation: str | None = None
    """Where neither the row nor the path names one."""
    free_is_unknown: bool = False
    """The product writes a cost of 0 where it has no price."""
    answer: Callable[[Row], Json] | None = None
    """The provider's own answer inside the row: its ids and usage are taken."""
    adjust: Callable[[Extracted, Row], None] | None = None
    """Rules of the product on what was picked, before the answer is read."""
    refine: Callable[[Report, Row], Report] | None = None
    """Rules of the product on the finished report."""


def rows_reader(table: RowTable) -> Read:
    """`Source.read` by *table*."""
    return partial(read_rows, table)


def read_rows(table: RowTable, documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    for position, document in objects(documents, out):
        for where, row in rows_in(document, position, table.items, out):
            _add_row(table, row, where, out, context)


def rows_in(document: Row, position: str, items: Paths, out: SourceRead) -> Iterator[tuple[str, Row]]:
    """Position and value of each row in *document*; an entry of the list that
    is no object is rejected.
    """
    for name in items:
        found = document.get(name)
        if isinstance(found, dict):
            yield at(position, name), found
            return
        if isinstance(found, list):
            for n, row in enumerate(found):
                where = at(position, f"{name}[{n}]")
                if isinstance(row, dict):
                    yield where, row
                else:
                    reject(out, "not_an_object", where)
            return
    yield position, document


def first_at(row: Row, paths: Paths) -> Json:
    """The first value at one of *paths*; None where none of them holds one."""
    for name in paths:
        value = at_path(row, Path(name, tuple(name.split("."))))
        if value not in (None, ""):
            return value
    return None


def _add_row(table: RowTable, sent: Row, position: str, out: SourceRead, context: Context) -> None:
    row = sent if table.prepare is itself else reassembled(table.prepare(sent))
    picked = pick_fields(row, table.convention)
    outcome = table.outcome(row, picked)
    if outcome == IGNORED:
        ignore(out, position)
    elif outcome != CALL:
        suppress(out, outcome, position)
    else:
        out.calls.items += 1
        add_call(out.calls, _report(table, row, picked, context), table.convention, position, context)


def _report(table: RowTable, row: Row, picked: Extracted, context: Context) -> Report:
    if table.free_is_unknown and not picked.numbers.get("cost"):
        picked.numbers.pop("cost", None)
    if table.adjust is not None:
        table.adjust(picked, row)
    body = table.answer(row) if table.answer is not None else None
    if body is not None:
        take_body(picked, body)
    path = first_at(row, table.path)
    operation = operation_of_path(path if isinstance(path, str) else None)
    if operation is not None and (table.operation is None or "operation" not in picked.texts):
        picked.texts["operation"] = operation
    elif table.operation is not None:
        picked.texts.setdefault("operation", table.operation)
    status = http_status(first_at(row, table.status))
    error = error_in(body)
    report = Report(
        picked,
        event_id=text_of(first_at(row, table.event_id)) or table.identity(row, picked, context),
        start_ms=epoch_ms(first_at(row, table.start)),
        end_ms=epoch_ms(first_at(row, table.end)),
        duration_ms=spoken_ms(first_at(row, table.duration)),
        failed=is_failure(status),
        error=error or (f"http_{status}" if status else None),
        trace_id=text_of(first_at(row, table.trace_id)),
        span_id=text_of(first_at(row, table.span_id)),
    )
    return report if table.refine is None else table.refine(report, row)
