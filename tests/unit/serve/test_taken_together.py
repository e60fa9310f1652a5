"""Requests that come at the same time with one head: taken together they come to what they come to
one by one.
"""

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from multidict import CIMultiDict

from benchmarks.bodies import Shape, Template
from gateway.access.limits import RateLimits
from gateway.access.record import KeyRecord
from gateway.common.contract.scopes import INGEST_SCOPE, Fixed
from gateway.common.native import NATIVE
from gateway.fleet.senders.activity import Senders
from gateway.observability.telemetry.tracer import Tracer
from gateway.serve.admission import Admission
from gateway.serve.authenticator import KeyAuthenticator, sender_of
from gateway.serve.body import BodyLimits
from gateway.serve.cors import Cors
from gateway.serve.http.server import make_server
from gateway.serve.otlp import otlp_routes
from gateway.serve.quotas import Quotas
from gateway.serve.receiver import Receiver
from gateway.serve.routes import RouteTable
from spool.errors import SpoolFull
from tests.support.calls import EPOCH_MS
from tests.support.metrics_rig import MetricsRig
from tests.support.native import needs_native
from tests.support.polling import HANGS_S

ROUNDS: Final = 20
CONNECTIONS: Final = 12
SPAN: Final = Template(Shape(spans=1), now_ns=EPOCH_MS * 10**6)
OTHER: Final = Template(Shape(spans=2, ai_percent=50), now_ns=EPOCH_MS * 10**6)
LARGE: Final = Template(Shape(spans=20), now_ns=EPOCH_MS * 10**6)


HUGE: Final = Template(Shape(spans=100), now_ns=EPOCH_MS * 10**6)
GZIP: Final = "Content-Encoding: gzip\r\n"


