"""The list of senders, by the list conventions. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.lists.conventions import Filterable, ListShape, Sort, SortValue, envelope, read_request
from gateway.lists.memory import page_of
from gateway.senders.activity import Activity, SenderId
from gateway.senders.warning import warnings_of
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


def sender_item(sender: SenderId, activity: Activity, now_ms: int) -> dict[str, Any]:
    """One item: what `Sender` in the description of the API holds."""
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
        "warnings": [warned._asdict() for warned in warnings_of(activity, sender.format, now_ms)],
    }
