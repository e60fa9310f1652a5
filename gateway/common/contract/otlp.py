"""OTLP's own words: signals, encodings, and how a partial success counts what was refused. Shared
by the listeners of the gateway and by the local service.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

from gateway.common.contract.outcomes import Rejection

Signal = Literal["traces", "logs", "metrics"]
Media = Literal["protobuf", "json"]
"""The encoding that a request came in; its answer goes out in the same."""

CONTENT_TYPES: Final[dict[Media, str]] = {"protobuf": "application/x-protobuf", "json": "application/json"}

REJECTED_FIELD: Final[dict[Signal, str]] = {
    "traces": "rejectedSpans",
    "logs": "rejectedLogRecords",
    "metrics": "rejectedDataPoints",
}
"""JSON name of field 1 of each signal's partial success."""

MAX_REASONS: Final = 5


@lru_cache(maxsize=256)
def media_of(content_type: str) -> Media | None:
    """The encoding that a Content-Type names, whatever its case and
    parameters; None when it is neither.
    """
    match content_type.partition(";")[0].strip().lower():
        case "application/x-protobuf" | "application/protobuf":
            return "protobuf"
        case "application/json":
            return "json"
        case _:
            return None


def rejection_message(items: int, rejected: Sequence[Rejection]) -> str:
    """Counts by reason, each with the first position it was seen at; *items* came in all."""
    counts = Counter(rejection.reason for rejection in rejected)
    first: dict[str, str] = {}
    for rejection in rejected:
        first.setdefault(rejection.reason, rejection.position)
    parts = [f"{reason} ({n}, first at {first[reason]})" for reason, n in counts.most_common(MAX_REASONS)]
    if len(counts) > MAX_REASONS:
        parts.append("and others")
    return f"{len(rejected)} of {items} items rejected: " + ", ".join(parts)