class Keys:
    """The keys `one` and `two`, and `few` with a quota, until they are revoked."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    def authenticate(self, text: str) -> KeyRecord | None:
        if text in self.revoked or text not in {"one", "two", "few"}:
            return None
        limits = RateLimits(40, 200_000) if text == "few" else RateLimits(None, None)
        return KeyRecord(text, text, "", Fixed({INGEST_SCOPE}), "Enabled", "", "", 0, "", 0, None, limits=limits)

    def named(self, name: str) -> KeyRecord | None:
        raise AssertionError(name)


class Link(asyncio.Transport):
    """One connection's transport: keeps what is written."""

    def __init__(self, number: int) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000 + number)})
        self.answers: list[bytes] = []
        self.asked = 0
        self.closing = False
        self.answered = asyncio.Event()

    def write(self, data: Any) -> None:
        if self.closing:
            raise RuntimeError("the transport is closed")
        begins = [*re.finditer(rb"HTTP/1.1 ", data)]
        if begins:
            self.answers += [bytes(data)]
        else:
            self.answers[-1] += bytes(data)
        head, _, body = self.answers[-1].partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if length is not None and len(body) == int(length[1]) and len(self.answers) == self.asked:
            self.answered.set()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def request(body: bytes, key: str = "one", more: str = "") -> bytes:
    head = (
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
        f"Authorization: {key}\r\nUser-Agent: Sender/{key}\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Held:
    """A commit that ends when the test says so."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def append(self, *_: object, **__: object) -> "asyncio.Future[None]":
        self.began.set()
        return self.done


class Gateway:
    """A receiver over a real spool whose clocks stand still."""

    def __init__(self, rig: MetricsRig, limits: BodyLimits, *, together: bool) -> None:
        self.rig = rig
        self.keys = Keys()
        self.senders = Senders(rig.clock)
        admission = Admission(KeyAuthenticator(self.keys), Quotas(lambda: 0.0))
        routes = RouteTable(otlp_routes(rig.intake))
        self.receiver = Receiver(routes, admission, limits, Cors(), now_ms=rig.clock, senders=self.senders)
        self.server: Any = make_server(self.receiver)
        self.groups: list[int] = []
        if together:
            taker = self.server._together._taker
            take = taker.take
            taker.take = lambda requests: (
                self.groups.append(len(requests)),
                take(requests),
            )
        else:
            self.server._together = None
        self.links: list[Link] = []
        self.connections: list[Any] = []

    async def connect(self, n: int) -> None:
        for number in range(n):
            self.links.append(Link(number))
            self.connections.append(self.server())
            self.connections[-1].connection_made(self.links[-1])
        await asyncio.sleep(0)  # aiohttp's tasks begin

    async def send(self, sent: Sequence[tuple[int, bytes]]) -> None:
        """Send in one iteration of the loop, and wait for all answers."""
        self.send_only(sent)
        async with asyncio.timeout(HANGS_S):
            for place, _ in sent:
                await self.links[place].answered.wait()
            # A request ends behind its answer, and there is no event for that.
            while any(self.connections[at].is_busy for at, _ in sent):  # noqa: ASYNC110
                await asyncio.sleep(0)

    def send_only(self, sent: Sequence[tuple[int, bytes]]) -> None:
        for place, data in sent:
            self.links[place].asked += 1
            self.links[place].answered.clear()
            self.connections[place].data_received(data)

    def holds_commits(self) -> "Held":
        """From now on no append is on disk before the test says so; the spool gets none."""
        held = Held()
        self.rig.spool.append = held.append  # type: ignore[method-assign, assignment]
        return held

    def answers(self) -> list[list[bytes]]:
        return [[re.sub(rb"Date: [^\r]*\r\n", b"", each) for each in link.answers] for link in self.links]

    async def figures(self) -> dict[str, Any]:
        """All that the conversation came to."""
        receiver, rig = self.receiver, self.rig
        front = rig.intake.front
        found = {
            "answers": self.answers(),
            "counts": dict(receiver.counts.answers),
            "unforeseen": receiver.counts.unforeseen,
            "seconds": {path: seconds.read().buckets[-1][1] for path, seconds in receiver.counts.seconds.items()},
            "appended": front.core.append_seconds.read().buckets[-1][1],
            "over_quota": dict(receiver.figures().over_quota),
            "left": {key: [x and x.left for x in pair] for key, pair in receiver.admission.quotas._buckets.items()},
            "held": receiver.budget.used_bytes,
            "shares": receiver.budget.shares,
            "edge": rig.spool.edge(),
            "reasons": rig.spool.counters.reasons if hasattr(rig.spool.counters, "reasons") else None,
            "senders": {
                sender: (
                    x.requests,
                    x.items,
                    x.calls,
                    x.without_usage,
                    x.size_bytes,
                    {r: n.requests for r, n in x.refusals.items()},
                )
                for sender, x in self.senders.known.items()
            },
            "reader": front.parser.reader.status(),
            "unpriced": dict(front.parser.rules.prices.unpriced),
            "requests": sum(receiver.counts.answers.values()),
        }
        await rig.settle()
        found["records"] = sorted(await rig.records(), key=lambda record: str(record["record_id"]))
        return found


@asynccontextmanager
async def opened(folder: Path, *, together: bool, limits: BodyLimits | None = None) -> AsyncIterator[Gateway]:
    rig = await MetricsRig(folder).open()
    gateway = Gateway(rig, limits or BodyLimits(), together=together)
    await gateway.connect(CONNECTIONS)
    yield gateway
    await rig.close()


Talk = Callable[[Gateway, Random], Any]


async def both_ways(tmp_path: Path, talk: Talk, *, seed: int = 1, limits: BodyLimits | None = None) -> list[int]:
    """Compare what *talk* comes to; how many requests each group had."""
    found, groups = [], []
    for together in (True, False):
        async with opened(tmp_path / str(together), together=together, limits=limits) as gateway:
            await talk(gateway, Random(seed))
            found.append(await gateway.figures())
            groups += gateway.groups
    assert found[0] == found[1]
    assert found[0]["held"] == 0
    assert found[0]["shares"] == {}
    assert found[0]["requests"] == sum(map(len, found[0]["answers"]))
    return groups


def body_of(random: Random, number: int) -> bytes:
    plain = SPAN.body(number)
    odd = (
        OTHER.body(number),
        LARGE.body(number),
        SPAN.body(random.randrange(number + 1)),
        plain[: random.randrange(200)],
        plain + b"\x0a\xff",
        plain.replace(b"checkout-bot", b"another-%04d" % random.randrange(3)),
        b"",
    )
    return random.choice(odd) if random.random() < 0.5 else plain


def packed(body: bytes, random: Random) -> bytes:
    plain = gzip.compress(body, mtime=0)
    odd = (b"", plain[:-4], plain + b"x", plain + plain, gzip.compress(body + bytes(100_000)))
    return random.choice(odd) if random.random() < 0.2 else plain


async def any_talk(gateway: Gateway, random: Random) -> None:
    number = 0
    for _ in range(ROUNDS):
        gateway.keys.revoked = {"two"} if random.random() < 0.2 else set()
        sent = []
        keys = ["one", "one", "two", "few"] * CONNECTIONS
        for place in sorted(random.sample(range(CONNECTIONS), random.randrange(1, CONNECTIONS))):
            number += 1
            key = keys[place]
            if key == "few":  # which of two gets what is left of a quota may depend on the way
                keys = ["one", "one", "two", "one"] * CONNECTIONS
            body = body_of(random, number)
            if place < CONNECTIONS // 2:
                sent.append((place, request(body, key)))
            else:
                sent.append((place, request(packed(body, random), key, GZIP)))
        await gateway.send(sent)


@pytest.mark.parametrize("_", range(2))
async def test_a_conversation_of_many_connections_comes_to_the_same(tmp_path: Path, chance: Random, _: int) -> None:
    groups = await both_ways(tmp_path, any_talk, seed=chance.getrandbits(32))
    assert NATIVE is None or max(groups) > 1


async def warmed(gateway: Gateway, key: str = "one", more: str = "") -> None:
    """Every connection's head is known, and the shape of the span."""
    for number in range(2):
        bodies = [SPAN.body(number * 100 + place) for place in range(CONNECTIONS)]
        sent = [gzip.compress(body) for body in bodies] if more == GZIP else bodies
        await gateway.send([(place, request(body, key, more)) for place, body in enumerate(sent)])


@needs_native
async def test_requests_of_one_iteration_share_one_append(tmp_path: Path) -> None:
    async with opened(tmp_path, together=True) as gateway:
        await warmed(gateway)
        appended: list[int] = []
        append = gateway.rig.spool.append
        gateway.rig.spool.append = lambda *given, **named: appended.append(len(given[1])) or append(*given, **named)  # type: ignore[method-assign]
        await gateway.send([(place, request(SPAN.body(1000 + place))) for place in range(CONNECTIONS)])
        assert appended == [CONNECTIONS]


@needs_native
async def test_compressed_requests_share_one_append_as_far_as_they_are_small(tmp_path: Path) -> None:
    async def talk(gateway: Gateway, _: Random) -> None:
        await warmed(gateway, more=GZIP)
        appended: list[int] = []
        append = gateway.rig.spool.append
        gateway.rig.spool.append = lambda *given, **named: appended.append(len(given[1])) or append(*given, **named)  # type: ignore[method-assign]
        bodies = [SPAN.body(1000 + place) for place in range(CONNECTIONS - 1)] + [HUGE.body(9)]
        await gateway.send([(place, request(gzip.compress(body), more=GZIP)) for place, body in enumerate(bodies)])
        assert sorted(appended) == ([11, 100] if gateway.groups else [1] * 11 + [100])

    await both_ways(tmp_path, talk)


async def test_a_key_that_is_revoked_within_an_iteration_is_refused_to_all(tmp_path: Path) -> None:
    async def talk(gateway: Gateway, _: Random) -> None:
        await warmed(gateway)
        requests = [(place, request(SPAN.body(1000 + place))) for place in range(CONNECTIONS)]
        gateway.keys.revoked = {"one"}
        await gateway.send(requests)
        assert {link.answers[-1].split()[1] for link in gateway.links} == {b"401"}
        gateway.keys.revoked = set()
        await gateway.send(requests)

    groups = await both_ways(tmp_path, talk)
    assert NATIVE is None or CONNECTIONS in groups


async def test_a_quota_that_ends_within_a_group_refuses_the_rest_alone(tmp_path: Path) -> None:
    async def talk(gateway: Gateway, _: Random) -> None:
        await warmed(gateway, "few")
        for number in (1000, 2000):
            await gateway.send([(place, request(SPAN.body(number + place), "few")) for place in range(CONNECTIONS)])
        statuses = [link.answers[-1].split()[1] for link in gateway.links]
        assert statuses == [b"200"] * 4 + [b"429"] * 8  # of 40 requests a minute

    groups = await both_ways(tmp_path, talk)
    assert NATIVE is None or CONNECTIONS in groups


async def test_a_budget_that_is_full_within_a_group_refuses_the_rest_alone(tmp_path: Path) -> None:
    async def talk(gateway: Gateway, _: Random) -> None:
        for place in range(CONNECTIONS):
            for number in range(2):
                await gateway.send([(place, request(SPAN.body(number * 100 + place)))])
        await gateway.send([(place, request(SPAN.body(1000 + place))) for place in range(CONNECTIONS)])
        statuses = [link.answers[-1].split()[1] for link in gateway.links]
        assert b"200" in statuses
        assert b"503" in statuses

    limits = BodyLimits(max_in_flight_bytes=SPAN.body_bytes * 10)
    groups = await both_ways(tmp_path, talk, limits=limits)
    assert NATIVE is None or CONNECTIONS in groups


async def test_a_spool_that_is_full_within_a_group_refuses_the_rest_alone(tmp_path: Path) -> None:
    async def talk(gateway: Gateway, _: Random) -> None:
        await warmed(gateway)
        left = [SPAN.body_bytes * 5]

        def admit(size: int) -> None:
            if size > left[0]:
                raise SpoolFull("the spool is full")
            left[0] -= size

        gateway.rig.spool.admit = admit  # type: ignore[method-assign]
        await gateway.send([(place, request(SPAN.body(1000 + place))) for place in range(CONNECTIONS)])
        assert [link.answers[-1].split()[1] for link in gateway.links] == [b"200"] * 5 + [b"503"] * 7

    groups = await both_ways(tmp_path, talk)
    assert NATIVE is None or CONNECTIONS in groups


async def test_a_commit_that_fails_is_each_requests_refusal_and_costs_no_quota(tmp_path: Path) -> None:
    async def talk(gateway: Gateway, _: Random) -> None:
        await warmed(gateway, "few")

        def fail(*_: object, **__: object) -> "asyncio.Future[None]":
            failed = asyncio.get_running_loop().create_future()
            error = SpoolFull("no room on the disk")
            error.retry_after_s = 7
            failed.set_exception(error)
            return failed

        append, gateway.rig.spool.append = gateway.rig.spool.append, fail  # type: ignore[method-assign, assignment]
        await gateway.send([(place, request(SPAN.body(1000 + place), "few")) for place in range(CONNECTIONS)])
        assert {link.answers[-1].split()[1] for link in gateway.links} == {b"503"}
        assert all(b"Retry-After: 7\r\n" in link.answers[-1] for link in gateway.links)
        gateway.rig.spool.append = append  # type: ignore[method-assign]
        await gateway.rig.counting.rebuild()
        await gateway.send([(place, request(SPAN.body(1000 + place), "few")) for place in range(CONNECTIONS)])
        assert {link.answers[-1].split()[1] for link in gateway.links} == {b"200"}

    groups = await both_ways(tmp_path, talk)
    assert NATIVE is None or CONNECTIONS in groups


async def test_a_sender_that_reads_nothing_is_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path, together=True) as gateway:
        await warmed(gateway)
        gateway.connections[0].pause_writing()
        for number in (1000, 2000):
            gateway.send_only([(place, request(SPAN.body(number + place))) for place in range(2)])
            async with asyncio.timeout(HANGS_S):
                await gateway.links[1].answered.wait()
        slow, quick = gateway.links[:2]
        assert (len(slow.answers), len(quick.answers)) == (3, 4)
        gateway.connections[0].resume_writing()
        async with asyncio.timeout(HANGS_S):
            await slow.answered.wait()
        assert slow.answers[-1] == quick.answers[-1]
        assert gateway.receiver.counts.answers["/v1/traces", 200] == 2 * CONNECTIONS + 4


