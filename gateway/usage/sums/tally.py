"""Records -> sums by the hour and series. Pure.

A series is what `Key` names; names are cut, since they come from payloads. Only billed records
count, as everywhere. Unknown counts add nothing, and the base of each share is counted beside
them.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from types import ModuleType
from typing import Any, Final, NamedTuple

import orjson

from gateway.common.contract.tags import values_of
from gateway.common.native import NATIVE
from gateway.usage.sums.buckets import FIRST_TOKEN, Buckets, add_buckets, bucket_of
from gateway.usage.sums.tags import set_text

HOUR_MS: Final = 3_600_000
PICO: Final = 10**12
ATTO: Final = 10**18
"""Parts of a unit of money that sums are exact to."""
MAX_NAME_CHARS: Final = 120
MAX_WORD_CHARS: Final = 16
"""Of a currency."""
CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Control characters; each stands as U+FFFD in a name."""
OTHER: Final = "(other)"
"""Name of the series beyond the bound, among those of the detectors."""

_EXACT = Context(prec=60)
_MAX_COST = 10**12
"""Of one record, in whole units: a larger cost is a fault."""
_MAX_COUNT = 1 << 40
_NO_COST = (None, None)
_NOBODY: dict[str, Any] = {}
_INPUT_ONLY = frozenset({"embeddings", "rerank"})

SUM_NAMES: Final = (
    "calls",  # billed; of an aggregate as many as it states
    "failed_calls",
    "calls_without_usage",  # neither input nor output tokens are known
    "calls_missing_usage",  # of these: the call did not fail, so the sender should have stated them
    "calls_without_cost",
    "calls_without_price",  # of these: their tokens are known
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "reasoning_tokens",
    "cacheable_tokens",  # input tokens of records that state their cache reads
    "cached_tokens",  # as many of these as were read from a cache
    "cost",  # in 1e-18 of the currency
)
"""The numbers of one series, in order. Tokens are None until a record states them."""
(
    CALLS, FAILED, WITHOUT_USAGE, MISSING_USAGE, WITHOUT_COST, WITHOUT_PRICE,
    INPUT, OUTPUT, CACHE_READ, CACHE_CREATION, REASONING, CACHEABLE, CACHED, COST,
) = range(14)  # fmt: skip
COST_WORDS: Final = ("currency", "cost_source")
NOTHING: Final[tuple[int | None, ...]] = (0,) * INPUT + (None,) * (COST - INPUT) + (0,)
Sums = list[int | None]
"""As `SUM_NAMES` has them."""


class Key(NamedTuple):
    """Hour and series. Unknown names are ""."""

    hour: int
    """Since 1970, UTC; of the call's start."""
    provider: str
    model: str
    """That answered, else that was asked for."""
    team: str
    project: str
    user: str
    device_id: str
    service_name: str
    key: str
    """Name of the inbound key."""
    operation: str
    source: str
    """`source.format` of the record."""
    currency: str
    cost_source: str
    tags: str = ""
    """Their set (`gateway.usage.sums.tags`)."""


class LatencyKey(NamedTuple):
    """As `Key`, without users and devices, which have most names."""

    hour: int
    provider: str
    model: str
    team: str
    project: str
    service_name: str
    key: str
    operation: str
    source: str


