"""The second process that reads large payloads: the same answers, and nothing depends on it."""

import asyncio
import math
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from gateway.common.contract.errors import BadPayload, Overloaded, TooLarge
from gateway.common.in_thread import HERE_BYTES
from gateway.pipeline.parsing.frames import PIECE, PackedPoints, pack_points, unpack_points
from gateway.pipeline.parsing.parse import Parsed, ParseRules, Payload, parse
from gateway.pipeline.parsing.parser import Parser
from gateway.pipeline.parsing.process import WorkerGone
from gateway.pipeline.parsing.turns import MAX_UNDER_WAY
from gateway.pipeline.parsing.worker_client import (
    BEHIND_BYTES,
    MIN_TOGETHER,
    QUICK_BYTES,
    ReaderFault,
    WorkerClient,
)
from gateway.read.limits import DEFAULT_LIMITS
from gateway.rules.context import Context, UserPolicy
from gateway.usage.pricing.prices import Prices
from tests.support.corpus import Scenario, scenarios
from tests.support.metrics import Export
from tests.support.metrics_rig import MetricsRig
from tests.support.otlp_bytes import field
from tests.support.polling import HANGS_S
from tests.support.workers import worker_client

CONTEXT = Context(1_767_607_200_000, "2026-01-05T10:00:00.000Z", key="a key", peer="10.0.0.7")


async def until_free(client: WorkerClient) -> None:
    async with asyncio.timeout(HANGS_S):
        while not client.is_free:  # noqa: ASYNC110 it has no event
            await asyncio.sleep(0.01)


def child_of(client: WorkerClient) -> psutil.Process:
    assert client.worker.pid is not None
    return psutil.Process(client.worker.pid)


@pytest.fixture
async def client() -> AsyncIterator[WorkerClient]:
    made = worker_client(users="hash", user_secret=b"secret")
    made.start()
    await until_free(made)
    yield made
    await made.stop()


async def parsed_there(client: WorkerClient, payload: Payload) -> list[tuple[Parsed, Mapping[str, int]]]:
    """As many times at once as make it worth handing a small payload over."""
    return await asyncio.gather(*(client.parse(payload, CONTEXT) for _ in range(MIN_TOGETHER)))


def parsed_here(payload: Payload) -> Parsed:
    return parse(payload, CONTEXT._replace(users=UserPolicy("hash", b"secret")), ParseRules(Prices()))


LARGE = Payload("traces", b'{"resourceSpans":[]' + b" " * (HERE_BYTES + 1) + b"}")

UNPRICED = Payload(
    "traces",
    b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001",'
    b'"startTimeUnixNano":"1767607200000000000","endTimeUnixNano":"1767607201000000000","attributes":['
    b'{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.provider.name","value":{"stringValue":"openai"}},'
    b'{"key":"gen_ai.request.model","value":{"stringValue":"no-such-model"}},'
    b'{"key":"gen_ai.usage.input_tokens","value":{"intValue":5}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":5}}]}]}]}]}',
)


async def test_a_worker_reads_as_the_gateway_itself_does(client: WorkerClient) -> None:
    found: list[Scenario] = [*scenarios("traces"), *scenarios("logs")]
    for scenario in found[::7]:
        for payload in scenario.payloads:
            sent = Payload(payload.signal, payload.body, payload.is_json)
            wanted = parsed_here(sent)
            for parsed, _ in await parsed_there(client, sent):
                assert parsed == wanted, scenario
    assert client.worker.done > 30, "answers came from there"


async def test_a_worker_reads_metrics_as_the_gateway_itself_does(client: WorkerClient) -> None:
    read = 0
    for scenario in scenarios("metrics"):
        for payload in scenario.payloads:
            sent = Payload("metrics", payload.body, payload.is_json)
            wanted = parsed_here(sent)
            assert wanted.points is not None
            read += len(wanted.points.points)
            for parsed, _ in await parsed_there(client, sent):
                assert parsed == wanted, scenario
    assert read > 50
    assert client.worker.done > 5, "answers came from there"