async def test_what_was_not_foreseen_is_answered_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def talk(gateway: Gateway, _: Random) -> None:
        await warmed(gateway)

        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        settler = gateway.rig.counting
        note_used, settler.aggregates.note_used = settler.aggregates.note_used, fail  # type: ignore[method-assign, assignment]
        await gateway.send([(place, request(SPAN.body(1000 + place))) for place in range(CONNECTIONS)])
        assert {link.answers[-1].split()[1] for link in gateway.links} == {b"503"}
        assert gateway.receiver.counts.unforeseen == CONNECTIONS
        settler.aggregates.note_used = note_used  # type: ignore[method-assign]

    groups = await both_ways(tmp_path, talk)
    assert NATIVE is None or CONNECTIONS in groups


@needs_native
async def test_a_sender_that_goes_away_is_counted_and_holds_up_no_one(tmp_path: Path) -> None:
    async with opened(tmp_path, together=True) as gateway:
        await warmed(gateway)
        gone, there = gateway.links[:2]
        gateway.send_only([(0, request(SPAN.body(1000))), (2, request(b"\x0a\xff"))])
        for place in (0, 2):
            gateway.connections[place].connection_lost(None)
        await gateway.send([(1, request(SPAN.body(1001)))])
        assert gateway.receiver.counts.gone == 1, "of the one that was to be taken by itself nothing was done"
        assert len(gone.answers) == 2
        assert len(there.answers) == 3
        assert gateway.receiver.budget.used_bytes == 0
        assert gateway.rig.spool.edge()["kept"] == 2 * CONNECTIONS + 2


