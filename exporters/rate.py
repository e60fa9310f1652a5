"""A token bucket: so many a second, so many at once, and no more.

Pure: the time comes in, the delay comes out.
"""


class TokenBucket:
    """Holds at most *burst* tokens, full at first, and fills by *per_s*."""

    def __init__(self, *, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = burst
        self._filled_at_s: float | None = None

    def take(self, now_s: float, tokens: float = 1.0) -> float:
        """Take *tokens*, on credit if need be, and return the seconds to wait before using them."""
        if self._filled_at_s is not None:
            self._tokens = min(self._burst, self._tokens + max(0.0, now_s - self._filled_at_s) * self._per_s)
        self._filled_at_s = now_s
        self._tokens -= tokens
        return max(0.0, -self._tokens / self._per_s)
