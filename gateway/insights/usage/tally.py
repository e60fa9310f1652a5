"""Records -> sums by the hour and series. Pure.

A series is (provider, model, team, service, currency, cost source); its names are cut, since they
come from payloads. Only billed records count, as everywhere. Unknown counts add nothing, and the
base of each share is counted beside them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

HOUR_MS: Final = 3_600_000
PICO: Final = 10**12
MOST_NAME_CHARS: Final = 120
MOST_WORD_CHARS: Final = 16
"""Of a currency."""
OTHER: Final = "(other)"
"""Name of the series beyond the bound."""

_EXACT = Context(prec=60)
_MOST_COST = 10**15
"""Of one record, in whole units: a larger cost is a fault."""
_MOST_COUNT = 1 << 40
_NO_COST = (None, None)
_NOBODY: dict[str, Any] = {}
_INPUT_ONLY = frozenset({"embeddings", "rerank"})

CALLS, FAILED, WITHOUT_USAGE, WITHOUT_PRICE, INPUT, OUTPUT, CACHEABLE, CACHE_READ, COST = range(9)
SUMS: Final = 9


class Key(NamedTuple):
    """Hour and series. Unknown names are ""."""

    hour: int
    provider: str
    model: str
    team: str
    service_name: str
    currency: str
    cost_source: str

    def as_other(self) -> "Key":
        return Key(self.hour, OTHER, OTHER, OTHER, OTHER, self.currency, self.cost_source)


class Tally:
    """Sums that are not stored yet."""

    def __init__(self) -> None:
        self.sums: dict[Key, list[int]] = {}
        """`SUMS` numbers each, in the order of the constants above; the cost in 1e-12 of its
        currency.
        """
        self._by_names: dict[tuple[object, ...], list[int]] = {}
        """The same, by the names as records have them."""

    def add(self, records: Iterable[bytes], *, now_ms: int) -> None:
        """Count *records*; an unreadable one is skipped."""
        now_hour = now_ms // HOUR_MS
        loads, add = orjson.loads, self._add
        for record in records:
            try:
                add(loads(record), now_hour)
            except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError, OverflowError):
                continue

    def _add(self, record: dict[str, Any], now_hour: int) -> None:
        """One flat function: it runs once for every record. All that may raise comes before the
        first sum.
        """
        known = record.get
        if known("billed") is False:
            return
        usage, cost = record["usage"].get, known("cost")
        who = (known("attribution") or _NOBODY).get
        names = (
            record["started_at"][:13],
            known("provider"),
            known("response_model") or known("request_model"),
            who("team"),
            who("service_name"),
            *((cost["currency"], cost.get("source")) if cost else _NO_COST),
        )
        sums = self._by_names.get(names)
        if sums is None:
            sums = self._open(names, now_hour)
        pico = pico_of(cost["amount"]) if cost else 0
        is_call = record["kind"] == "call"
        calls = 1 if is_call else _count(known("calls")) or 0
        sums[COST] += pico
        sums[CALLS] += calls
        if known("status") == "error":
            sums[FAILED] += calls
        if is_call and usage("status") == "missing":
            sums[WITHOUT_USAGE] += 1
        output_tokens = _count(usage("output_tokens"))
        if output_tokens is not None:
            sums[OUTPUT] += output_tokens
        input_tokens = _count(usage("input_tokens"))
        if input_tokens is None:
            return
        sums[INPUT] += input_tokens
        if not cost and (output_tokens is not None or known("operation") in _INPUT_ONLY):
            sums[WITHOUT_PRICE] += calls or 1
        cache_read = _count(usage("cache_read_input_tokens"))
        if cache_read is not None:
            sums[CACHEABLE] += input_tokens
            sums[CACHE_READ] += min(cache_read, input_tokens)

    def _open(self, names: tuple[Any, ...], now_hour: int) -> list[int]:
        """The sums of a series, whose *names* are those of a record. Raises TypeError, ValueError
        for invalid ones.
        """
        hour, *texts, currency, cost_source = names
        provider, model, team, service_name = ((text or "")[:MOST_NAME_CHARS] for text in texts)
        source = "" if currency is None else (cost_source or "reported")[:MOST_WORD_CHARS]
        key = Key(
            min(hour_of(hour), now_hour),  # a sender's clock may go ahead
            provider,
            model,
            team,
            service_name,
            (currency or "")[:MOST_WORD_CHARS],
            source,
        )
        if not all(isinstance(name, str) for name in key[1:]):
            raise TypeError
        sums = self._by_names[names] = self.sums.setdefault(key, [0] * SUMS)
        return sums

    def __len__(self) -> int:
        """Its size in memory: series, by the names in records."""
        return len(self._by_names)

    def models(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(provider, model) of calls that did not fail -> first and last hour of them."""
        seen: dict[tuple[str, str], tuple[int, int]] = {}
        for key, sums in self.sums.items():
            if key.model and (sums[CALLS] > sums[FAILED] or (not sums[CALLS] and any(sums))):
                first, last = seen.get((key.provider, key.model), (key.hour, key.hour))
                seen[key.provider, key.model] = (min(first, key.hour), max(last, key.hour))
        return seen


@lru_cache(maxsize=4096)
def hour_of(text: str) -> int:
    """*text* is `2026-01-05T10`, UTC."""
    return int(datetime.fromisoformat(f"{text}:00:00").replace(tzinfo=UTC).timestamp()) // 3600


@lru_cache(maxsize=8192)
def pico_of(amount: str) -> int:
    """1e-12 of the unit, rounded. Raises ValueError for an invalid amount."""
    try:
        number = Decimal(amount, _EXACT)
    except InvalidOperation:
        raise ValueError from None
    if not number.is_finite() or abs(number) > _MOST_COST:
        raise ValueError
    return int(_EXACT.to_integral_value(_EXACT.scaleb(number, 12)))


def _count(value: object) -> int | None:
    """A plausible count; None for any other value."""
    return value if type(value) is int and 0 <= value <= _MOST_COUNT else None
