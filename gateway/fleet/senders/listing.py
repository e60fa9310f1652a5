"""The list of senders, by the list conventions. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, TypedDict

from gateway.common.contract.json_types import Count, Schema, Time
from gateway.common.lists.conventions import Filterable, ListShape, Sort, SortValue, envelope, read_request
from gateway.common.lists.memory import page_of
from gateway.fleet.senders.activity import Activity, SenderId
from gateway.fleet.senders.warning import Code, warnings_of
from spool.clock import rfc3339_ms

Known = tuple[SenderId, Activity]

SORT_VALUES: Final[Mapping[str, Callable[[Known], SortValue]]] = {
    "bytes": lambda known: known[1].size_bytes,
    "calls": lambda known: known[1].calls,
    "calls_without_usage": lambda known: known[1].without_usage,
    "first_seen_at": lambda known: known[1].first_ms,
    "format": lambda known: known[0].format,
    "items": lambda known: known[1].items,
    "key": lambda known: known[0].key or "",  # without a key: first
    "last_seen_at": lambda known: known[1].last_ms,
    "refused": lambda known: known[1].refused,
    "requests": lambda known: known[1].requests,
    "service_name": lambda known: known[0].service or "",
}
WARNINGS: Final = ("refused", "silent", "missing_usage")
SENDER_LIST: Final = ListShape(
    root="senders",
    sort_keys=tuple(SORT_VALUES),
    default_sort=Sort("last_seen_at", "desc"),
    filters=(
        Filterable("key", (), is_open=True),
        Filterable("format", (), is_open=True),
        Filterable("service_name", (), is_open=True),
        Filterable("warning", WARNINGS),
    ),
)


class SenderRefusal(TypedDict):
    reason: str
    requests: Annotated[int, Schema(minimum=1)]
    last_at: Time


class SenderWarning(TypedDict):
    code: Code
    text: str
    remedy: str


class SenderActivity(TypedDict):
    id: int
    key: str | None
    """Name of the inbound key. Null on open intake and where a request had no known key."""
    format: str
    """`otlp.traces`, `otlp.logs`, `otlp.metrics`, a source's name, `records`, `usage_events`,
    `unit_cost` or `devices`."""
    service_name: str | None
    """`service.name`; null where nothing states it. `(other)`: the key names more than 200."""
    product: str | None
    """What its User-Agent begins with."""
    first_seen_at: Time
    last_seen_at: Time | None
    """Null where everything was refused."""
    silent_s: Annotated[float | None, Schema(minimum=0)]
    """Since last_seen_at."""
    requests: Count
    """Taken."""
    items: Count
    """Spans, log records, points, events or calls, whatever became of them."""
    calls: Count
    """Calls of this sender, each once. A call that two senders report counts for each of them, and
    once in `GET /v2/usage`.
    """
    calls_without_usage: Count
    """Calls that did not fail and have no tokens. A failed call is not among them."""
    share_without_usage: float | None
    """Null where there are no calls."""
    bytes: Count
    """Of bodies, decompressed."""
    longest_silence_s: Annotated[float, Schema(minimum=0)]
    """Between two requests."""
    refused: Count
    """Requests."""
    refusals: list[SenderRefusal]
    """By reason, the last one first."""
    warnings: list[SenderWarning]


def sender_page(known: Mapping[SenderId, Activity], now_ms: int, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The page that *query* asks for. Raises BadListRequest."""
    request = read_request(SENDER_LIST, query)
    filters = dict(request.filters)
    wanted = filters.pop("warning", ())
    kept = [
        x for x in known.items() if not wanted or any(w.code in wanted for w in warnings_of(x[1], x[0].format, now_ms))
    ]
    kept = [x for x in kept if all(value_of(x, name) in values for name, values in filters.items())]
    page = page_of(
        replace(request, filters={}),
        kept,
        field_of=lambda x, name: SORT_VALUES[name](x),
        id_of=lambda x: x[1].sender_no,
        item_of=lambda x: sender_item(*x, now_ms),
    )
    return envelope(SENDER_LIST, request, page)


def value_of(known: Known, name: str) -> str | None:
    sender, _ = known
    return {"key": sender.key, "format": sender.format, "service_name": sender.service}[name]


def sender_item(sender: SenderId, activity: Activity, now_ms: int) -> SenderActivity:
    calls = activity.calls
    return {
        "id": activity.sender_no,
        "key": sender.key,
        "format": sender.format,
        "service_name": sender.service,
        "product": sender.product or None,
        "first_seen_at": rfc3339_ms(activity.first_ms),
        "last_seen_at": rfc3339_ms(activity.last_ms) if activity.requests else None,
        "silent_s": max(0, now_ms - activity.last_ms) / 1000 if activity.requests else None,
        "requests": activity.requests,
        "items": activity.items,
        "calls": calls,
        "calls_without_usage": activity.without_usage,
        "share_without_usage": round(activity.without_usage / calls, 4) if calls else None,
        "bytes": activity.size_bytes,
        "longest_silence_s": activity.longest_gap_ms / 1000,
        "refused": activity.refused,
        "refusals": [
            {"reason": reason, "requests": x.requests, "last_at": rfc3339_ms(x.last_ms)}
            for reason, x in sorted(activity.refusals.items(), key=lambda item: -item[1].last_ms)
        ],
        "warnings": [
            {"code": each.code, "text": each.text, "remedy": each.remedy}
            for each in warnings_of(activity, sender.format, now_ms)
        ],
    }
