"""One call that several signals report stays one: traces, logs and metrics of one run together, in
both orders, at once or in pieces.
"""

from collections.abc import Sequence

import orjson
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs, ScopeLogs

from tests.conformance.corpus.counting import billed, counted, explained, sent
from tests.conformance.corpus.explaining import check
from tests.conformance.corpus.truths import BEYOND_THE_PAYLOAD
from tests.support.compare import differences
from tests.support.corpus import Payload, Scenario, scenarios

BY_SIGNAL = {
    signal: {scenario.name: scenario for scenario in scenarios(signal)} for signal in ("traces", "logs", "metrics")
}

ASSISTANTS = {
    "claude-code": ("api_request_logs", "token_metrics_delta"),
    "codex": ("chat_logs", "chat_traces", "chat_metrics"),
    "gemini-cli": ("chat_logs", "chat_traces", "chat_metrics"),
    "qwen-code": ("chat_logs_1", "chat_logs_2", "chat_traces", "chat_metrics"),
}
"""Assistant -> files of one run."""


def _scenario(name: str) -> Scenario:
    return next(by_name[name] for by_name in BY_SIGNAL.values() if name in by_name)


def _runs() -> list[Scenario]:
    """Scenarios with logs beside their traces, with all their payloads; logs last."""
    traces, logs, metrics = BY_SIGNAL.values()
    runs = []
    for name in traces.keys() & logs:
        more = metrics[name].payloads if name in metrics else ()
        runs.append(Scenario(name, traces[name].meta, traces[name].payloads + more + logs[name].payloads))
    for assistant, files in ASSISTANTS.items():
        parts = [_scenario(f"assistants/{assistant}/{file}") for file in files]
        metas = [part.meta for part in parts if part.payloads[0].signal == "logs"]
        meta = {**metas[0], "expected": [call for each in metas for call in each["expected"]]}
        runs.append(Scenario(f"assistants/{assistant}", meta, tuple(p for part in parts[::-1] for p in part.payloads)))
    return sorted(runs, key=lambda run: run.name)


RUNS = _runs()
ORDERS = {"logs last": 1, "logs first": -1}


async def _check(run: Scenario, payloads: Sequence[Payload]) -> list[bytes]:
    found = await counted(*map(sent, payloads))
    assert bool(different := differences(run.meta, found.parsed)) == (run.name in BEYOND_THE_PAYLOAD), different
    assert not found.rejected
    return found.records


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("run", RUNS, ids=repr)
async def test_all_signals_of_one_run_are_its_calls_once(run: Scenario, order: str) -> None:
    await _check(run, run.payloads[:: ORDERS[order]])


@pytest.mark.parametrize("run", RUNS, ids=repr)
async def test_all_signals_sent_again_in_the_other_order_change_nothing(run: Scenario) -> None:
    once = await _check(run, run.payloads)
    again = await _check(run, [*run.payloads, *run.payloads[::-1]])
    assert billed(again) == billed(once)


def _log_pieces(payload: Payload) -> list[Payload]:
    """Each log record in a request of its own."""
    if payload.is_json:
        document = orjson.loads(payload.body)
        return [
            payload._replace(
                body=orjson.dumps(
                    {"resourceLogs": [{**resource, "scopeLogs": [{**scope, "logRecords": [record]}]}]},
                )
            )
            for resource in document["resourceLogs"]
            for scope in resource["scopeLogs"]
            for record in scope["logRecords"]
        ]
    pieces = []
    for resource in ExportLogsServiceRequest.FromString(payload.body).resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                scope_logs = ScopeLogs(scope=scope.scope, log_records=[record])
                one = ExportLogsServiceRequest(
                    resource_logs=[ResourceLogs(resource=resource.resource, scope_logs=[scope_logs])]
                )
                pieces.append(payload._replace(body=one.SerializeToString()))
    return pieces


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("run", RUNS, ids=repr)
async def test_logs_that_come_one_by_one_are_the_same_calls(run: Scenario, order: str) -> None:
    others = [payload for payload in run.payloads if payload.signal != "logs"]
    logs = [piece for payload in run.payloads if payload.signal == "logs" for piece in _log_pieces(payload)]
    assert len(logs) >= len(run.payloads) - len(others)
    await _check(run, [*others, *logs[::-1]][:: ORDERS[order]])


@pytest.mark.parametrize("run", RUNS, ids=repr)
async def test_all_signals_of_one_run_that_come_twice_are_explained_too(run: Scenario) -> None:
    check(await explained(*map(sent, (*run.payloads, *run.payloads[::-1]))))


def test_the_corpus_is_there() -> None:
    assert len(RUNS) > 40
    assert {run.name for run in RUNS} > {f"assistants/{name}" for name in ASSISTANTS}
