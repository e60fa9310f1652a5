"""The second process that reads large payloads: the same answers, and nothing depends on it."""

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import psutil
import pytest

from gateway.contract.errors import BadPayload
from gateway.contract.parsed_payload import ParsedPayload
from gateway.ingest.parsing.calls import PARSERS
from gateway.ingest.parsing.points import PIECE, measured_in, read_metrics
from gateway.ingest.parsing.process import MAX_BACKLOG, WorkerGone
from gateway.ingest.parsing.reader import LARGE_BYTES, TOGETHER_LEAST, Reader
from gateway.normalise.context import Context, UserPolicy
from gateway.pricing.prices import Prices
from tests.support.corpus import Scenario, scenarios
from tests.support.metrics import Export
from tests.support.metrics_rig import MetricsRig

CONTEXT = Context(1_767_607_200_000, "2026-01-05T10:00:00.000Z", key="a key", peer="10.0.0.7")
START_TIMEOUT_S = 30.0


async def until_free(reader: Reader) -> None:
    async with asyncio.timeout(START_TIMEOUT_S):
        while not reader.is_free:  # noqa: ASYNC110 it tells nobody
            await asyncio.sleep(0.01)


def child_of(reader: Reader) -> psutil.Process:
    assert reader.worker._process is not None
    return psutil.Process(reader.worker._process.pid)


@pytest.fixture
async def reader() -> AsyncIterator[Reader]:
    made = Reader(users="hash", user_secret=b"secret", price_file=None, prefer_metrics=frozenset())
    made.start()
    await until_free(made)
    yield made
    await made.stop()


async def read_there(
    reader: Reader, kind: str, body: bytes, *, json: bool
) -> list[tuple[ParsedPayload, Mapping[str, int]]]:
    """As many times at once as make it worth handing a small payload over."""
    together = (reader.pack(kind, body, json, CONTEXT) for _ in range(TOGETHER_LEAST))
    return await asyncio.gather(*together)


def read_here(kind: str, body: bytes, *, json: bool) -> object:
    context = CONTEXT._replace(users=UserPolicy("hash", b"secret"))
    return PARSERS[kind](body, json=json, context=context, prices=Prices(), prefer_metrics=frozenset())


async def test_a_worker_reads_as_the_gateway_itself_does(reader: Reader) -> None:
    found: list[Scenario] = [*scenarios("traces"), *scenarios("logs")]
    for scenario in found[::7]:
        for payload in scenario.payloads:
            wanted = read_here(payload.signal, payload.body, json=payload.is_json)
            for packed, _ in await read_there(reader, payload.signal, payload.body, json=payload.is_json):
                assert packed == wanted, scenario
    assert reader.worker.done > 30, "answers came from there"


async def test_a_worker_reads_metrics_as_the_gateway_itself_does(reader: Reader) -> None:
    context = CONTEXT._replace(users=UserPolicy("hash", b"secret"))
    read = 0
    for scenario in scenarios("metrics"):
        for payload in scenario.payloads:
            wanted = read_metrics(payload.body, json=payload.is_json, context=context)
            read += len(wanted.points)
            together = (reader.pack_metrics(payload.body, payload.is_json, CONTEXT) for _ in range(TOGETHER_LEAST))
            for packed in await asyncio.gather(*together):
                assert measured_in(packed) == wanted, scenario
    assert read > 50
    assert reader.worker.done > 5, "answers came from there"


async def test_more_points_than_one_piece_holds_come_whole_and_in_their_order(reader: Reader) -> None:
    made = Export()
    for n in range(2 * PIECE + 7):
        made.point(n, more={"user.id": f"user {n}"}).point(math.nan, more={"n": n})
    wanted = read_metrics(made.body, json=False, context=CONTEXT._replace(users=UserPolicy("hash", b"secret")))
    packed = await reader.pack_metrics(made.body, json=False, context=CONTEXT)
    assert (len(packed.points), len(packed.labels), len(packed.rejected)) == (3, 3, 3)
    assert measured_in(packed) == wanted


async def test_metrics_are_counted_whether_the_worker_reads_them_or_is_gone(tmp_path: Path, reader: Reader) -> None:
    rig = await MetricsRig(tmp_path).open()
    rig.intake._reader = reader
    large = {"more": {"padding": "x" * LARGE_BYTES}}
    await rig.metrics(Export(at=60).point(100, **large))  # type: ignore[arg-type] # the builder's own keyword
    assert reader.worker.done == 1
    child_of(reader).suspend()
    coming = asyncio.ensure_future(rig.metrics(Export(at=120).point(250, **large)))  # type: ignore[arg-type] # as above
    await asyncio.sleep(0)
    child_of(reader).kill()
    await coming
    await rig.settle()
    assert await rig.used() == (250, 0)
    await rig.close()


