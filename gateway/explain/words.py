"""An explanation as lines to read."""

from collections.abc import Iterator
from typing import Any

import orjson

from gateway.explain.story import Explanation, Field

_BY = {
    "item": "",
    "text": "inside the text of ",
    "event": "on an event of the span: ",
    "resource": "on the resource: ",
    "scope": "the instrumentation scope",
    "envelope": "",
    "rule": "",
    "default": "",
    "price_list": "",
    "other_item": "",
}
_WIDTH = 34


def lines(told: Explanation) -> Iterator[str]:
    """A head line, and below it why."""
    name = f" {told.name}" if told.name else ""
    fate = told.fate if told.reason is None else f"{told.fate} ({told.reason})"
    yield f"{told.position or 'the body'}: {told.item}{name}: {fate}"
    yield f"  because {told.because}"
    if told.of:
        yield f"  counted by record {', '.join(told.of)}"
    if told.convention is not None:
        yield f"  read as {told.convention}, chosen by {told.chosen_by}"
    if told.record_id is not None:
        yield f"  record {told.record_id}, its id from {told.record_id_from}"
    if told.input is not None:
        yield f"  input tokens: {told.input.sum} ({told.input.basis}: {told.input.why})"
    for path, field in told.fields.items():
        yield f"    {path:{_WIDTH}} {_value(field.value)}{_origin(field)}"


def _value(value: Any) -> str:
    """As JSON, but texts without quotes; money in short."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "amount" in value:
        return f"{value['amount']} {value['currency']}"
    return orjson.dumps(value).decode()


def _origin(field: Field) -> str:
    told = field.told
    where = _BY[told.by] + " + ".join(told.attributes)
    parts = [where or told.by.replace("_", " ")]
    if field.note:
        parts = [field.note] if not where else [where, field.note]
    if told.passed_over:
        parts.append(f"passed over: {', '.join(told.passed_over)}")
    return f"  <- {'; '.join(parts)}"
