"""What a sender sums up over a stretch of time (a day's tokens of one key and
model) -> points of usage. Pure.

For daily exports and usage reports, which are no calls. A source makes a `Sum` of each row and
gives all rows of a payload to `add_sums`, which fills `SourceRead.measured`; the rest is the way of
the metrics (`gateway.counting.metrics.series`, `fold`, `sources`): they wait, they are suppressed
where the same inbound key reports calls, and become records of kind `aggregate`.

1. Each kind of tokens, and the cost, of one row is a point of its own series: the row's
   `identity`, its stretch, the kind.
2. Reports of one stretch replace each other. So a point is cumulative from the beginning of its
   stretch: a report that comes again counts nothing, one that grew counts what was added, and one
   that shrank counts nothing and takes nothing back.
3. Rows of one payload with equal identity and stretch are parts of one sum: they are added.
4. `picked.counts` are the kinds (`input`, `output`, `cache_read`, `cache_creation`, `reasoning`,
   `audio_input`, `audio_output`), brought to the record's partition by the convention's basis. A
   bare `total` is kept beside them. `numbers["cost"]` and `texts["currency"]` are the money; leave
   the cost out where 0 means that no price is known. `texts` and `who` become the record's names.
5. An item is a point. A row that states no number is ignored; one whose times or numbers
   cannot be right is rejected.

A state is kept for `SUM_AGE_MS` (`gateway.pipeline.metrics`): a month is exported
again until it is closed.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple

from gateway.common.operations import decimal_string
from gateway.products.source import SourceRead
from gateway.rules import times
from gateway.rules.attribution import gateway_origin
from gateway.rules.context import Context
from gateway.rules.conventions.metric_tables import COST, PRODUCT_RANK, REQUESTS, MetricTable
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import Extracted
from gateway.rules.metrics import sender_of
from gateway.rules.points import PICO, Labels, MetricSource, Point, UsagePoints, cumulative_key, hashed
from gateway.rules.record import called, is_name, title
from gateway.rules.usage import Basis

_KINDS: Final = ("input", "output", "cache_read", "cache_creation", "reasoning", "audio_input", "audio_output")
_TOTAL: Final = "total_tokens"
_MAX_VALUE = 9 * 10**18
"""Of tokens, calls and picounits of money: what the spool's columns hold."""
_MAX_STRETCH_MS = 400 * 24 * 3600 * 1000
_UNKNOWN_PROVIDER = "unknown"
_DEFAULT_CURRENCY = "USD"


class Sum(NamedTuple):
    """What a sender reports one stretch of time and one combination of its dimensions."""

    identity: tuple[str, ...]
    """All that distinguishes this row from others of its stretch: every dimension, mapped or not,
    and which export it is of. It is only hashed. Where no dimension names the account,
    `context.counted_key` belongs in it."""
    picked: Extracted
    start_ms: int | None
    """Epoch ms; None where the row has none, and then it is rejected."""
    end_ms: int | None
    """The first ms after the stretch."""
    position: str
    """The document's."""
    calls: int | None = None
    """How many calls are summed up, where it is reported."""


class _Values(NamedTuple):
    kinds: Mapping[str, int]
    pico: int | None
    calls: int | None


def add_sums(
    out: SourceRead, sums: Iterable[Sum], convention: Convention, context: Context, *, rank: int = PRODUCT_RANK
) -> None:
    """Add the points of all *sums* of one payload to `out.measured`.

    Of two kinds of sums of one source the smaller *rank* counts.
    """
    measured = out.measured
    together: dict[tuple[object, ...], list[Sum]] = {}
    for one in sums:
        if not _is_stretch(one):
            measured.reject("invalid_time", one.position)
        else:
            together.setdefault((one.identity, one.start_ms, one.end_ms), []).append(one)
    if together and not measured.attributions:
        measured.attributions.append(gateway_origin(convention.name, context).attribution)
    for rows in together.values():
        _add(measured, rows, convention, context, rank)


def _is_stretch(one: Sum) -> bool:
    return (
        one.start_ms is not None
        and one.end_ms is not None
        and times.FIRST_NS <= one.start_ms * times.NS_PER_MS < times.LAST_NS
        and 0 < one.end_ms - one.start_ms <= _MAX_STRETCH_MS
    )