async def test_more_points_than_one_piece_holds_come_whole_and_in_their_order(client: WorkerClient) -> None:
    made = Export()
    for n in range(2 * PIECE + 7):
        made.point(n, more={"user.id": f"user {n}"}).point(math.nan, more={"n": n})
    sent = Payload("metrics", made.body, json=False)
    wanted = parsed_here(sent)
    parsed, _ = await client.parse(sent, CONTEXT)
    assert wanted.points is not None
    packed: PackedPoints = pack_points(wanted.points)
    assert (len(packed.points), len(packed.labels), len(packed.rejected)) == (3, 3, 3)
    assert unpack_points(packed) == parsed.points == wanted.points


async def test_metrics_are_counted_once_where_the_worker_died_over_them(tmp_path: Path, client: WorkerClient) -> None:
    rig = await MetricsRig(tmp_path).open(worker=client)
    large = {"more": {"padding": "x" * (HERE_BYTES + 1)}}
    await rig.metrics(Export(at=60).point(100, **large))  # type: ignore[arg-type] # the builder's own keyword
    assert client.worker.done == 1
    child_of(client).suspend()
    coming = asyncio.ensure_future(rig.metrics(Export(at=120).point(250, **large)))  # type: ignore[arg-type] # as above
    await asyncio.sleep(0)
    child_of(client).kill()
    with pytest.raises(Overloaded):
        await coming
    await until_free(client)
    await rig.metrics(Export(at=120).point(250, **large))  # type: ignore[arg-type] # as above
    await rig.settle()
    assert await rig.used() == (250, 0)
    await rig.close()


async def test_a_body_that_cannot_be_read_is_reported_in_the_same_words(client: WorkerClient) -> None:
    with pytest.raises(BadPayload) as here:
        parsed_here(Payload("traces", b"\xff\xff", json=False))
    with pytest.raises(BadPayload, match=str(here.value)):
        await parsed_there(client, Payload("traces", b"\xff\xff", json=False))
    assert client.is_free


async def test_a_body_over_a_limit_is_refused_there_in_the_same_words(client: WorkerClient) -> None:
    body = field(1, b"\x12\x00" * (DEFAULT_LIMITS.max_items + 1))
    with pytest.raises(TooLarge) as here:
        parsed_here(Payload("traces", body, json=False))
    with pytest.raises(TooLarge, match=r"limits\.max_items") as there:
        await client.parse(Payload("traces", body, json=False), CONTEXT)
    assert str(there.value) == str(here.value)
    assert client.worker.restarts == 0


async def test_a_payload_over_which_the_worker_died_is_never_read_by_the_gateway_itself(client: WorkerClient) -> None:
    parser = Parser(ParseRules(Prices()), client)
    child = child_of(client)
    child.suspend()
    coming = asyncio.ensure_future(parser.parse(Payload("no such kind", b" " * (HERE_BYTES + 1)), CONTEXT))
    await asyncio.sleep(0)
    child.kill()
    with pytest.raises(Overloaded):  # read here, it would be a KeyError
        await coming
    await until_free(client)


async def test_few_small_payloads_are_read_here(client: WorkerClient) -> None:
    with pytest.raises(WorkerGone):
        await client.parse(Payload("traces", b"", json=False), CONTEXT)
    assert client.worker.done == 0
    parsed, _ = await client.parse(LARGE, CONTEXT)
    assert parsed.calls is not None
    assert parsed.calls.items == 0
    assert client.worker.done == 1


async def test_models_without_a_price_are_reported(client: WorkerClient) -> None:
    for _, unpriced in await parsed_there(client, UNPRICED):
        assert unpriced == {"no-such-model": 1}


async def test_a_changed_price_file_is_used_and_a_bad_one_is_not(tmp_path: Path) -> None:
    """Nothing that is logged there may come between the frames."""
    prices = tmp_path / "prices.yaml"
    prices.write_text('prices: [{model: our-own-llama, input: "1", output: "1"}]')
    client = worker_client(price_file=prices)
    client.start()
    await until_free(client)
    try:
        for text, unpriced in [
            ("prices: 7", {"no-such-model": 1}),
            ('prices: [{model: no-such-model, input: "1", output: "1"}]', {}),
            ("prices: 7", {}),
        ]:
            prices.write_text(text)
            for _, found in await parsed_there(client, UNPRICED):
                assert found == unpriced, text
        assert client.worker.restarts == 0
    finally:
        await client.stop()


