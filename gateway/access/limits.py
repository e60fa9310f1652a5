"""What one key may send in a minute. Pure.

The limits are the key's; the counting against them is the receiver's.
"""

from dataclasses import dataclass
from typing import Annotated, TypedDict

from gateway.access.errors import InvalidKey
from gateway.common.contract.json_types import Schema

MOST = 2**53
"""The largest whole number that every JSON reader keeps exactly."""


class KeyLimits(TypedDict):
    requests_per_minute: Annotated[int | None, Schema(minimum=1)]
    """Null for no limit."""
    bytes_per_minute: Annotated[int | None, Schema(minimum=1)]
    """Null for no limit."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    requests_per_minute: int | None = None
    """None: no limit."""
    bytes_per_minute: int | None = None
    """Of bodies after decompression. None: no limit."""

    def as_json(self) -> KeyLimits:
        return {"requests_per_minute": self.requests_per_minute, "bytes_per_minute": self.bytes_per_minute}


NO_LIMITS = RateLimits()


def valid_limits(limits: RateLimits) -> RateLimits:
    """*limits* itself, whose values may be of any type yet. Raises InvalidKey with every fault."""
    wrong = [name for name, value in limits.as_json().items() if not is_limit(value)]
    if wrong:
        raise InvalidKey(f"limits.{', '.join(wrong)}: a whole number from 1 on is needed, or null for no limit")
    return limits


def is_limit(value: object) -> bool:
    return value is None or (type(value) is int and 1 <= value <= MOST)