async def test_a_body_that_cannot_be_read_is_told_in_the_same_words(reader: Reader) -> None:
    with pytest.raises(BadPayload) as here:
        read_here("traces", b"\xff\xff", json=False)
    with pytest.raises(BadPayload, match=str(here.value)):
        await read_there(reader, "traces", b"\xff\xff", json=False)
    assert reader.is_free


async def test_few_small_payloads_are_read_here(reader: Reader) -> None:
    with pytest.raises(WorkerGone):
        await reader.pack("traces", b"", json=False, context=CONTEXT)
    assert reader.worker.done == 0
    large = b'{"resourceSpans":[]' + b" " * LARGE_BYTES + b"}"
    packed, _ = await reader.pack("traces", large, json=True, context=CONTEXT)
    assert packed.items == 0
    assert reader.worker.done == 1


async def test_models_without_a_price_are_told(reader: Reader) -> None:
    body = (
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001",'
        b'"startTimeUnixNano":"1767607200000000000","endTimeUnixNano":"1767607201000000000","attributes":['
        b'{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.provider.name","value":{"stringValue":"openai"}},'
        b'{"key":"gen_ai.request.model","value":{"stringValue":"no-such-model"}},'
        b'{"key":"gen_ai.usage.input_tokens","value":{"intValue":5}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":5}}]}]}]}]}'
    )
    for _, unpriced in await read_there(reader, "traces", body, json=True):
        assert unpriced == {"no-such-model": 1}


async def test_a_killed_worker_gives_its_payloads_back_and_comes_again(reader: Reader) -> None:
    child = child_of(reader)
    child.suspend()
    large = b'{"resourceSpans":[]' + b" " * LARGE_BYTES + b"}"
    waiting = [
        asyncio.ensure_future(reader.pack("traces", large, json=True, context=CONTEXT)) for _ in range(MAX_BACKLOG)
    ]
    await asyncio.sleep(0)
    assert not reader.is_free, "no more are handed over than it may have waiting"
    os.kill(child.pid, signal.SIGKILL)
    for answer in waiting:
        with pytest.raises(WorkerGone):
            await answer
    assert not reader.is_free
    await until_free(reader)
    packed, _ = await reader.pack("traces", large, json=True, context=CONTEXT)
    assert packed.items == 0
    assert reader.worker.restarts == 1


async def test_a_signal_to_the_whole_group_ends_no_worker(reader: Reader) -> None:
    """Ctrl-C and a service manager signal every process; what is under way is still read."""
    process = child_of(reader)
    for number in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
    found = next(iter(scenarios("traces"))).payloads[0]
    assert await read_there(reader, found.signal, found.body, json=found.is_json)
    assert (child_of(reader).pid, reader.worker.restarts) == (process.pid, 0)


async def test_a_worker_that_does_not_answer_is_ended_and_its_payloads_are_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.ingest.parsing.process.PATIENCE_S", 0.2)
    reader = Reader(users="keep", user_secret=b"", price_file=None, prefer_metrics=frozenset())
    reader.start()
    await until_free(reader)
    large = b'{"resourceSpans":[]' + b" " * LARGE_BYTES + b"}"
    child_of(reader).suspend()
    with pytest.raises(WorkerGone):
        await reader.pack("traces", large, json=True, context=CONTEXT)
    await until_free(reader)
    packed, _ = await reader.pack("traces", large, json=True, context=CONTEXT)
    assert packed.items == 0
    await reader.stop()


async def test_a_worker_that_ended_unnoticed_is_gone_for_whoever_asks(reader: Reader) -> None:
    child = child_of(reader)
    large = b'{"resourceSpans":[]' + b" " * LARGE_BYTES + b"}"
    child.kill()
    child.wait()
    for _ in range(3):
        with pytest.raises(WorkerGone):
            await reader.pack("traces", large, json=True, context=CONTEXT)
    await until_free(reader)


async def test_a_stopped_reader_leaves_no_process(tmp_path: Path) -> None:
    reader = Reader(users="keep", user_secret=b"", price_file=None, prefer_metrics=frozenset())
    reader.start()
    await until_free(reader)
    child = child_of(reader)
    await reader.stop()
    assert not child.is_running()


async def test_a_worker_gets_none_of_the_gateways_secrets_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_TELEMETRY_KEY", "csk_secret")
    reader = Reader(users="keep", user_secret=b"", price_file=None, prefer_metrics=frozenset())
    reader.start()
    await until_free(reader)
    assert "UPSTREAM_TELEMETRY_KEY" not in child_of(reader).environ()
    await reader.stop()


async def test_a_fault_of_ours_is_met_again_by_the_gateway_and_ends_no_worker(reader: Reader) -> None:
    with pytest.raises(WorkerGone):
        await reader.pack("no such kind", b" " * LARGE_BYTES, json=False, context=CONTEXT)
    assert reader.is_free
    assert reader.worker.restarts == 0
