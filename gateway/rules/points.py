"""Usage points: what is read off one metric data point. Pure types, and the identity of its series.

A series is everything that distinguishes one counter from another: who sent it, its resource,
scope, name, temporality and all attributes, known or not. Attributes are only hashed here; what is
kept of them is `Labels`.
"""

import struct
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import orjson

from gateway.common.contract.outcomes import Rejection
from gateway.read.view import AnyValue, Attributes
from gateway.rules.conventions.metric_tables import MetricTable
from spool.record import Attribution

KEY_BYTES = 16
PICO = 10**12
"""Money is counted in picounits of its currency: exact for any price a token has."""
_TIMES = struct.Struct("<QQqQ")
_MAX_DEPTH = 8


class MetricSource(NamedTuple):
    """Whose numbers these are, as far as it is stated; "" where it is not."""

    sender: str
    """`key:<what counting knows the inbound key by>`, else `peer:<address>`."""
    service_name: str
    device: str
    instance: str
    session: str
    """Of a point, only what it states itself: a resource's session may be a window, and a
    call's a conversation in it."""


class Labels(NamedTuple):
    """What points must share to become one record."""

    reporter: MetricSource
    scope: str
    scope_version: str
    provider: str | None
    request_model: str | None
    response_model: str | None
    operation: str
    service_tier: str | None
    who: tuple[tuple[str, str], ...]
    """Fields of attribution that the points state themselves."""
    resource: int
    """Position of the resource in its request."""


class Point(NamedTuple):
    """One data point of usage."""

    key: bytes
    """Of the state that it is compared with (`gateway.counting.metrics.series`): the series and,
    for a cumulative one, its start."""
    series: bytes
    labels: Labels
    table: MetricTable
    kind: str
    """A `TokenKind`, `cost`, or the type's own name where no table knows it."""
    is_known: bool
    value: int
    """Tokens, or picounits of `currency`."""
    measurements: int | None
    """Of a histogram."""
    start_ns: int
    """0 when the sender does not state."""
    time_ns: int
    is_delta: bool
    currency: str
    until_ns: int = 0
    """End of the stretch of time that a sum is reported for, again and again
    (`gateway.products.sums`); 0 for a counter's point."""


@dataclass(slots=True)
class UsagePoints:
    """What one payload of metrics holds.

    `items = len(points) + suppressed + rejected + ignored`.
    """

    points: list[Point] = field(default_factory=list)
    attributions: list[Attribution] = field(default_factory=list)
    """Of each resource of the request."""
    items: int = 0
    services: Counter[str | None] = field(default_factory=Counter)
    """As `Normalised.services`."""
    suppressed: Counter[str] = field(default_factory=Counter)
    ignored: int = 0
    rejected: list[Rejection] = field(default_factory=list)

    def reject(self, reason: str, position: str) -> None:
        """Count one item that cannot be read."""
        self.items += 1
        self.rejected.append(Rejection(reason, position))

    def note_position(self, position: str, *reading: object) -> None:
        """As `Normalised.note_position`: without a *reading* the item is ignored."""


def hashed(*parts: bytes) -> bytes:
    """128 bits over *parts*; their boundaries count."""
    return blake2b(b"".join([b"%d:%b" % (len(part), part) for part in parts]), digest_size=KEY_BYTES).digest()


def attributes_hash(attributes: Attributes) -> bytes:
    """128 bits over all attributes, in whatever order they came."""
    return blake2b(orjson.dumps(_flat(attributes, _MAX_DEPTH)), digest_size=KEY_BYTES).digest()


_Flat = list["str | _Flat"]
"""As JSON it is what only equal attributes have."""


def _flat(attributes: Attributes, depth: int) -> _Flat:
    """Each name and its value, by name."""
    flat: _Flat = []
    for name in sorted(attributes):
        value = attributes[name]
        text = value.string_value
        flat.append(name)
        flat.append("s" + text if text else _value(value, depth))
    return flat


def _value(value: AnyValue, depth: int) -> "str | _Flat":
    """A value that is no text; a number is the same whether it came as integer or double."""
    if value.HasField("int_value"):
        return f"n{value.int_value}"
    if value.HasField("double_value"):
        return "n" + repr(value.double_value).removesuffix(".0")
    if depth and value.HasField("array_value"):
        return [
            "a",
            *("s" + x.string_value if x.string_value else _value(x, depth - 1) for x in value.array_value.values),
        ]
    if depth and value.HasField("kvlist_value"):
        return ["m", *_flat(value.kvlist_value.values, depth - 1)]
    return ("b1" if value.bool_value else "b0") + value.bytes_value.hex()


def cumulative_key(series: bytes, start_ns: int) -> bytes:
    """A start of its own makes a state of its own: processes that share all labels never mix."""
    return hashed(b"c", series, start_ns.to_bytes(8, "little"))


def delta_key(series: bytes, start_ns: int, time_ns: int, value: int, measurements: int | None) -> bytes:
    """Of this very report: an equal one is a repeat."""
    return hashed(b"d", series, _TIMES.pack(start_ns, time_ns, value, 0 if measurements is None else measurements + 1))
