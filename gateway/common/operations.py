"""What rules compute with values that are not always plain. Pure.

A rule is plain Python over plain values. Two other readers run the same rules: an explanation, over
values that carry their origins (`traced`), and a template of spans, over symbolic ones
(`varying`). What such values do not do by themselves is an operation here. No rule imports those
two modules or asks which of them reads.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar, cast

from gateway.common.traced import Leaf, Origin, Text, TracedObject, active_recording, carried, origin_of
from gateway.common.varying import Varying

_T = TypeVar("_T")

_MONEY_DECIMALS: Final = 15
_DIGITS: Final = ".15g"
"""What a double holds for sure; the 16th and 17th digit of its repr are binary
noise (0.020348750000000003)."""
_MIN_AMOUNT: Final = 1e-30
"""What is less, whatever its sign, is nothing: written out it would be hundreds of zeros."""
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Types of plain values. Operations on the hot path look here first."""


# ---- texts of numbers


_MS: Final = tuple(f".{part:03d}Z" for part in range(1000))


@lru_cache(maxsize=4096)
def _seconds(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def rfc3339(ms: int | Varying) -> str:
    """*ms* since the epoch as RFC 3339 UTC with milliseconds."""
    if isinstance(ms, Varying):
        return cast("str", ms.as_time())
    return _seconds(ms // 1000) + _MS[ms % 1000]


def money(total: int | Varying) -> str:
    """*total* of 1e-15 units as a decimal string without exponent or idle zeros."""
    if isinstance(total, Varying):
        return cast("str", total.as_money())
    digits = str(total).rjust(_MONEY_DECIMALS + 1, "0")
    return f"{digits[:-_MONEY_DECIMALS]}.{digits[-_MONEY_DECIMALS:]}".rstrip("0").rstrip(".")


def decimal_string(amount: float) -> str:
    """*amount* without exponent and without binary noise."""
    if abs(amount) < _MIN_AMOUNT:
        return "0"
    text = format(amount, _DIGITS)
    return format(Decimal(text), "f") if "e" in text else text


# ---- origins


def like(value: _T, source: object) -> _T:
    """*value*, which was made of *source* by a conversion that keeps no origin."""
    return value if type(source) in _PLAIN else cast("_T", carried(value, origin_of(source)))


def chosen(value: _T, *among: object) -> _T:
    """*value*, which a reader preferred to the others *among*."""
    if type(value) in _PLAIN or (origin := origin_of(value)) is None:
        return value
    passed = [leaf for other in among if other is not value for leaf in _leaves(other) if leaf not in origin.leaves]
    return cast("_T", carried(value, Origin(origin.leaves, origin.recording, (*origin.passed, *passed))))


def _leaves(value: object) -> tuple[Leaf, ...]:
    origin = origin_of(value)
    return () if origin is None else (*origin.leaves, *origin.passed)


def stated_at(value: _T, document: Mapping[str, Any], name: str) -> _T:
    """*value*, which follows from the member *name* of *document*."""
    return value if not isinstance(document, TracedObject) else cast("_T", carried(value, document.origin(name)))


def merged(value: str, parts: Iterable[object]) -> str:
    """*value*, which was made of *parts*."""
    if active_recording() is None:
        return value
    origins = [origin for part in parts if (origin := origin_of(part)) is not None]
    return value if not origins else cast("str", carried(value, sum(origins[1:], origins[0])))


def note_read(value: object) -> None:
    """Note that *value* was read of a document that notes nothing itself."""
    if type(value) in _PLAIN:
        return
    recording, origin = active_recording(), origin_of(value)
    if recording is not None and origin is not None:
        recording.note_read(origin, value)


def is_wanted(values: Mapping[str, Any], field: str) -> bool:
    """Whether *field* has no value yet; in an explanation always, so that the
    names passed over are noted.
    """
    return type(values) is not dict or field not in values


def reassembled(document: dict[str, Any]) -> dict[str, Any]:
    """*document*, which was put together of parts of others."""
    recording = active_recording()
    return document if recording is None else cast("dict[str, Any]", recording.traced(document))


def inside_text(read: Callable[[str | None], Mapping[str, Any]]) -> Callable[[str | None], Mapping[str, Any]]:
    """Decorator: *read* finds an object in a text, whose origin all in the object has."""

    @wraps(read)
    def operation(text: str | None) -> Mapping[str, Any]:
        if not isinstance(text, Text):
            return read(text)
        value = read(str(text))
        return TracedObject(value, (), text.origin.inside(), text.origin.recording) if value else value

    return operation