PRINTING = """
import os
from gateway.pipeline.parsing.worker import own_output

output = own_output()
print("a note", flush=True)
os.write(2, b"a fault")
output.write(b"a frame")
"""


@pytest.mark.parametrize("closed", ["", "exec 2>&-; "], ids=["standard error", "none"])
def test_only_frames_are_on_the_output_of_a_worker(closed: str) -> None:
    command = ["sh", "-c", closed + 'exec "$0" -c "$1"', sys.executable, PRINTING]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == b"a frame"
    assert done.stderr == (b"" if closed else b"a fault")


async def test_what_waits_for_a_killed_worker_is_read_by_the_next_but_for_the_payload_it_was_at(
    client: WorkerClient,
) -> None:
    child = child_of(client)
    child.suspend()
    waiting = [asyncio.ensure_future(client.parse(LARGE, CONTEXT)) for _ in range(2 * MAX_UNDER_WAY)]
    await asyncio.sleep(0)
    assert not client.is_free, "no more are handed over than may be under way"
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(Overloaded, match="ended over this one") as died:
        await waiting[0]
    assert died.value.retry_after_s
    for parsed, _ in await asyncio.gather(*waiting[1:]):
        assert parsed.calls is not None
        assert parsed.calls.items == 0
    assert client.worker.restarts == 1


async def test_a_payload_waits_while_no_worker_runs_and_is_never_read_by_the_gateway_itself(
    client: WorkerClient,
) -> None:
    child_of(client).kill()
    while client.worker.is_ready:  # noqa: ASYNC110 it has no event
        await asyncio.sleep(0)
    assert not client.worker.is_first_start, "also while the one that ended is still being reaped"
    parsed = await Parser(ParseRules(Prices()), client).parse(LARGE, CONTEXT)
    assert parsed.calls is not None
    assert client.worker.done == 1


