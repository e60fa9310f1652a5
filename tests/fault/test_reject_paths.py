"""No success for anything that is not stored (C16): payloads good, bad and half bad, on every kind
of route, while the spool is well or is not.

The real receiver over a real socket. After each request the gateway's own figures must agree with
what the sender was reported: a refusal kept and counted nothing; a success kept everything but what
it states is rejected. REJECT_TEST_REQUESTS=20000 is the long run.
"""

import asyncio
import gzip
import json
import os
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from benchmarks.bodies import Shape, Template
from benchmarks.litellm_bodies import PATH as LITELLM_PATH
from benchmarks.litellm_bodies import LiteLLMTemplate
from gateway.app import Gateway
from spool.errors import SpoolError
from spool.record import OWN_LANES
from tests.support.polling import HANGS_S
from tests.support.running_gateway import running_gateway
from tests.support.torture_senders import log_request

REQUESTS = int(os.environ.get("REJECT_TEST_REQUESTS", "600"))
TOGETHER = 4
"""Requests that meet one state of the gateway."""
MAX_BODY_BYTES = 256 * 1024
REFUSALS = {400, 401, 403, 404, 405, 413, 415, 429, 503}
WHILE_BROKEN = REFUSALS - {429}
PROTOBUF, JSON = "application/x-protobuf", "application/json"


class Request(NamedTuple):
    method: str
    path: str
    body: bytes
    content_type: str
    encoding: str | None
    items: int | None
    """How many are in it; None where that was left to chance."""


class Requests:
    """An endless stream of them, by chance."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._number = 0
        self._spans = Template(Shape(spans=3, attributes=15))
        self._json_spans = Template(Shape(spans=3, attributes=15, encoding="json"))
        self._pushes = LiteLLMTemplate(Shape(spans=2, encoding="litellm"))

    def next(self) -> Request:
        chance = self._chance
        self._number += 1
        path, body, content_type, made = chance.choice(
            [
                self._traces,
                self._traces,
                self._json_traces,
                self._bad_ids,
                self._logs,
                self._push,
                self._events,
                self._beat,
            ]
        )()
        items: int | None = made
        if chance.random() < 0.4:
            body, items = self._spoilt(body), None
        encoding = None
        if chance.random() < 0.3:
            encoding = chance.choice(["gzip", "gzip", "identity", "br", "zstd", "gzip, gzip"])
            if encoding == "gzip":
                body = gzip.compress(body)
                body = body[: len(body) // 2] if chance.random() < 0.3 else body
        if chance.random() < 0.05:
            content_type, items = chance.choice(["text/plain", "", "application/xml", PROTOBUF, JSON]), None
        if chance.random() < 0.05:
            path = chance.choice(["/", "/v1/nothing", "/v1/sources/nobody", "/v1/traces/x"])
        method = "PUT" if chance.random() < 0.03 else "POST"
        return Request(method, path, body, content_type, encoding, items)

    def _traces(self) -> tuple[str, bytes, str, int]:
        return "/v1/traces", self._spans.body(self._number), PROTOBUF, 3

    def _json_traces(self) -> tuple[str, bytes, str, int]:
        return "/v1/traces", self._json_spans.body(self._number), JSON, 3

    def _bad_ids(self) -> tuple[str, bytes, str, int]:
        """Two of its three spans cannot be reported from others."""
        request = ExportTraceServiceRequest.FromString(self._spans.body(self._number))
        first, second, _ = request.resource_spans[0].scope_spans[0].spans
        first.span_id, second.trace_id = b"", b"short"
        return "/v1/traces", request.SerializeToString(), PROTOBUF, 3

    def _logs(self) -> tuple[str, bytes, str, int]:
        return "/v1/logs", log_request([f"req_{self._number}_{index}" for index in range(3)]), PROTOBUF, 3

    def _push(self) -> tuple[str, bytes, str, int]:
        return LITELLM_PATH, self._pushes.body(10_000_000 + self._number), JSON, 2

    def _events(self) -> tuple[str, bytes, str, int]:
        good = {"title": "t", "source": "s", "metadata": {"event_id": f"evt-{self._number}"}}
        bad = self._chance.choice([[], [{"title": "<b>", "source": "s"}], [{"source": "s"}, 7]])
        return "/v1/events", json.dumps([good, *bad]).encode(), JSON, 1 + len(bad)

    def _beat(self) -> tuple[str, bytes, str, int]:
        return f"/v1/devices/d{self._number % 3}/heartbeat", json.dumps({"status": "healthy"}).encode(), JSON, 1

    def _spoilt(self, body: bytes) -> bytes:
        chance = self._chance
        match chance.randrange(6):
            case 0:
                return b""
            case 1:
                return body[: chance.randrange(len(body))]
            case 2:
                at = chance.randrange(len(body))
                return body[:at] + chance.randbytes(4) + body[at + 4 :]
            case 3:
                return chance.randbytes(chance.randrange(200))
            case 4:
                return chance.choice([b"{}", b"[]", b"null", b"[[[[", b'"', b"{" * 2000])
            case _:
                return body + b" " * MAX_BODY_BYTES


Figures = tuple[dict[str, int], int]


def figures(gateway: Gateway) -> Figures:
    """The edge's counts, and what the own lanes kept."""
    return dict(gateway.spool.edge()), sum(gateway.spool.depth(lane).kept for lane in OWN_LANES)


