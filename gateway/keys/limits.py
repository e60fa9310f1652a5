"""What one key may send in a minute. Pure.

The limits are the key's; the counting against them is the receiver's.
"""

from dataclasses import dataclass

from gateway.keys.errors import InvalidKey

MOST = 2**53
"""The largest whole number that every JSON reader keeps exactly."""


@dataclass(frozen=True, slots=True)
class Limits:
    requests_per_minute: int | None = None
    """None: no limit."""
    bytes_per_minute: int | None = None
    """Of bodies after decompression. None: no limit."""

    def as_json(self) -> dict[str, int | None]:
        return {"requests_per_minute": self.requests_per_minute, "bytes_per_minute": self.bytes_per_minute}


NO_LIMITS = Limits()


def valid_limits(limits: Limits) -> Limits:
    """*limits* itself. Raises InvalidKey with every fault."""
    wrong = [name for name, value in limits.as_json().items() if value is not None and not 1 <= value <= MOST]
    if wrong:
        raise InvalidKey(f"limits.{', '.join(wrong)}: a whole number from 1 on is needed, or null for no limit")
    return limits
