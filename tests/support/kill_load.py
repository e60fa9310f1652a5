"""A load that outlives the gateway: senders that resend or give up like real ones, and
know what was acknowledged.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import aiohttp
from grpc import aio

from benchmarks.bodies import Template
from benchmarks.scenario import Sink
from tests.support.grpc_calls import called

_GIVE_UP_EVERY = 3
"""Every third request is not sent again after a broken connection, as by a
sender that dies or drops."""
_PAUSE_S = 0.05
"""Before another attempt, as senders pause."""


class Load:
    """Workers that send distinct requests until asked to stop, over HTTP."""

    def __init__(self, template: Template, intake_url: Callable[[], str], *, give_up: bool = True) -> None:
        """*intake_url* is asked before each attempt: a restarted gateway has another port."""
        self.acked: set[int] = set()
        """Numbers of the requests that were answered 200."""
        self.sent: set[int] = set()
        """Numbers of the requests that were tried at all."""
        self.resent = 0
        self.statuses: Counter[int] = Counter()
        self._template = template
        self._intake_url = intake_url
        self._give_up = give_up
        self._next = 0
        self._up = asyncio.Event()
        self._stopping = False

    def gateway_is_up(self) -> None:
        """Send, now."""
        self._up.set()

    def gateway_is_down(self) -> None:
        """What fails from here on waits for `gateway_is_up` before it is tried again."""
        self._up.clear()

    def stop(self) -> None:
        """Begin no new request; those under way go on to their end."""
        self._stopping = True

    async def run(self, workers: int) -> None:
        """Send until stopped."""
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker(session))

    async def send_one(self) -> None:
        """Send the next request until it is acknowledged or given up."""
        async with aiohttp.ClientSession() as session:
            await self._take(session)

    async def _worker(self, session: aiohttp.ClientSession) -> None:
        while not self._stopping:
            await self._up.wait()
            await self._take(session)

    async def _take(self, session: aiohttp.ClientSession) -> None:
        number = self._next
        self._next += 1
        await self._deliver(session, number)

    async def _deliver(self, session: aiohttp.ClientSession, number: int) -> None:
        self.sent.add(number)
        body = self._template.body(number)
        while True:
            try:
                status, retry_after_s = await self._post(session, body)
            except (aiohttp.ClientError, OSError, TimeoutError):
                if self._give_up and number % _GIVE_UP_EVERY == 0:
                    return
                await asyncio.sleep(_PAUSE_S)
                await self._up.wait()
                self.resent += 1
                continue
            self.statuses[status] += 1
            if status == 200:
                self.acked.add(number)
                return
            await asyncio.sleep(retry_after_s)

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> tuple[int, float]:
        url = self._intake_url() + "/v1/traces"
        timeout = aiohttp.ClientTimeout(total=20)
        async with session.post(url, data=body, headers=self._template.headers(), timeout=timeout) as answer:
            await answer.read()
            return answer.status, float(answer.headers.get("Retry-After", _PAUSE_S))


class GrpcLoad(Load):
    """The same over gRPC, each attempt on the channel of the gateway that runs then; *intake_url*
    gives its target.
    """

    _channel: Any = None
    _target = ""

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> tuple[int, float]:
        target = self._intake_url()
        if target != self._target:
            self._target, self._channel = target, aio.insecure_channel(target)
        answer = await called(self._channel, body, timeout_s=60)
        if isinstance(answer, bytes):
            return 200, 0.0
        if answer.status is None:  # the transport's own: no one answered
            raise ConnectionError(answer.text)
        return answer.status.code, float(answer.retry_after_s or _PAUSE_S)


def assert_acknowledged_arrived_once(load: Load, sink: Sink, template: Template, kills: int) -> None:
    """Every request that was acknowledged is at *sink* whole, every other one whole or not at all,
    and no span twice.
    """
    counts, seen = sink.counts(), sink.seen()
    spans = template.shape.spans
    arrived = {number: _spans_of(number, spans, seen) for number in load.sent}
    sys.stderr.write(
        f"{kills} kills: {len(load.sent)} requests sent, {len(load.acked)} acknowledged, {load.resent} resent,"
        f" statuses {dict(load.statuses)}; sink: {counts}\n"
    )
    assert len(load.acked) > kills, "the load did not get going"
    assert [number for number in load.acked if arrived[number] != spans] == [], "acknowledged, but not arrived"
    assert set(arrived.values()) <= {0, spans}, "a request was kept in part"
    assert (counts.double_counted, counts.unknown, counts.bad_requests) == (0, 0, 0)
    whole = sum(n == spans for n in arrived.values())
    assert counts.unique_records == counts.unique_spans == whole * spans
    assert counts.input_tokens == whole * template.input_tokens
    assert counts.output_tokens == whole * template.output_tokens


def _spans_of(number: int, spans: int, seen: bytes) -> int:
    """How many of its *spans* the sink has of request *number*."""
    first = number * spans
    return sum(seen[at >> 3] >> (at & 7) & 1 for at in range(first, first + spans) if at >> 3 < len(seen))
