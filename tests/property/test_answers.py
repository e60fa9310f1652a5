"""Whatever the upstream answers, no more counts as delivered than its answers account for, and
nothing is lost: over real sockets, through the real exporters and pump.

The model below is stricter and simpler than the code: what an answer accounts for is read from
what was drawn, before it is encoded.
"""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.base import Exporter
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.lanes import AI_TELEMETRY_SCOPE, AiTelemetryExporter, OtlpTelemetryExporter
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.secret import Secret
from tests.support.lane_runs import LANE, running_pump, skip_pauses_until
from tests.support.manual_clock import ManualClock
from tests.support.memory_spool import MemorySpool
from tests.support.raw_upstream import RawAnswer, Request, running_raw_upstream

RECORDS = 6
ENOUGH = 30
TAKEN = {200, 201, 202, 204}
REPEATS = ("already_accepted", "already accepted", "already_exists", "duplicate")
NO_BODY: Any = object()

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, RECORDS + 1)
    | st.floats(-1, RECORDS)
    | st.sampled_from(["", "ok", "0", "3", "error", "a", "b", "already_accepted", "nothing was taken", "x"])
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(-1, RECORDS) | scalars,
        "record_id": st.sampled_from([f"{number:032x}" for number in range(RECORDS)]) | scalars,
        "code": scalars,
        "message": scalars,
    },
)
sound_entries = st.lists(st.integers(0, RECORDS - 1), unique=True).map(
    lambda places: [{"index": place, "code": "c"} for place in places]
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["accepted", "rejected", "error", "id", "count", "status"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "accepted": st.integers(0, RECORDS) | values,
        "rejected": sound_entries | st.lists(entries, max_size=RECORDS) | values,
        "error": values,
        "errors": values,
        "id": values,
        "message": values,
        "status": values,
        "records": values,
        "partialSuccess": values | st.fixed_dictionaries({"rejectedSpans": st.integers(-1, RECORDS + 1) | scalars}),
        "result": values,
        "data": values,
        "failed": values,
    },
)


@st.composite
def sums(draw: st.DrawFn) -> dict[str, object]:
    """An object that adds up for a whole batch."""
    rejected = draw(sound_entries)
    return {"accepted": RECORDS - len(rejected), "rejected": rejected}


@st.composite
def near_sums(draw: st.DrawFn) -> Any:
    """The same with one thing that is not as it should be."""
    document = draw(sums())
    rejected: Any = document["rejected"]
    match draw(st.integers(0, 7)):
        case 0:
            document["accepted"] = draw(scalars)
        case 1:
            document["rejected"] = draw(scalars)
        case 2 if rejected:
            rejected[0]["index"] = draw(scalars | st.integers(RECORDS, RECORDS + 2))
        case 3 if rejected:
            rejected[0] = dict(rejected[-1]) | {"record_id": draw(scalars)}
        case 4:
            document[draw(st.sampled_from(["error", "errors", "failed"]))] = draw(values)
        case 5:
            return {draw(st.sampled_from(["result", "data"])): document}
        case 6:
            return [document]
        case _:
            del document[draw(st.sampled_from(["accepted", "rejected"]))]
    return document


documents = st.just(NO_BODY) | sums() | near_sums() | objects | values
texts = st.sampled_from(
    [b"OK", b"<html>", b"{", b'{"accepted":', b"\xff\xfe{", b"null", b"\x0a\x02\x08\x02", b"\x00" * 9]
)


class Drawn(NamedTuple):
    status: int
    content_type: str
    coding: str
    document: Any
    text: bytes | None
    """In place of the document."""
    cut: int
    """Bytes that never come."""

    def bytes(self) -> bytes:
        body = self.text if self.text is not None else b""
        if self.text is None and self.document is not NO_BODY:
            body = json.dumps(self.document).encode()
        packed = {"gzip": gzip.compress, "deflate": zlib.compress}.get(self.coding, lambda body: body)(body)
        head = f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(packed)}\r\n"
        head += f"Content-Type: {self.content_type}\r\n" if self.content_type else ""
        head += f"Content-Encoding: {self.coding}\r\n" if self.coding else ""
        data = head.encode() + b"\r\n" + packed
        return data[: len(data) - min(self.cut, len(packed))]

    def accounts_for(self, sent: int) -> int:
        """The most records that may count as delivered."""
        shown = self.bytes().decode("latin-1")
        if self.status == 409:
            return sent if any(words in shown for words in REPEATS) or self.coding else 0
        if self.status not in TAKEN:
            return 0
        if self.status == 204:
            return sent
        if self.cut and (self.text or self.document is not NO_BODY):
            return 0
        if self.text is not None:
            return 0 if self.text != b"\x0a\x02\x08\x02" else max(0, sent - 2)
        return sent if self.document is NO_BODY else document_accounts_for(self.document, sent)