@needs_native
async def test_what_is_traced_is_taken_by_itself(tmp_path: Path) -> None:
    async with opened(tmp_path, together=True) as gateway:
        await warmed(gateway)
        front, key = gateway.rig.intake.front, gateway.keys.authenticate("one")
        sender = sender_of(key, CIMultiDict(), "127.0.0.1")
        appended = front.put_together([SPAN.body(1000)], sender)
        assert appended is not None
        await appended.kept
        front.core.tracer = Tracer(1.0, chance=lambda: 0.0, random_bytes=bytes)
        assert front.put_together([SPAN.body(1001)], sender) is None


@pytest.mark.parametrize(
    "more",
    ["Origin: https://app.example\r\n", "Idempotency-Key: k\r\n", "Content-Encoding: br\r\n"],
)
async def test_a_head_that_says_more_is_taken_by_itself(tmp_path: Path, more: str) -> None:
    async with opened(tmp_path, together=True) as gateway:
        for number in range(3):
            await gateway.send([(0, request(SPAN.body(number), more=more))])
        assert gateway.groups == []


@needs_native
async def test_a_connection_that_closes_keeps_no_answer_from_the_others(tmp_path: Path) -> None:
    async with opened(tmp_path, together=True) as gateway:
        await warmed(gateway)
        gateway.send_only([(place, request(SPAN.body(1000 + place))) for place in range(3)])
        gateway.links[0].close()
        async with asyncio.timeout(HANGS_S):
            for link in gateway.links[1:3]:
                await link.answered.wait()
        assert [len(link.answers) for link in gateway.links[:3]] == [2, 3, 3]


