"""How a customer's own JSON is read: where each field of a record stands in it. Plain data, as the
configuration has it. Pure.

A path is a name, or names with dots between them, one object a dot: `usage.prompt_tokens`; `*`
stands for the first entry of a list. A field may have several; the first with a value counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.common.suggestions import did_you_mean
from gateway.products.fields import Path
from gateway.rules.conventions.table import Convention, configured_inclusive, exclusive, unstated
from spool.record import FIELDS as RECORD

BESIDE: Final = ("duration_ms", "ended_at", "status_code", "error_type", "trace_id", "span_id", "parent_span_id")
"""What may be mapped and is in no table, for it is no name and no count."""
_RENAMED: Final = {
    "time_to_first_token_ms": "time_to_first_ms",
    "total_tokens": "total",
    "gateway_cache_hit": "cache_hit",
}
_NOT_MAPPED: Final = frozenset({"billed", "status", *BESIDE})
"""`gateway_cache_hit` and `status_code` state the first two."""
FIELDS: Final[Mapping[str, str]] = {
    field.name: field.row.words[0] for field in RECORD if field.row.words and field.name not in _NOT_MAPPED
} | _RENAMED
"""What may be mapped, as the record calls it -> the tables' word for it."""
LABEL: Final = "label."
_MAX_LABEL_CHARS: Final = 64
_MAX_PATH_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class FieldMap:
    """Where things stand. All paths are relative to one item."""

    items: str = ""
    """Path of the list of calls in a document; empty where a document is one call."""
    time: tuple[str, ...] = ()
    """When the call began."""
    event_id: tuple[str, ...] = ()
    """What distinguishes one call from any other; without it, its
    time, names and counts together do."""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    input_includes_cache: bool | None = None
    """Whether the input tokens hold those from the cache; None: as the numbers prove."""


def fault_in(fields: Mapping[str, Sequence[str]]) -> str | None:
    """What is wrong with the names and paths of *fields*; None when nothing is."""
    for name, paths in fields.items():
        if not is_field(name):
            known = [*FIELDS, *BESIDE]
            hint = did_you_mean(name, known) or f"; known are {', '.join(known)} and {LABEL}<name>"
            return f"unknown field {name!r}{hint}"
        if not paths or not all(map(is_path, paths)):
            return f"{name}: needs a path such as usage.prompt_tokens, or a list of them"
    return None


def is_field(name: str) -> bool:
    if name.startswith(LABEL):
        label = name.removeprefix(LABEL)
        return len(label) <= _MAX_LABEL_CHARS and label.replace("_", "").isalnum() and label.isascii()
    return name in FIELDS or name in BESIDE


def is_path(text: str) -> bool:
    return 0 < len(text) <= _MAX_PATH_CHARS and text == text.strip()


def mapping_of(plain: Mapping[str, Any]) -> FieldMap:
    """The mapping that *plain* (as JSON or YAML has it) describes.

    Raises ValueError, which states what to remedy.
    """
    fields = {name: paths_of(paths) for name, paths in dict(plain.get("fields") or {}).items()}
    fault = fault_in(fields)
    if fault is not None:
        raise ValueError(fault)
    return FieldMap(
        str(plain.get("items") or ""),
        paths_of(plain.get("time") or ()),
        paths_of(plain.get("event_id") or ()),
        fields,
        plain.get("input_includes_cache"),
    )


def paths_of(value: str | Sequence[str]) -> tuple[str, ...]:
    """One path or several, as several."""
    return (value,) if isinstance(value, str) else tuple(value)


def convention_of(mapping: FieldMap) -> Convention:
    """The table of *mapping*."""
    own = {FIELDS.get(name, name): paths for name, paths in mapping.fields.items() if name not in BESIDE}
    basis = {True: configured_inclusive, False: exclusive, None: unstated}[mapping.input_includes_cache]
    return Convention("generic", own=own, basis=basis)


def path_of(name: str) -> Path:
    return Path(name, tuple(name.split(".")))


DEFAULT: Final = FieldMap(
    time=("started_at", "start_time", "timestamp", "created_at", "created", "time"),
    event_id=("event_id", "id", "request_id"),
    fields={
        "provider": ("provider",),
        "operation": ("operation",),
        "request_model": ("request_model", "model"),
        "response_model": ("response_model",),
        "response_id": ("response_id",),
        "request_id": ("request_id",),
        "input_tokens": ("input_tokens", "prompt_tokens", "usage.input_tokens", "usage.prompt_tokens"),
        "output_tokens": ("output_tokens", "completion_tokens", "usage.output_tokens", "usage.completion_tokens"),
        "total_tokens": ("total_tokens", "usage.total_tokens"),
        "cache_read_input_tokens": (
            "cache_read_input_tokens",
            "usage.cache_read_input_tokens",
            "usage.prompt_tokens_details.cached_tokens",
            "usage.input_tokens_details.cached_tokens",
        ),
        "cache_creation_input_tokens": ("cache_creation_input_tokens", "usage.cache_creation_input_tokens"),
        "reasoning_output_tokens": (
            "reasoning_output_tokens",
            "usage.completion_tokens_details.reasoning_tokens",
            "usage.output_tokens_details.reasoning_tokens",
        ),
        "cost": ("cost", "cost_usd"),
        "currency": ("currency",),
        "duration_ms": ("duration_ms", "latency_ms"),
        "status_code": ("status_code",),
        "error_type": ("error_type",),
        "user": ("user", "user_id"),
        "session": ("session", "session_id"),
        "team": ("team", "team_id"),
        "project": ("project", "project_id"),
        "environment": ("environment",),
        "trace_id": ("trace_id",),
        "span_id": ("span_id",),
    },
)
"""Without configuration: the names that a record has itself, and OpenAI's usage object."""