def document_accounts_for(document: Any, sent: int) -> int:
    if not isinstance(document, dict) or document.get("error") or document.get("errors") or document.get("failed"):
        return 0
    accepted, rejected = document.get("accepted", 0), document.get("rejected") or []
    if "accepted" in document or "rejected" in document:
        adds_up = type(accepted) is int and isinstance(rejected, list) and accepted + len(rejected) == sent
        return accepted if adds_up and accepted >= 0 else 0
    partial = document.get("partialSuccess")
    if isinstance(partial, dict) and partial.get("rejectedSpans") is not None:
        count = partial["rejectedSpans"]
        count = int(count) if isinstance(count, str) and count.isdecimal() else count
        return sent - count if type(count) is int and 0 <= count <= sent else 0
    if document.get("status") == "error" or "nothing was taken" in document.values():
        return 0
    if type(document.get("records")) is int:
        return sent if document["records"] == sent else 0
    return 0 if any(has_count(value, name) for name, value in document.items()) else sent


def has_count(value: Any, name: str) -> bool:
    """A number, a list, or an `accepted` below another name."""
    if isinstance(value, dict):
        return any(has_count(inner, inner_name) for inner_name, inner in value.items())
    if name in {"id", "error", "errors", "failed", "rejected", "status"}:
        return False
    return isinstance(value, list) or (isinstance(value, int | float) and not isinstance(value, bool))


likely = st.builds(
    Drawn,
    st.sampled_from([200, 202]),
    st.just("application/json"),
    st.just(""),
    near_sums() | objects | values,
    st.none(),
    st.just(0),
)
any_answer = st.builds(
    Drawn,
    st.sampled_from([200, 200, 200, 201, 202, 204, 203, 206, 207, 299, 302, 400, 401, 409, 413, 422, 429, 500, 503]),
    st.sampled_from(["application/json", "application/json", "", "text/plain", "text/html", "application/x-protobuf"]),
    st.sampled_from(["", "", "", "gzip", "deflate", "br", "identity"]),
    documents,
    st.none() | st.none() | texts,
    st.sampled_from([0, 0, 0, 1, 7]),
)
answers_in_turn = st.lists(likely, min_size=1, max_size=1) | st.lists(likely | any_answer, min_size=1, max_size=3)


async def check(answers: list[Drawn], make: Callable[[CostServiceClient], Exporter]) -> None:
    """Answer in turn, and look at the lane when it is empty, held, or was asked often enough."""
    clock = ManualClock()
    store = MemorySpool(clock)
    most_delivered = requests = 0
    accounted_for = set[int]()

    def respond(request: Request) -> RawAnswer:
        nonlocal most_delivered, requests
        answer = answers[requests % len(answers)]
        requests += 1
        sent = numbers_in(request)
        if most := answer.accounts_for(len(sent)):
            most_delivered += most
            accounted_for.update(sent)
        return RawAnswer(answer.bytes(), ends=True)

    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(running_raw_upstream(respond))
        key = KeySetting("all", Secret("key-4711"), {AI_TELEMETRY_SCOPE}.__contains__)
        client = CostServiceClient(Endpoint(upstream.base_url), Keyring([key]), "gw-1")
        stack.push_async_callback(client.close)
        records = [{"schema": "inference/1", "record_id": f"{n:032x}", "kind": "call"} for n in range(RECORDS)]
        store.add(LANE, [orjson.dumps(record) for record in records])
        pump = await stack.enter_async_context(running_pump(store, make(client), clock))
        await skip_pauses_until(
            lambda: not pump.in_flight and (store.depth(LANE).pending == 0 or requests >= ENOUGH), pump, clock
        )
        state = pump.state
    depth = store.depth(LANE)
    assert depth.delivered <= min(most_delivered, len(accounted_for))
    assert depth.delivered + depth.pending + depth.dead_lettered == RECORDS
    assert store.leased(LANE) == 0
    if depth.pending:
        assert state in {"held", "retrying"}


def numbers_in(request: Request) -> set[int]:
    """Of the records: each is in the body by its id, which is in no other's."""
    return {number for number in range(RECORDS) if f"{number:032x}".encode() in request.body}


@given(answers_in_turn)
@pytest.mark.timeout(600)
def test_no_more_is_delivered_than_the_answers_account_for(answers: list[Drawn]) -> None:
    asyncio.run(check(answers, AiTelemetryExporter))


@given(answers_in_turn)
@pytest.mark.timeout(600)
def test_no_more_spans_are_delivered_than_the_answers_account_for(answers: list[Drawn]) -> None:
    asyncio.run(check(answers, OtlpTelemetryExporter))