@needs_native
async def test_a_shutdown_waits_for_a_commit_and_its_answers(tmp_path: Path) -> None:
    async with opened(tmp_path, together=True) as gateway:
        await warmed(gateway)
        commit = gateway.holds_commits()
        gateway.send_only([(0, request(SPAN.body(1000)))])
        await commit.began.wait()
        stopping = asyncio.ensure_future(gateway.connections[0].shutdown(HANGS_S))
        await asyncio.sleep(0)
        assert not stopping.done()
        commit.done.set_result(None)
        async with asyncio.timeout(HANGS_S):
            await stopping
        assert len(gateway.links[0].answers) == 3
        assert gateway.links[0].answers[-1].startswith(b"HTTP/1.1 200 OK")


@needs_native
async def test_a_shutdown_does_not_wait_for_ever(tmp_path: Path) -> None:
    async with opened(tmp_path, together=True) as gateway:
        await warmed(gateway)
        commit = gateway.holds_commits()
        gateway.send_only([(place, request(SPAN.body(1000 + place))) for place in range(2)])
        await commit.began.wait()
        async with asyncio.timeout(HANGS_S):
            await gateway.connections[0].shutdown(0.01)
            commit.done.set_result(None)
            await gateway.links[1].answered.wait()
        assert [len(link.answers) for link in gateway.links[:2]] == [2, 3]
        assert gateway.receiver.budget.used_bytes == 0


@needs_native
async def test_a_request_that_is_left_by_its_group_holds_its_bytes_once(tmp_path: Path) -> None:
    async with opened(tmp_path, together=True) as gateway:
        await warmed(gateway)
        commit = gateway.holds_commits()
        bodies = [SPAN.body(1000), OTHER.body(1001)]
        sending = asyncio.ensure_future(gateway.send(list(enumerate(map(request, bodies)))))
        await commit.began.wait()
        await asyncio.sleep(0)
        budget = gateway.receiver.budget
        assert budget.used_bytes == sum(map(len, bodies))
        assert [share.requests for share in budget.shares.values()] == [2]
        commit.done.set_result(None)
        await sending
        assert budget.used_bytes == 0