def _add(measured: UsagePoints, rows: list[Sum], convention: Convention, context: Context, rank: int) -> None:
    """The points of *rows*, which share identity and stretch."""
    first = rows[0]
    values = _values(rows)
    stated = list(_stated(values))
    if not stated:
        measured.items += len(rows)
        measured.ignored += len(rows)
        for row in rows:
            measured.note_position(row.position)
        return
    if any(not 0 <= value <= _MAX_VALUE for _, value in stated):
        measured.reject("invalid_value", first.position)
        return
    labels = _labels(first.picked, convention, context)
    table = _table(convention.name, convention.basis(first.picked, "", labels.provider), rank)
    for number, (kind, value) in enumerate(stated):
        point = _point(first, labels, table, kind, value)
        measured.items += 1
        measured.note_position(first.position, first, convention, kind, len(rows))
        measured.points.append(point if number else point._replace(measurements=values.calls))


def _values(rows: Iterable[Sum]) -> _Values:
    kinds: dict[str, int] = {}
    pico: int | None = None
    calls: int | None = None
    for row in rows:
        for kind, count in row.picked.counts.items():
            kinds[kind] = kinds.get(kind, 0) + count
        amount = row.picked.numbers.get("cost")
        if amount is not None:
            pico = (pico or 0) + int((Decimal(decimal_string(amount)) * PICO).to_integral_value())
        if row.calls is not None:
            calls = (calls or 0) + row.calls
    return _Values(kinds, pico, calls)


def _stated(values: _Values) -> Iterator[tuple[str, int]]:
    """Each kind and its value. The first one carries the number of calls."""
    for kind in _KINDS:
        if kind in values.kinds:
            yield kind, values.kinds[kind]
    if values.pico is not None:
        yield COST, values.pico
    if values.kinds.get("total") and "input" not in values.kinds and "output" not in values.kinds:
        yield _TOTAL, values.kinds["total"]
    if values.calls is not None and not values.kinds and values.pico is None:
        yield REQUESTS, values.calls


def _point(one: Sum, labels: Labels, table: MetricTable, kind: str, value: int) -> Point:
    """A point at the beginning of its stretch: so no report is later than another, and
    a smaller one is no reset.
    """
    start_ns, until_ns = (one.start_ms or 0) * times.NS_PER_MS, (one.end_ms or 0) * times.NS_PER_MS
    series = hashed(
        labels.scope.encode(),
        kind.encode(),
        until_ns.to_bytes(8, "little"),
        *[part.encode("utf-8", "replace") for part in one.identity],
    )
    return Point(
        key=cumulative_key(series, start_ns),
        series=hashed(series, value.to_bytes(8, "little")),
        labels=labels,
        table=table,
        kind=kind,
        is_known=kind in _KINDS or kind == COST,
        value=value,
        measurements=None,
        start_ns=start_ns,
        time_ns=start_ns,
        is_delta=False,
        currency=_currency(one.picked.texts.get("currency")),
        until_ns=until_ns,
    )


def _currency(sent: str | None) -> str:
    code = (sent or "").upper()
    return code if len(code) == 3 and code.isascii() and code.isalpha() else _DEFAULT_CURRENCY  # noqa: PLR2004 - ISO 4217


@lru_cache(maxsize=64)
def _table(name: str, basis: Basis, rank: int) -> MetricTable:
    return MetricTable(name, rank, basis=basis, counts_calls=True, format=f"source.{name}")


def _labels(picked: Extracted, convention: Convention, context: Context) -> Labels:
    texts, who = picked.texts, picked.who
    request_model, response_model = title(texts.get("request_model")), title(texts.get("response_model"))
    operation, served_by, _ = called(
        texts.get("operation"), texts.get("provider"), response_model or request_model, texts.get("address")
    )
    if served_by is None:
        served_by = convention.default_provider or (None if request_model else _UNKNOWN_PROVIDER)
    tier = texts.get("service_tier")
    return Labels(
        MetricSource(
            sender_of(context), who.get("service_name", ""), context.device_id or context.own_device or "", "", ""
        ),
        convention.name,
        "",
        served_by,
        request_model,
        response_model,
        operation,
        tier if tier is not None and is_name(tier) else None,
        tuple(sorted(who.items())),
        0,
    )
