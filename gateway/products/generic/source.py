"""JSON that a customer's own gateway or job writes, by a mapping of its
configuration (`mapping.py`).

1. A document is a call, or holds a list of them at `items`; a list that is not there makes the
   document a rejection, an empty one nothing.
2. An item that names no model and counts no tokens is ignored.
3. A call failed where `status_code` is 400 or more, or `error_type` states something.
4. Only mapped fields are taken. The time is read as any sender writes it: RFC 3339, or
   seconds, ms, µs, ns since the epoch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.products.documents import Document
from gateway.products.fields import Path, at_path, pick_fields, text_of
from gateway.products.generic.mapping import DEFAULT, FieldMap, convention_of, mapping_of, path_of
from gateway.products.items import at, http_status, ignore, is_failure, objects, reject, spoken_ms
from gateway.products.paths import operation_of_path
from gateway.products.reporting import Report, add_call, content_id, epoch_ms
from gateway.products.source import Snippet, Source, SourceRead
from gateway.rules.context import Context
from gateway.rules.texts import Json


def generic_source(plain: Mapping[str, Any] | None = None) -> Source:
    """The source that reads by the mapping *plain*: what the configuration states under
    `sources.generic`, as JSON has it; None: by the default one.

    Raises ValueError, which states what to remedy.
    """
    reader = GenericReader(DEFAULT if plain is None else mapping_of(plain))
    return Source(
        name="generic",
        title="Any JSON, by a mapping of your own",
        read=reader.read,
        snippet=Snippet(
            "sh",
            "curl -fsS -X POST {url} -H 'Authorization: {key}' -H 'Content-Type: application/json' \\\n"
            '  --data-binary \'{{"id": "c-1", "time": "2026-01-05T10:00:00Z", "model": "gpt-5-mini",'
            ' "usage": {{"prompt_tokens": 12, "completion_tokens": 3}}}}\'\n',
        ),
        retries="The sender decides. Give each call an id (`event_id`), and it may be sent again at any time.",
    )


class GenericReader:
    """Reads documents by one mapping."""

    def __init__(self, mapping: FieldMap) -> None:
        self._table = convention_of(mapping)
        self._items = path_of(mapping.items) if mapping.items else None
        self._time = tuple(map(path_of, mapping.time))
        self._event_id = tuple(map(path_of, mapping.event_id))
        self._beside = {name: tuple(map(path_of, paths)) for name, paths in mapping.fields.items()}

    def read(self, documents: Sequence[Document], out: SourceRead, context: Context) -> None:
        """One call for each item that the mapping finds."""
        for position, document in objects(documents, out):
            for where, item in self._items_of(document, position, out):
                report = self._report(item)
                texts, counts = report.picked.texts, report.picked.counts
                if not (texts.get("request_model") or texts.get("response_model") or counts):
                    ignore(out, where)
                    continue
                out.calls.items += 1
                add_call(out.calls, report, self._table, where, context)

    def _items_of(
        self, document: dict[str, Json], position: str, out: SourceRead
    ) -> Iterator[tuple[str, dict[str, Json]]]:
        """Rule 1."""
        if self._items is None:
            yield position, document
            return
        found = at_path(document, self._items)
        if not isinstance(found, list):
            reject(out, "no_items", at(position, self._items.name))
            return
        for n, item in enumerate(found):
            where = at(position, f"{self._items.name}[{n}]")
            if isinstance(item, dict):
                yield where, item
            else:
                reject(out, "not_an_object", where)

    def _report(self, item: dict[str, Json]) -> Report:
        picked = pick_fields(item, self._table)
        if (operation := operation_of_path(picked.texts.get("operation"))) is not None:
            picked.texts["operation"] = operation
        if (service := picked.texts.pop("service_name", None)) is not None:
            picked.who["service_name"] = service
        start = _first(item, self._time)
        status = http_status(self._mapped(item, "status_code"))
        error = self._mapped(item, "error_type")
        return Report(
            picked,
            event_id=text_of(_first(item, self._event_id))
            or content_id(text_of(start), *sorted(picked.texts.items()), *sorted(picked.counts.items())),
            start_ms=epoch_ms(start),
            end_ms=epoch_ms(self._mapped(item, "ended_at")),
            duration_ms=spoken_ms(self._mapped(item, "duration_ms")),
            failed=is_failure(status) or error not in (None, "", False),
            error=error if isinstance(error, str) else f"http_{status}" if status else None,
            trace_id=text_of(self._mapped(item, "trace_id")),
            span_id=text_of(self._mapped(item, "span_id")),
            parent_span_id=text_of(self._mapped(item, "parent_span_id")),
        )

    def _mapped(self, item: dict[str, Json], field: str) -> Json:
        return _first(item, self._beside.get(field, ()))


def _first(item: dict[str, Json], paths: Sequence[Path]) -> Json:
    """The first value at one of *paths*."""
    return next((value for path in paths if (value := at_path(item, path)) not in (None, "")), None)


SOURCE = generic_source()
