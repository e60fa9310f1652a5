"""What each key may still send: a bucket of requests and one of bytes for each key with limits.
Pure; the time is given in.

A bucket holds one minute's worth, and fills evenly. In memory: each process counts for
itself, and a restart begins with full buckets. Of gateways that count as one, each has an equal
part of each bucket. Bytes are those of bodies after decompression,
so they are known when a body was read:

1. A request takes one from the bucket of requests, and is refused unread where that holds
   less, or where no byte is left.
2. A body takes its size. It is refused where the bucket holds less; one that is larger than the
   whole bucket needs a full one, and leaves a debt that the following minutes pay. So it waits for
   a minute at most, and the rate holds all the same.
3. A body that is taken in pieces (`gateway.serve.http.streaming`) is let in by its first
   piece; the others only leave a debt, since a refusal in the middle would make its
   sender begin again, for ever.
4. What was taken for a request that we could not keep is given back; but not what was taken for
   pieces that are on disk, else a body that never ends would be free. A body that is refused for
   its size takes no bytes, but it was read and decompressed to know that: its request stays taken,
   else that work would be free. Its sender is asked to wait for both.
"""

import math
from collections.abc import Callable
from dataclasses import astuple
from typing import Final

from gateway.access.limits import NO_LIMITS, RateLimits
from gateway.access.record import KeyRecord
from gateway.common.contract.errors import OverQuota

MINUTE_S: Final = 60.0
MAX_KEYS = 10_000
"""Whose buckets are remembered; the one that was asked longest ago goes first, and
begins again with full ones."""


class Bucket:
    """What is left of one minute's worth. *at_s*: now, by any clock that only goes forward."""

    __slots__ = ("_at_s", "left")

    def __init__(self, size: int, at_s: float) -> None:
        self.left = float(size)
        """Below 0: a debt."""
        self._at_s = at_s

    def fill(self, size: int, at_s: float) -> None:
        """Up to *size*, which may have changed since."""
        self.left = min(float(size), self.left + max(0.0, at_s - self._at_s) * size / MINUTE_S)
        self._at_s = at_s

    def wait_s(self, wanted: int, size: int) -> int:
        """Whole seconds until *wanted* can be taken; 0 for now.

        More than *size* can be taken of a full bucket.
        """
        lacking = min(wanted, size) - self.left
        # A hair less is none: the sum of many fills is not exact.
        return 0 if lacking < 1e-6 else math.ceil(lacking * MINUTE_S / size)  # noqa: PLR2004 - explained above


class Charge:
    """What one request, or several together, took from their key's buckets."""

    __slots__ = ("_begun", "_bytes", "_is_spent", "_n_requests", "_quotas", "_requests", "key", "taken_bytes")

    def __init__(
        self,
        quotas: "Quotas",
        key: KeyRecord,
        in_requests: Bucket | None,
        in_bytes: Bucket | None,
        n_requests: int = 1,
    ) -> None:
        self.key = key
        self._n_requests = n_requests
        self.taken_bytes = 0
        self._quotas = quotas
        self._requests = in_requests
        self._bytes = in_bytes
        self._begun = self._is_spent = False

    def take_body(self, n_bytes: int) -> None:
        """The body, or its next piece. Raises OverQuota (rules 2 and 3)."""
        bucket, size = self._bytes, self._quotas.limits_of(self.key).bytes_per_minute
        if bucket is None or size is None:
            return
        bucket.fill(size, self._quotas.now_s())
        if not self._begun and (wait_s := bucket.wait_s(n_bytes, size)):
            self._is_spent = True
            raise self._quotas.over(self.key, "bytes", max(wait_s, self._request_wait_s()))
        self._begun = True
        bucket.left -= n_bytes
        self.taken_bytes += n_bytes

    def _request_wait_s(self) -> int:
        """Until the same request can be taken again."""
        bucket, size = self._requests, self._quotas.limits_of(self.key).requests_per_minute
        if bucket is None or size is None:
            return 0
        bucket.fill(size, self._quotas.now_s())
        return bucket.wait_s(1, size)

    def let_go(self, n_requests: int, n_bytes: int) -> None:
        """Give back so many of its requests: they are taken by themselves."""
        self._quotas.give_back(self.key, n_bytes, n_requests=n_requests)
        self._n_requests -= n_requests
        self.taken_bytes = max(0, self.taken_bytes - n_bytes)

    def spend(self) -> None:
        """What was taken until now was for pieces that are on disk."""
        self._is_spent = True
        self.taken_bytes = 0

    def give_back(self) -> None:
        """Rule 4."""
        self._quotas.give_back(self.key, self.taken_bytes, n_requests=0 if self._is_spent else self._n_requests)
        self.taken_bytes = 0


