"""A request's body, read within limits: on the wire, after decompression, and
over all requests together.

Bytes are taken from one `Budget` as they arrive, never as announced: a `Content-Length` alone
takes none. The caller owns a `Hold` for the life of the request and
releases it when the answer is ready.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Final

from aiohttp import web

from gateway.common.contract.errors import BadPayload, Overloaded, TooLarge
from gateway.common.http.arriving_body import invite, next_bytes
from gateway.serve.content_encoding import Decode
from gateway.serve.decompression import Decompression
from gateway.serve.quotas import Charge
from spool.drain import Drain

MIB: Final = 1024 * 1024

INLINE_BYTES = MIB
"""Output decompressed on the event loop's thread (1 to 3 ms); what follows goes to a
thread, a round at a time."""
INLINE_S: Final = 0.01
"""CPU of the same: some bytes take longer."""

ROUND_BYTES = 4 * MIB
ROUNDS_AT_ONCE: Final = 2
"""Over all requests; what a round gives is in memory before it is taken from the budget."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    max_body_bytes: int = 64 * MIB
    """On the wire."""
    max_decompressed_bytes: int = 64 * MIB
    max_in_flight_bytes: int = 256 * MIB
    """Bodies of all requests that have no answer yet."""
    body_timeout_s: float = 60.0
    """From the end of the headers to the end of the body."""
    max_connections: int = 8000
    """Of HTTP, at once."""


LONGEST_WAIT_S: Final = 30
"""That a sender is asked for: bodies end sooner than a spool drains."""


SMALL_BYTES: Final = MIB
"""A request that holds no more finds room in the last part of the budget too, where larger ones
share the rest."""
FOR_SMALL: Final = 8
"""That part is one of so many."""


class Share:
    """What the requests of one sender (key, else address) hold together."""

    __slots__ = ("held_bytes", "requests")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.requests = 0


