"""One AI telemetry record: validated, and laid out in columns for lists and sums. Pure."""

from functools import lru_cache
from typing import NamedTuple

import orjson

from gateway.local_service.amounts import cost_columns, parse_decimal
from gateway.local_service.checks import (
    Fields,
    as_object,
    choice,
    optional_text,
    optional_texts,
    optional_whole,
    optional_wholes,
    present,
    text,
    time_ms,
)
from gateway.local_service.errors import Invalid
from spool.record import FIELDS

KINDS = ("call", "aggregate")
STATUSES = ("ok", "error")
TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "reasoning_output_tokens",
)
"""Columns that are summed. The other kinds are parts of these, and are in the record only."""
OTHER_TOKENS = tuple(field.name for field in FIELDS.of("usage") if field.form == "tokens" and field.name not in TOKENS)
ATTRIBUTION = ("service_name", "environment", "user", "team", "project", "device_id", "key")
COLUMNS = (
    "record_id",
    "started_at_ms",
    "kind",
    "billed",
    "status",
    "usage_status",
    "operation",
    "provider",
    "model",
    *ATTRIBUTION,
    "calls",
    *TOKENS,
    "cost_pico",
    "cost_rest",
    "currency",
)


class RecordRow(NamedTuple):
    record_id: str
    columns: tuple[str | int | None, ...]
    """As `COLUMNS` names them."""
    record: bytes
    """The whole of it, as JSON."""


def record_row(value: object) -> RecordRow:
    """The record's row. Raises Invalid with the first rule that it breaks (wire contract 6.1)."""
    record = as_object(value, "record")
    record_id = text(record, "record_id", max_chars=128)
    kind = choice(record, "kind", KINDS)
    as_object(present(record, "source"), "source")
    usage = as_object(present(record, "usage"), "usage")
    optional_wholes(usage, OTHER_TOKENS)
    columns = (
        record_id,
        time_ms(record, "started_at"),
        kind,
        _billed(record),
        choice(record, "status", STATUSES) if record.get("status") is not None else "ok",
        optional_text(usage, "status") or "reported",
        text(record, "operation"),
        *_provider_and_model(record),
        *_attribution(record),
        1 if kind == "call" else optional_whole(record, "calls"),
        *optional_wholes(usage, TOKENS),
        *_cost(record),
    )
    return RecordRow(record_id, columns, orjson.dumps(record))


def _billed(record: Fields) -> bool:
    """Absent means billed: an omission must not make a bill smaller."""
    billed = record.get("billed", True)
    if not isinstance(billed, bool):
        raise Invalid("invalid_billed", "billed: true or false is needed")
    return billed


def _provider_and_model(record: Fields) -> tuple[str | None, str | None]:
    provider = optional_text(record, "provider")
    request_model = optional_text(record, "request_model")
    if provider is None and request_model is None:
        raise Invalid("missing_provider", "provider: it or request_model is needed")
    return provider, optional_text(record, "response_model") or request_model


def _attribution(record: Fields) -> list[str | None]:
    attribution = record.get("attribution")
    return optional_texts(
        as_object({} if attribution is None else attribution, "attribution"), ATTRIBUTION, max_chars=1024
    )


def _cost(record: Fields) -> tuple[int | None, str | None, str | None]:
    """(picounits, rest, currency); all None when the cost is not known."""
    if record.get("cost") is None:
        return None, None, None
    cost = as_object(record["cost"], "cost")
    return *_amount(text(cost, "amount")), text(cost, "currency", max_chars=16)


@lru_cache(maxsize=4096)
def _amount(amount: str) -> tuple[int | None, str | None]:
    """Calls of one size cost the same, so amounts repeat."""
    number = parse_decimal(amount)
    if number is None:
        raise Invalid("invalid_amount", "cost.amount: a decimal string is needed")
    return cost_columns(number)