def told_rejected(request: Request, status: int, content_type: str, body: bytes) -> int:
    """How many items a success states were not taken."""
    if content_type.startswith(PROTOBUF):
        return ExportTraceServiceResponse.FromString(
            body
        ).partial_success.rejected_spans  # the same shape for every signal
    answer = json.loads(body or b"{}")
    if partial := answer.get("partialSuccess"):
        return sum(int(value) for name, value in partial.items() if name.startswith("rejected"))
    return answer.get("rejected_count") or len(answer.get("rejected", []))


def told_one_by_one(status: int, content_type: str, body: bytes) -> int:
    """How many events an error states were rejected, each for a fault of its
    own: all of the request's.
    """
    return len(json.loads(body).get("rejected", [])) if status == 400 and content_type.startswith(JSON) else 0


@contextmanager
def well(gateway: Gateway) -> Iterator[None]:
    yield


@contextmanager
def full(gateway: Gateway) -> Iterator[None]:
    """spool.max_bytes is reached."""
    settings = gateway.spool.settings
    gateway.spool.settings = replace(settings, max_bytes=1)
    yield
    gateway.spool.settings = settings


@contextmanager
def distrusted(gateway: Gateway) -> Iterator[None]:
    """The ledger is being read again, and that takes its time."""
    gateway.spool._lost = SpoolError("the ledger is being read again")
    yield
    gateway.spool.accept_appends()


@contextmanager
def commits_fail(gateway: Gateway) -> Iterator[None]:
    """Whatever is appended does not come to disk."""
    writer = gateway.spool.writer
    transaction = writer.transaction

    def fail(group: object) -> list[object]:
        if any(getattr(group, part, ()) for part in ("chunks", "counts", "operations")):
            raise sqlite3.OperationalError("disk I/O error")
        return transaction(group)  # type: ignore[arg-type]  # what it was given

    writer.transaction = fail  # type: ignore[method-assign,assignment]  # a fault of the disk
    yield
    writer.transaction = transaction  # type: ignore[method-assign]  # fixed


@contextmanager
def unforeseen(gateway: Gateway) -> Iterator[None]:
    """A fault of ours, after the payload was read."""
    admit = gateway.spool.admit

    def fail(size: int) -> None:
        raise ValueError("what nobody foresaw")

    gateway.spool.admit = fail  # type: ignore[method-assign]  # a fault of ours
    yield
    gateway.spool.admit = admit  # type: ignore[method-assign]  # fixed


States = Callable[[Gateway], "contextmanager[None]"]
STATES = [well, well, well, full, distrusted, commits_fail, unforeseen]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(
        tmp_path, **{"listen.admin": "off", "counting.settle": "60s", "limits.max_body_bytes": MAX_BODY_BYTES}
    ) as running:
        yield running


async def mended(gateway: Gateway) -> None:
    """The spool takes data again: after a lost append the ledger is read again first."""
    async with asyncio.timeout(HANGS_S):
        while True:
            try:
                gateway.spool.admit(0)
            except SpoolError:
                await asyncio.sleep(0.01)
            else:
                return


async def test_c16_no_success_for_what_is_not_stored_and_nothing_stored_of_what_is_refused(
    gateway: Gateway, chance: random.Random
) -> None:
    requests = Requests(chance)
    answers: Counter[tuple[str, int]] = Counter()
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        for _ in range(REQUESTS // TOGETHER):
            state = chance.choice(STATES)
            with state(gateway):
                for _ in range(TOGETHER):
                    status = await check_one(gateway, session, requests.next(), state.__name__)
                    answers[state.__name__, status] += 1
            await mended(gateway)
    sys.stderr.write(f"{dict(sorted(answers.items()))}\n")
    assert {name for name, _ in answers} == {state.__name__ for state in STATES}
    assert sum(n for (_, status), n in answers.items() if status < 300) > REQUESTS / 10


async def check_one(gateway: Gateway, session: aiohttp.ClientSession, request: Request, state: str) -> int:
    edge, kept = figures(gateway)
    is_well = state == "well"
    headers = {"Content-Type": request.content_type}
    if request.encoding is not None:
        headers["Content-Encoding"] = request.encoding
    url = f"http://{gateway.ports.http}{request.path}"
    async with session.request(request.method, url, data=request.body, headers=headers) as answer:
        body = await answer.read()
    after, kept_after = figures(gateway)
    what = f"{state}: {request.method} {request.path} {request.content_type} {request.encoding}: {answer.status}"
    if answer.status >= 300:
        assert answer.status in REFUSALS, what
        told = told_one_by_one(answer.status, answer.headers["Content-Type"], body)
        counted = {**edge, "received": edge["received"] + told, "rejected": edge["rejected"] + told}
        assert (after, kept_after) == (counted, kept), f"{what}, yet something else was counted or kept"
        assert answer.status != 503 or not is_well, what
        assert answer.status != 503 or int(answer.headers["Retry-After"]) > 0, what
        return answer.status
    new = {outcome: after[outcome] - edge[outcome] for outcome in after}
    assert request.items is None or new["received"] == request.items, f"{what}, with {request.items} items, {new}"
    told = told_rejected(request, answer.status, answer.headers["Content-Type"], body)
    assert new["received"] == sum(new.values()) - new["received"], what
    assert new["rejected"] == told, f"{what}, rejected {new['rejected']}, told {told}"
    assert kept_after - kept == new["kept"], what
    assert is_well or new["received"] == 0, f"{what}, while nothing could be stored"
    return answer.status
