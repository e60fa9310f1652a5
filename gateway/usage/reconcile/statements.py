"""A provider's usage export as rows by UTC day and model. Pure.

Read are the answers of OpenAI's usage and costs API and of Anthropic's usage and cost report API
(one page, or a list of pages), the CSV exports of both consoles, and any CSV whose columns are
named. Tokens follow the gateway's rule: input includes cache reads and writes.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

COLUMNS: Final = ("date", "model", "calls", "input_tokens", "output_tokens", "cache_read_tokens", "cost", "currency")
"""Of a CSV with columns of its own."""
_CENTS: Final = Decimal(100)
_ANTHROPIC_INPUT: Final = (
    "usage_input_tokens_no_cache", "usage_input_tokens_cache_write_5m", "usage_input_tokens_cache_write_1h",
    "usage_input_tokens_cache_read",
)  # fmt: skip

Row = Mapping[str, Any]


class BadStatement(ValueError):
    """The file is no export that is known; the text states what is."""


class Billed(NamedTuple):
    """What the provider states of one model in one period; None is not stated."""

    day: str
    """`2026-01-05`"""
    model: str | None
    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost: Decimal | None = None
    currency: str = "USD"


class Statement(NamedTuple):
    provider: str | None
    """As records name it; None for a CSV of its own."""
    rows: list[Billed]


def read_statement(text: str, columns: Mapping[str, str]) -> Statement:
    """*columns*: name of `COLUMNS` -> the column of a CSV. Raises BadStatement."""
    body = text.lstrip("\ufeff \r\n\t")
    try:
        return _of_json(json.loads(body)) if body.startswith(("{", "[")) else _of_csv(body, columns)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError, InvalidOperation) as error:
        if isinstance(error, BadStatement):
            raise
        raise BadStatement(f"the file cannot be read as an export: {type(error).__name__}") from error


def _of_json(document: Any) -> Statement:
    pages = document if isinstance(document, list) else [document]
    if any(page.get("has_more") for page in pages[-1:]):
        raise BadStatement("the file is one page of several (`has_more`): put all pages into one JSON array")
    buckets = [bucket for page in pages for bucket in page["data"]]
    results = [(bucket, result) for bucket in buckets for result in bucket["results"]]
    if any("start_time" in bucket for bucket in buckets):
        return Statement("openai", [_openai(bucket["start_time"], result) for bucket, result in results])
    return Statement("anthropic", [_anthropic(bucket["starting_at"], result) for bucket, result in results])


def _openai(start_s: int, result: Row) -> Billed:
    day = datetime.fromtimestamp(start_s, UTC).date().isoformat()
    if "amount" in result:
        amount = result["amount"]
        return _openai_cost(day, result.get("line_item"), amount["value"], amount["currency"])
    return Billed(
        day,
        result.get("model"),
        result.get("num_model_requests"),
        result.get("input_tokens"),
        result.get("output_tokens"),
        result.get("input_cached_tokens"),
    )


def _openai_cost(day: str, line_item: str | None, value: object, currency: str) -> Billed:
    """A line item is `MODEL, input`, `MODEL, output`, …"""
    model = line_item.partition(",")[0] if line_item else None
    return Billed(day, model, cost=Decimal(str(value)), currency=currency.upper())


def _anthropic(start: str, result: Row) -> Billed:
    if "amount" in result:  # in cents
        cost = Decimal(str(result["amount"])) / _CENTS
        return Billed(start[:10], result.get("model"), cost=cost, currency=result.get("currency") or "USD")
    written = sum((result.get("cache_creation") or {}).values())
    read = result.get("cache_read_input_tokens") or 0
    whole = (result.get("uncached_input_tokens") or 0) + written + read
    return Billed(start[:10], result.get("model"), None, whole, result.get("output_tokens"), read, written)


def _of_csv(text: str, columns: Mapping[str, str]) -> Statement:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    head = set(reader.fieldnames or ())
    if not columns and "usage_date_utc" in head:
        return Statement("anthropic", [_anthropic_csv(row) for row in reader])
    if not columns and "start_time_iso" in head:
        return Statement("openai", list(_openai_csv(reader)))
    named = {name: columns.get(name, name) for name in COLUMNS}
    missing = [column for name, column in named.items() if column not in head and (name in columns or name == "date")]
    if missing:
        raise BadStatement(
            f"the CSV has no column {', '.join(missing)}: name its own with --column, such as --column date=Day"
        )
    return Statement(None, [_own(row, named) for row in reader])


def _anthropic_csv(row: Row) -> Billed:
    if "cost_usd" in row:
        return Billed(row["usage_date_utc"][:10], row.get("model") or None, cost=Decimal(row["cost_usd"]))
    whole, written_5m, written_1h, read = (_whole(row.get(name)) or 0 for name in _ANTHROPIC_INPUT)
    written = written_5m + written_1h
    output = _whole(row.get("usage_output_tokens"))
    day, model = row["usage_date_utc"][:10], row.get("model_version") or None
    return Billed(day, model, None, whole + written + read, output, read, written)


def _openai_csv(rows: Iterable[Row]) -> Iterator[Billed]:
    """Rows of days without usage have neither amount nor requests."""
    for row in rows:
        day = row["start_time_iso"][:10]
        if row.get("amount_value"):
            yield _openai_cost(day, row.get("line_item"), row["amount_value"], row.get("amount_currency") or "usd")
        elif row.get("num_model_requests"):
            calls, whole, output, read = (
                _whole(row.get(name))
                for name in ("num_model_requests", "input_tokens", "output_tokens", "input_cached_tokens")
            )
            yield Billed(day, row.get("model") or None, calls, whole, output, read)


def _own(row: Row, named: Mapping[str, str]) -> Billed:
    of = {name: row.get(column) or None for name, column in named.items()}
    calls, whole, output, read = (
        _whole(of[name]) for name in ("calls", "input_tokens", "output_tokens", "cache_read_tokens")
    )
    cost = None if of["cost"] is None else Decimal(of["cost"].replace(",", "").lstrip("$"))
    day = datetime.fromisoformat(str(of["date"])).date().isoformat()
    currency = (of["currency"] or "USD").upper()
    return Billed(day, of["model"], calls, whole, output, read, cost=cost, currency=currency)


def _whole(text: str | None) -> int | None:
    return int(Decimal(text.replace(",", ""))) if text else None
