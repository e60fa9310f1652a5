"""How much one payload may hold. Pure.

A limit holds before the objects exist that it bounds: bytes cost a sender next to nothing
(ten kilobytes of gzip hold five million empty spans), objects cost the gateway a hundred times
their bytes.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.common.contract.errors import TooLarge

TOO_MANY: Final = "too_many_attributes"
"""Why one item is rejected that has more attributes than `ParseLimits.max_attributes`."""


class ParseLimits(NamedTuple):
    """Each is the option of the same name in the group `limits`."""

    max_items: int = 30_000
    """Spans, log records, data points and rows, and the resources, scopes and metrics around
    them."""
    max_attributes: int = 10_000
    """Of one item or resource, with those of its events and with what is nested in them."""
    max_json_values: int = 1_000_000
    """Objects, arrays and commas of a JSON body, outside its texts."""
    max_series: int = 10_000
    """Series that one payload of metrics names."""


DEFAULT_LIMITS = ParseLimits()
OTHERS_EACH: Final = 2
"""Fields of resources, scopes and metrics besides their items, for each item of `max_items`."""
FIELDS_EACH: Final = 16
"""Fields of large items that are walked one by one, for each item of `max_items`."""


class Meter:
    """Counts something of one payload while it is read: its items, or what *refusal* names."""

    __slots__ = ("_left", "_limit", "_refusal")

    def __init__(self, limit: int, refusal: Callable[[int], TooLarge] | None = None) -> None:
        self._limit = self._left = limit
        self._refusal = refusal or too_many_items

    def take(self, number: int) -> None:
        """Raises TooLarge with the first that is too many."""
        self._left -= number
        if self._left < 0:
            raise self._refusal(self._limit)


def too_many_items(limit: int) -> TooLarge:
    return TooLarge(
        f"the body holds more than {limit} items (spans, log records, data points, and the resources, scopes and metrics"
        " around them): send fewer in one request, or raise limits.max_items of the gateway"
    )


def too_many_other_fields(limit: int) -> TooLarge:
    return TooLarge(
        f"the resources, scopes and metrics of the body hold more than {limit} fields besides their items: send fewer in"
        " one request, or raise limits.max_items of the gateway"
    )


def too_many_fields(limit: int) -> TooLarge:
    return TooLarge(
        f"the large items of the body hold more than {limit} fields: send fewer in one request, or raise limits.max_items"
        " of the gateway"
    )


def too_many_attributes(what: str, limit: int) -> TooLarge:
    return TooLarge(
        f"{what} has more than {limit} attributes: send fewer, or raise limits.max_attributes of the gateway"
    )


def too_many_values(limit: int) -> TooLarge:
    return TooLarge(
        f"the JSON holds more than {limit} values: send fewer items in one request, or raise limits.max_json_values of the"
        " gateway"
    )


def too_many_series(limit: int) -> TooLarge:
    return TooLarge(
        f"the body names more than {limit} series: send fewer data points in one request, or raise limits.max_series of the"
        " gateway"
    )