async def test_a_payload_that_takes_too_much_cpu_is_refused_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A limit of no CPU at all: the kernel ends the process, which an error cannot hinder."""
    module = tmp_path / "hurried_worker.py"
    module.write_text(
        "from gateway.pipeline.parsing import cpu_limit, worker\n"
        "cpu_limit.CPU_S = 0.05\n"
        "worker.Reader.read = lambda *_: [None for _ in iter(int, 1)]\n"
        "worker.main()\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setattr("gateway.pipeline.parsing.worker_client.MODULE", "hurried_worker")
    client = worker_client()
    client.start()
    await until_free(client)
    for _ in range(2):
        with pytest.raises(TooLarge, match="takes more CPU than one body may take"):
            await client.parse(LARGE, CONTEXT)
    assert client.worker.restarts >= 1
    await client.stop()


async def test_where_no_worker_can_be_started_the_gateway_reads_all_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.pipeline.parsing.worker_client.MODULE", "no_such_module")
    monkeypatch.setattr("gateway.pipeline.parsing.process.RESTART_S", 0.01)
    client = worker_client()
    client.start()
    parsed = await Parser(ParseRules(Prices()), client).parse(LARGE, CONTEXT)
    assert parsed.calls is not None
    await client.stop()


async def test_large_bodies_have_a_process_of_their_own_that_ends_when_it_is_idle(
    client: WorkerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.large_worker, "_idle_s", 0.2)
    for _ in range(2):
        parsed, _ = await client.parse(LARGE._replace(body=LARGE.body + b" " * QUICK_BYTES), CONTEXT)
        assert parsed.calls is not None
        assert client.large_worker.pid not in {None, client.worker.pid}
        async with asyncio.timeout(HANGS_S):
            while client.large_worker.is_ready:  # noqa: ASYNC110 it has no event
                await asyncio.sleep(0.01)
    assert client.large_worker.done == 2
    assert (client.worker.done, client.large_worker.restarts) == (0, 0)


async def test_an_ordinary_body_does_not_wait_behind_a_large_one(client: WorkerClient) -> None:
    large = LARGE._replace(body=LARGE.body + b" " * QUICK_BYTES)
    await client.parse(large, CONTEXT)
    assert client.large_worker.pid is not None
    process = psutil.Process(client.large_worker.pid)
    process.suspend()
    waiting = asyncio.ensure_future(client.parse(large, CONTEXT))
    await asyncio.sleep(0)
    await client.parse(LARGE, CONTEXT)
    assert not waiting.done()
    process.resume()
    await waiting


async def test_the_process_for_large_bodies_helps_the_other_while_it_has_none(client: WorkerClient) -> None:
    await client.parse(LARGE._replace(body=LARGE.body + b" " * QUICK_BYTES), CONTEXT)
    child = child_of(client)
    child.suspend()
    waiting = asyncio.ensure_future(client.parse(LARGE, CONTEXT))
    await asyncio.sleep(0)
    await client.parse(LARGE, CONTEXT)
    assert not waiting.done()
    child.resume()
    await waiting


async def test_a_signal_to_the_whole_group_ends_no_worker(client: WorkerClient) -> None:
    """Ctrl-C and a service manager signal every process; what is under way is still read."""
    process = child_of(client)
    for number in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
    found = next(iter(scenarios("traces"))).payloads[0]
    assert await parsed_there(client, Payload(found.signal, found.body, found.is_json))
    assert (child_of(client).pid, client.worker.restarts) == (process.pid, 0)


async def test_a_worker_that_does_not_answer_is_ended_and_its_payloads_are_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.pipeline.parsing.process.PATIENCE_S", 0.2)
    client = worker_client()
    client.start()
    await until_free(client)
    child_of(client).suspend()
    with pytest.raises(Overloaded):
        await client.parse(LARGE, CONTEXT)
    await until_free(client)
    parsed, _ = await client.parse(LARGE, CONTEXT)
    assert parsed.calls is not None
    assert parsed.calls.items == 0
    await client.stop()


async def test_a_worker_that_ended_unnoticed_reads_nothing_and_the_next_does(client: WorkerClient) -> None:
    child = child_of(client)
    child.kill()
    child.wait()
    for _ in range(3):
        with suppress(Overloaded):
            parsed, _ = await client.parse(LARGE, CONTEXT)
            assert parsed.calls is not None
    assert client.worker.done > 0


async def test_a_stopped_reader_leaves_no_process(tmp_path: Path) -> None:
    client = worker_client()
    client.start()
    await until_free(client)
    child = child_of(client)
    await client.stop()
    assert not child.is_running()


async def test_a_worker_gets_none_of_the_gateways_secrets_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_TELEMETRY_KEY", "csk_secret")
    client = worker_client()
    client.start()
    await until_free(client)
    assert "UPSTREAM_TELEMETRY_KEY" not in child_of(client).environ()
    await client.stop()


async def test_a_fault_of_ours_ends_no_worker_and_its_payload_is_not_read_again(client: WorkerClient) -> None:
    with pytest.raises(ReaderFault):
        await Parser(ParseRules(Prices()), client).parse(Payload("no such kind", b" " * (HERE_BYTES + 1)), CONTEXT)
    assert client.is_free
    assert client.worker.restarts == 0


async def test_large_and_small_bodies_are_answered_in_their_order_though_some_wait_no_longer(
    client: WorkerClient,
) -> None:
    """A large one goes behind its frame, in slices; one whose sender went away is written whole."""

    def spans(n: int, padding: int) -> Payload:
        return Payload("traces", field(1, field(2, b"\x12\x00" * n) + field(9, b" " * padding)), json=False)

    small = HERE_BYTES + 1
    sizes = [(1, 3_000_000), (2, small), (3, BEHIND_BYTES), (4, small), (5, 2_000_000), (6, small)]
    coming = [asyncio.ensure_future(client.parse(spans(*size), CONTEXT)) for size in sizes]
    await asyncio.sleep(0)
    coming[0].cancel()
    coming[4].cancel()
    for (n, _), answer in zip(sizes, coming, strict=True):
        if not answer.cancelled() and n not in {1, 5}:
            parsed, _ = await answer
            assert parsed.calls is not None
            assert parsed.calls.items == n
    assert client.worker.restarts == 0