class Tally:
    """Sums that are not stored yet."""

    def __init__(self, native: ModuleType | None = NATIVE, *, tags: Sequence[str] = ()) -> None:
        """*tags*: names of those that distinguish series."""
        self._native = native
        self._tags = tags
        self._has_tags = re.compile(b"|".join(b'"%b":' % name.encode() for name in tags)) if tags else None
        self.sums: dict[Key, Sums] = {}
        self._by_names: dict[tuple[object, ...], Sums] = {}
        """The same, by the names as records have them."""
        self.latencies: dict[LatencyKey, Buckets] = {}
        """How long calls took that did not fail; empty where none says."""
        self._latencies_by_names: dict[tuple[object, ...], Buckets] = {}
        self.failed_costs: dict[Key, Sums] = {}
        """Of failed calls that cost something: their number and cost, which are in `sums` too. A
        key has the names of `FAILED_COSTS_BY` alone.
        """

    def add(self, records: Sequence[bytes], *, now_ms: int) -> None:
        """Count *records*; an unreadable one is skipped."""
        now_hour = hour_text(now_ms)
        if self._native is None:
            self._add_read(records, now_hour)
            return
        tagged = [record for record in records if self._has_tags and self._has_tags.search(record)]
        plain = [record for record in records if not self._has_tags.search(record)] if self._has_tags else records
        self._add_read([*self._add_natively(self._native, plain, now_hour), *tagged], now_hour)

    def _add_natively(self, native: ModuleType, records: Sequence[bytes], now_hour: str) -> list[bytes]:
        """Count *records* by *native*; returned are those that it leaves to Python: they are not
        in the form in which the gateway writes records.
        """
        summed, unread = native.sum_usage(records, now_hour)
        for names, sums, latency in summed:
            try:
                mine = self._by_names.get(names) or self._open(names)
            except (TypeError, ValueError):  # the hour is invalid, of each record of the series
                continue
            for column, value in enumerate(sums):
                if value is not None:
                    mine[column] = value + (mine[column] or 0)
            buckets = self._latencies_by_names[names]
            for bucket, calls in latency:
                buckets[bucket] = buckets.get(bucket, 0) + calls
        return [records[i] for i in unread]

    def _add_read(self, records: Iterable[bytes], now_hour: str) -> None:
        loads, add = orjson.loads, self._add
        for record in records:
            try:
                add(loads(record), now_hour)
            except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError, OverflowError):
                continue

    def _add(self, record: dict[str, Any], now_hour: str) -> None:  # noqa: C901, PLR0912 - flat: it runs for each record
        """One flat function: it runs once for every record. All that may raise comes before the
        first sum.
        """
        known = record.get
        if known("billed") is False:
            return
        usage, cost = record["usage"].get, known("cost")
        who = (known("attribution") or _NOBODY).get
        hour = record["started_at"][:13]
        if hour > now_hour:  # a sender's clock may be ahead
            hour_of(hour)
            hour = now_hour
        names = (
            hour,
            known("provider"),
            known("response_model") or known("request_model"),
            who("team"),
            who("project"),
            who("user"),
            who("device_id"),
            who("service_name"),
            who("key"),
            known("operation"),
            (known("source") or _NOBODY).get("format"),
            *((cost["currency"], cost.get("source")) if cost else _NO_COST),
        )
        if self._tags and (tags := values_of(known("attribution") or _NOBODY, self._tags)):
            names = (*names, tuple(tags.items()))
        sums: list[Any] = self._by_names.get(names) or self._open(names)
        atto = atto_of(cost["amount"]) if cost else 0
        is_call = record["kind"] == "call"
        calls = 1 if is_call else _count(known("calls")) or 0
        sums[COST] += atto
        sums[CALLS] += calls
        if known("status") == "error":
            sums[FAILED] += calls
            if atto:
                self._note_failed_cost(names, calls, atto)
        input_tokens, output_tokens = _count(usage("input_tokens")), _count(usage("output_tokens"))
        if is_call:
            if input_tokens is None and output_tokens is None:
                sums[WITHOUT_USAGE] += 1
            if usage("status") == "missing" and known("status") != "error":
                sums[MISSING_USAGE] += 1
            if not cost:
                sums[WITHOUT_COST] += 1
        if output_tokens is not None:
            sums[OUTPUT] = output_tokens + (sums[OUTPUT] or 0)
        cache_read = _count(usage("cache_read_input_tokens"))
        if input_tokens is not None:
            sums[INPUT] = input_tokens + (sums[INPUT] or 0)
            if not cost and (output_tokens is not None or known("operation") in _INPUT_ONLY):
                sums[WITHOUT_PRICE] += calls or 1
            if cache_read is not None:
                sums[CACHEABLE] = input_tokens + (sums[CACHEABLE] or 0)
                sums[CACHED] = min(cache_read, input_tokens) + (sums[CACHED] or 0)
        if cache_read is not None:
            sums[CACHE_READ] = cache_read + (sums[CACHE_READ] or 0)
        written = _count(usage("cache_creation_input_tokens"))
        if written is not None:
            sums[CACHE_CREATION] = written + (sums[CACHE_CREATION] or 0)
        reasoning = _count(usage("reasoning_output_tokens"))
        if reasoning is not None:
            sums[REASONING] = reasoning + (sums[REASONING] or 0)
        if is_call and known("status") != "error":
            self._note_latency(names, _count(known("duration_ms")), _count(known("time_to_first_token_ms")))

    def _note_latency(self, names: tuple[Any, ...], duration_ms: int | None, first_token_ms: int | None) -> None:
        for ms, first in ((duration_ms, 0), (first_token_ms, FIRST_TOKEN)):
            if ms is not None:
                add_buckets(self._latencies_by_names[names], {first + bucket_of(ms): 1})

    def _note_failed_cost(self, names: tuple[Any, ...], calls: int, atto: int) -> None:
        key = _key_of(names)._replace(**_SUMMED_OVER)
        sums: list[Any] = self.failed_costs.setdefault(key, [*NOTHING])
        sums[CALLS] += calls
        sums[FAILED] += calls
        sums[COST] += atto

    def _open(self, names: tuple[Any, ...]) -> Sums:
        """The sums of a series. Raises TypeError, ValueError for invalid *names*."""
        key = _key_of(names)
        sums = self._by_names[names] = self.sums.setdefault(key, list(NOTHING))
        hour, provider, model, team, project, _, _, *others = key
        latency_key = LatencyKey(hour, provider, model, team, project, *others[:4])
        self._latencies_by_names[names] = self.latencies.setdefault(latency_key, {})
        return sums

    def __len__(self) -> int:
        """Its size in memory: series, by the names in records."""
        return len(self._by_names)

    def models(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(provider, model) of calls that did not fail -> first and last hour of them."""
        seen: dict[tuple[str, str], tuple[int, int]] = {}
        for key, sums in self.sums.items():
            if key.model and is_of_success(sums):
                first, last = seen.get((key.provider, key.model), (key.hour, key.hour))
                seen[key.provider, key.model] = (min(first, key.hour), max(last, key.hour))
        return seen


_NAMES: Final = len(Key._fields) - 1
"""Of a series without tags."""
FAILED_COSTS_BY: Final = ("service_name", "provider", "model")
_SUMMED_OVER: Final[dict[str, Any]] = dict.fromkeys({*Key._fields} - {"hour", *FAILED_COSTS_BY, *COST_WORDS}, "")


def _key_of(names: tuple[Any, ...]) -> Key:
    """The series of a record with *names*. Raises TypeError, ValueError for invalid ones."""
    hour, *texts, currency, cost_source = names[:_NAMES]
    source = "" if currency is None else (cost_source or "reported")[:MAX_WORD_CHARS]
    tags = set_text({name: shown(value) for name, value in names[_NAMES]}) if len(names) > _NAMES else ""
    key = Key._make((hour_of(hour), *map(shown, texts), (currency or "")[:MAX_WORD_CHARS], source, tags))
    if not all(isinstance(name, str) for name in key[1:]):
        raise TypeError
    return key


def shown(name: str | None) -> str:
    """*name* as sums have it."""
    return CONTROLS.sub("\ufffd", (name or "")[:MAX_NAME_CHARS])


def is_of_success(sums: Sums) -> bool:
    """Whether not all its calls failed; or it has none, and other sums."""
    return (sums[CALLS] or 0) > (sums[FAILED] or 0) or (not sums[CALLS] and any(sums))


def hour_text(ms: int) -> str:
    """The hour of a time, as records have it: `2026-01-05T10`."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H")


@lru_cache(maxsize=4096)
def hour_of(text: str) -> int:
    """*text* is `2026-01-05T10`, UTC."""
    return int(datetime.fromisoformat(f"{text}:00:00").replace(tzinfo=UTC).timestamp()) // 3600


@lru_cache(maxsize=8192)
def atto_of(amount: str) -> int:
    """1e-18 of the unit, rounded. Raises ValueError for an invalid amount."""
    try:
        number = Decimal(amount, _EXACT)
    except InvalidOperation:
        raise ValueError from None
    if not number.is_finite() or abs(number) > _MAX_COST:
        raise ValueError
    return int(_EXACT.to_integral_value(_EXACT.scaleb(number, 18)))


def _count(value: object) -> int | None:
    """A plausible count; None for any other value."""
    return value if type(value) is int and 0 <= value <= _MAX_COUNT else None