class Budget:
    """Bytes that all requests hold together.

    Every sender may have one request, as far as there is room. With more than one it may hold no
    more than is still free: alone a half, with one that does the same a third each. So there is
    always room for another, and no one stands in the way of a sender who is alone. However many
    senders have a large request, an eighth is left to small ones.
    """

    __slots__ = ("drain", "limit_bytes", "rounds", "shares", "used_bytes")

    def __init__(self, limit_bytes: int, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.drain = Drain(monotonic_s)
        """How fast requests are done with theirs."""
        self.rounds = asyncio.Semaphore(ROUNDS_AT_ONCE)
        """For decompression in a thread, until its bytes are taken."""
        self.shares: dict[str, Share] = {}
        """Of those that have a request under way."""

    def join(self, owner: str, n_requests: int = 1) -> Share:
        """The share of *owner*, with so many more requests."""
        share = self.shares.get(owner)
        if share is None:
            share = self.shares[owner] = Share()
        share.requests += n_requests
        return share

    def leave(self, owner: str, n_requests: int = 1) -> None:
        """Note that *n_requests* of *owner* ended."""
        share = self.shares[owner]
        share.requests -= n_requests
        if not share.requests:
            del self.shares[owner]


class Hold:
    """The share of the budget of one request, or of several that are taken together, and what it
    took of its key's quota.
    """

    __slots__ = ("_budget", "_held_bytes", "_n_requests", "_owner", "_share", "charge")

    def __init__(self, budget: Budget, n_requests: int = 1) -> None:
        self._budget = budget
        self._n_requests = n_requests
        self._held_bytes = 0
        self._owner: str | None = None
        self._share: Share | None = None
        self.charge: Charge | None = None
        """None where the key has no limits."""

    def belongs_to(self, owner: str) -> None:
        """From now on it counts among the requests of *owner*. To be called once, before a byte is
        taken.
        """
        self._owner, self._share = owner, self._budget.join(owner, self._n_requests)

    def take(self, n_bytes: int) -> None:
        """Raises Overloaded, with nothing taken, when the budget has no room, or none for this
        sender.
        """
        budget, share = self._budget, self._share
        over_bytes = budget.used_bytes + n_bytes - budget.limit_bytes
        too_many_bytes = over_bytes + self._left_to_small(n_bytes)
        if too_many_bytes > 0:
            raise self._overloaded("too many bytes are in flight", too_many_bytes)
        if share is not None:
            if share.requests > 1 and share.held_bytes + n_bytes + over_bytes > 0:
                raise self._overloaded(
                    "too many bytes of this sender are in flight", share.held_bytes + n_bytes + over_bytes
                )
            share.held_bytes += n_bytes
        budget.used_bytes += n_bytes
        self._held_bytes += n_bytes

    def _left_to_small(self, n_bytes: int) -> int:
        """What this request may not touch, where it is large and another is as well."""
        left_bytes = self._budget.limit_bytes // FOR_SMALL
        is_large = self._held_bytes + n_bytes > SMALL_BYTES
        return left_bytes if is_large and self._budget.used_bytes - self._held_bytes > left_bytes else 0

    def _overloaded(self, text: str, over_bytes: int) -> Overloaded:
        return Overloaded(text, retry_after_s=min(LONGEST_WAIT_S, self._budget.drain.wait_s(over_bytes)))

    def give(self, n_bytes: int) -> None:
        self._budget.used_bytes -= n_bytes
        self._held_bytes -= n_bytes
        if self._share is not None:
            self._share.held_bytes -= n_bytes

    def let_go(self, n_requests: int, n_bytes: int) -> None:
        """Give up *n_requests* of its requests with the bytes that were taken for them: they are
        taken by themselves.
        """
        self.give(n_bytes)
        if self._owner is not None and n_requests:
            self._budget.leave(self._owner, n_requests)
            self._n_requests -= n_requests
        if self.charge is not None:
            self.charge.let_go(n_requests, n_bytes)

    def take_of_quota(self, n_bytes: int) -> None:
        """The plain body, or its next piece. Raises OverQuota."""
        if self.charge is not None:
            self.charge.take_body(n_bytes)

    def spend_quota(self) -> None:
        """What was sent until now is on disk, whatever becomes of the rest."""
        if self.charge is not None:
            self.charge.spend()

    def give_back_quota(self) -> None:
        """What was not kept, the sender will send once more."""
        if self.charge is not None:
            self.charge.give_back()

    def release(self) -> int:
        """Give back whatever is still held; how many bytes that was."""
        held_bytes = self._held_bytes
        if held_bytes:
            self._budget.drain.left(held_bytes)
            self.give(held_bytes)
        if self._owner is not None:
            self._budget.leave(self._owner, self._n_requests)
            self._owner = self._share = None
        return held_bytes

    @property
    def requests(self) -> int:
        """Of its sender, with this one."""
        return 1 if self._share is None else self._share.requests

    @property
    def rounds(self) -> asyncio.Semaphore:
        """`Budget.rounds`."""
        return self._budget.rounds


async def read_body(request: web.BaseRequest, decode: Decode | None, limits: BodyLimits, hold: Hold) -> bytes:
    """The whole body, plain.

    Raises TooLarge, BadPayload, Overloaded; ConnectionError when the sender went away.
    """
    if request.content.is_eof():
        raw = body_at_hand(request, limits, hold)
    else:
        raw = await arriving_body(request, limits, hold)
    if decode is None:
        return raw
    plain = await decompressed(raw, decode, limits, hold)
    hold.give(len(raw))
    return plain


def body_at_hand(request: web.BaseRequest, limits: BodyLimits, hold: Hold) -> bytes:
    """The body, as it was sent: a small one comes in one read with its headers. Raises TooLarge,
    Overloaded.
    """
    raw = request.content.read_nowait()
    if len(raw) > limits.max_body_bytes:
        raise too_large("the body", limits.max_body_bytes, "max_body_bytes")
    hold.take(len(raw))
    return raw


async def arriving_body(request: web.BaseRequest, limits: BodyLimits, hold: Hold) -> bytes:
    """Read until the body ends; a length announced above the limit is
    refused before a byte is read.
    """
    limit = limits.max_body_bytes
    if (request.content_length or 0) > limit:
        raise too_large("the body", limit, "max_body_bytes")
    invite(request)
    body = BytesIO()  # unlike pieces that are joined, it gives its bytes without a second copy of them
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            while chunk := await next_bytes(request):
                if body.tell() + len(chunk) > limit:
                    raise too_large("the body", limit, "max_body_bytes")
                hold.take(len(chunk))
                body.write(chunk)
    except TimeoutError:
        # Not 408: senders drop their data on it (B30).
        raise Overloaded("the body did not arrive in time") from None
    except web.RequestPayloadError:
        raise BadPayload("the body's transfer coding is damaged, or its chunks are too small") from None
    return body.getvalue()


def too_large(what: str, limit_bytes: int, option: str) -> TooLarge:
    return TooLarge(f"{what} is larger than limits.{option} allows, {limit_bytes} bytes")


async def decompressed(raw: bytes, decode: Decode, limits: BodyLimits, hold: Hold) -> bytes:
    """Decompress in rounds, so that a bomb is refused at most one block after the limit, and a
    large body blocks no one.
    """
    undone = Decompression(raw, decode)
    limit = limits.max_decompressed_bytes
    plain = BytesIO()

    def take(n_bytes: int) -> None:
        if plain.tell() > limit:
            raise too_large("the decompressed body", limit, "max_decompressed_bytes")
        hold.take(n_bytes)

    take(undone.write(plain, min(INLINE_BYTES, limit + 1), INLINE_S))
    while not undone.is_done:
        wanted = min(ROUND_BYTES, limit - plain.tell() + 1)
        async with hold.rounds:
            take(await asyncio.to_thread(undone.write, plain, wanted))
    return plain.getvalue()
