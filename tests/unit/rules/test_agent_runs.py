"""Azure AI Agents: a run is looked at until it is done, and one call."""

from typing import Any

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from tests.unit.rules.spans import request

RUN = {"gen_ai.system": "az.ai.agents", "gen_ai.thread.id": "thread_1", "gen_ai.response.model": "gpt-4o"}
DONE = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}


async def records_of(*spans: dict[str, Any]) -> list[dict[str, Any]]:
    bodies = [
        request(RUN | {"gen_ai.thread.run.id": "run_1"} | sent, span_id=bytes([at + 1]) * 8)
        for at, sent in enumerate(spans)
    ]
    payloads = [(body.SerializeToString(), "/v1/traces", "application/x-protobuf", "") for body in bodies]
    return [orjson.loads(record) for record in (await records_of_payloads(payloads))[0]]


def named(name: str) -> dict[str, str]:
    return {"gen_ai.operation.name": name}


@pytest.mark.parametrize("last", ["start_thread_run", "get_thread_run", "process_thread_run", "submit_tool_outputs"])
async def test_all_looks_at_a_run_are_one_call_with_its_usage(last: str) -> None:
    looks = [named("start_thread_run"), *[named("get_thread_run")] * 12, named("submit_tool_outputs")]
    (record,) = await records_of(*looks, named(last) | DONE, named("get_thread_run") | DONE)
    usage = record["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], record["operation"]) == (100, 20, "chat")
    assert "conflict" not in record["flags"]


async def test_two_runs_of_one_thread_are_two_calls() -> None:
    other = {"gen_ai.thread.run.id": "run_2"}
    assert len(await records_of(named("get_thread_run") | DONE, named("get_thread_run") | DONE | other)) == 2