class Quotas:
    """The buckets of all keys with limits."""

    def __init__(self, now_s: Callable[[], float], gateways: Callable[[], int] = lambda: 1) -> None:
        """*gateways*: how many share each quota now; each takes its part, whatever others do."""
        self.now_s, self._gateways = now_s, gateways
        self._buckets: dict[str, tuple[Bucket | None, Bucket | None]] = {}
        """Key's id -> of requests, of bytes."""

    def charge(self, key: KeyRecord, announced_bytes: int = 1) -> Charge | None:
        """Take a request of *key*; None where it has no limits. Raises OverQuota (rule 1, or 2 for
        a body of *announced_bytes*).
        """
        limits = self.limits_of(key)
        most, max_bytes = limits.requests_per_minute, limits.bytes_per_minute
        if most is None and max_bytes is None:
            return None
        in_requests, in_bytes = self._of(key)
        now_s = self.now_s()
        if in_requests is not None and most is not None:
            in_requests.fill(most, now_s)
            if wait_s := in_requests.wait_s(1, most):
                raise self.over(key, "requests", wait_s)
        if in_bytes is not None and max_bytes is not None:
            in_bytes.fill(max_bytes, now_s)
            if wait_s := in_bytes.wait_s(announced_bytes, max_bytes):
                raise self.over(key, "bytes", wait_s)
        if in_requests is not None:
            in_requests.left -= 1
        return Charge(self, key, in_requests, in_bytes)

    def limits_of(self, key: KeyRecord) -> RateLimits:
        """This gateway's part of them: 1 at least."""
        gateways = self._gateways()
        if gateways <= 1 or key.limits == NO_LIMITS:
            return key.limits
        parts = [None if each is None else max(1, each // gateways) for each in astuple(key.limits)]
        return RateLimits(*parts)

    def have(self, key: KeyRecord, n_requests: int, n_bytes: int) -> bool:
        """Whether each of *n_requests* with bodies of *n_bytes* in all would be taken now."""
        limits = self.limits_of(key)
        if limits.requests_per_minute is None and limits.bytes_per_minute is None:
            return True
        in_requests, in_bytes = self._of(key)
        now_s = self.now_s()
        for bucket, size, wanted in (
            (in_requests, limits.requests_per_minute, n_requests),
            (in_bytes, limits.bytes_per_minute, n_bytes),
        ):
            if bucket is not None and size is not None:
                bucket.fill(size, now_s)
                if bucket.left < wanted:
                    return False
        return True

    def charge_together(self, key: KeyRecord, n_requests: int, n_bytes: int) -> Charge | None:
        """Take requests and bytes that it is known to `have`; None where it has no limits."""
        if self.limits_of(key) == NO_LIMITS:
            return None
        in_requests, in_bytes = self._of(key)
        if in_requests is not None:
            in_requests.left -= n_requests
        charge = Charge(self, key, in_requests, in_bytes, n_requests)
        charge.take_body(n_bytes)
        return charge

    def give_back(self, key: KeyRecord, n_bytes: int, *, n_requests: int = 1) -> None:
        """To *key*; a bucket never holds more than a minute's worth."""
        in_requests, in_bytes = self._of(key)
        limits = self.limits_of(key)
        if in_requests is not None and limits.requests_per_minute is not None:
            in_requests.left = min(in_requests.left + n_requests, limits.requests_per_minute)
        if in_bytes is not None and limits.bytes_per_minute is not None:
            in_bytes.left = min(in_bytes.left + n_bytes, limits.bytes_per_minute)

    def over(self, key: KeyRecord, what: str, wait_s: int) -> OverQuota:
        """The refusal."""
        most = key.limits.requests_per_minute if what == "requests" else key.limits.bytes_per_minute
        return OverQuota(
            f"the API key's quota of {most} {what} a minute is used up; send the same again in {wait_s} s",
            retry_after_s=wait_s,
            reason=f"over_quota_{what}",
            key=key.name,
        )

    def _of(self, key: KeyRecord) -> tuple[Bucket | None, Bucket | None]:
        """Its buckets as its limits are now: full where a limit is new."""
        in_requests, in_bytes = self._buckets.pop(key.key_id, (None, None))
        limits = self.limits_of(key)
        most, max_bytes = limits.requests_per_minute, limits.bytes_per_minute
        if most is not None and in_requests is None:
            in_requests = Bucket(most, self.now_s())
        if max_bytes is not None and in_bytes is None:
            in_bytes = Bucket(max_bytes, self.now_s())
        if len(self._buckets) >= MAX_KEYS:
            del self._buckets[next(iter(self._buckets))]
        made = self._buckets[key.key_id] = (
            None if most is None else in_requests,
            None if max_bytes is None else in_bytes,
        )
        return made


class ChargedBefore(Quotas):
    """Of the owner of a cell: the gateway that passed a request on charged it."""

    def limits_of(self, key: KeyRecord) -> RateLimits:
        return NO_LIMITS
