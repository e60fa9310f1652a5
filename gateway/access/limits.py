"""A key's limits: what it may send in a minute, and what it sees. Pure.

The limits are the key's; the counting against them is the receiver's.
"""

from dataclasses import dataclass
from typing import Annotated, NotRequired, TypedDict, cast

from gateway.access.errors import InvalidKey
from gateway.common.contract.json_types import Schema
from gateway.common.contract.reach import Reach, reach_faults, reach_json, reach_of

MAX_LIMIT = 2**53
"""The largest whole number that every JSON reader keeps exactly."""


class RateJson(TypedDict):
    requests_per_minute: Annotated[int | None, Schema(minimum=1)]
    """Null for no limit."""
    bytes_per_minute: Annotated[int | None, Schema(minimum=1)]
    """Null for no limit."""


class KeyLimits(RateJson):
    team: NotRequired[list[str]]
    """It sees the calls of these teams only; absent for no limit."""
    project: NotRequired[list[str]]
    """The same of projects."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    requests_per_minute: int | None = None
    """None: no limit."""
    bytes_per_minute: int | None = None
    """Of bodies after decompression. None: no limit."""

    def as_json(self) -> RateJson:
        return {"requests_per_minute": self.requests_per_minute, "bytes_per_minute": self.bytes_per_minute}


NO_LIMITS = RateLimits()


def valid_limits(limits: RateLimits) -> RateLimits:
    """*limits* itself, whose values may be of any type yet. Raises InvalidKey with every fault."""
    wrong = [name for name, value in limits.as_json().items() if not is_limit(value)]
    if wrong:
        raise InvalidKey(f"limits.{', '.join(wrong)}: a whole number from 1 on is needed, or null for no limit")
    return limits


def limits_json(limits: RateLimits, reach: Reach) -> KeyLimits:
    return cast("KeyLimits", {**limits.as_json(), **reach_json(reach)})


def valid_reach(reach: Reach) -> Reach:
    """*reach* in its one form. Raises InvalidKey with every fault."""
    if found := reach_faults(dict(reach), "limits"):
        raise InvalidKey("; ".join(found))
    return reach_of(dict(reach))


def is_limit(value: object) -> bool:
    return value is None or (type(value) is int and 1 <= value <= MAX_LIMIT)
