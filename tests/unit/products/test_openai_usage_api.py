"""Usage reports of OpenAI and Anthropic: aggregates, never calls."""

from typing import Any

import orjson

from gateway.cli.normalising import records_of_payloads
from tests.support.source_reading import all_text, read

RESULT: dict[str, Any] = {
    "object": "organization.usage.completions.result",
    "input_tokens": 1000,
    "output_tokens": 200,
    "input_cached_tokens": 400,
    "input_audio_tokens": 0,
    "output_audio_tokens": 0,
    "num_model_requests": 10,
    "project_id": "proj_abc",
    "model": "gpt-5-mini-2026-08-01",
}
BUCKET: dict[str, Any] = {"object": "bucket", "start_time": 1795046400, "end_time": 1795132800, "results": [RESULT]}
REPORT: dict[str, Any] = {
    "data": [
        {
            "starting_at": "2026-11-19T00:00:00Z",
            "ending_at": "2026-11-20T00:00:00Z",
            "results": [
                {
                    "uncached_input_tokens": 57,
                    "cache_creation": {"ephemeral_1h_input_tokens": 2000, "ephemeral_5m_input_tokens": 48},
                    "cache_read_input_tokens": 4096,
                    "output_tokens": 231,
                    "server_tool_use": {"web_search_requests": 3, "note": "CANARY"},
                    "model": "claude-sonnet-4-5",
                    "workspace_id": "wrkspc_1",
                    "service_tier": "standard",
                }
            ],
        }
    ],
    "has_more": False,
    "next_page": "CANARY",
}


def page(*buckets: Any) -> dict[str, Any]:
    return {"object": "page", "data": list(buckets), "has_more": False, "next_page": None}


async def aggregates(*payloads: Any) -> list[dict[str, Any]]:
    path = "/v1/sources/openai-usage-api"
    sent = [(orjson.dumps(payload), path, "application/json", "") for payload in payloads]
    records, _, outcomes = await records_of_payloads(sent)
    assert outcomes["received"] == sum(n for outcome, n in outcomes.items() if outcome != "received")
    return [orjson.loads(record) for record in records]


async def test_a_result_is_an_aggregate_of_its_stretch() -> None:
    (found,) = await aggregates(page(BUCKET))
    assert (found["kind"], found["provider"], found["response_model"], found["calls"]) == (
        "aggregate",
        "openai",
        "gpt-5-mini-2026-08-01",
        10,
    )
    assert found["period"] == {"start": "2026-11-19T00:00:00.000Z", "end": "2026-11-20T00:00:00.000Z"}
    assert found["usage"] == {"status": "aggregate", "input_tokens": 1000, "output_tokens": 200, "cache_read_input_tokens": 400,
                              "audio_input_tokens": 0, "audio_output_tokens": 0}  # fmt: skip
    assert found["attribution"]["project"] == "proj_abc"


async def test_a_report_that_grew_adds_what_it_grew_by() -> None:
    grown = {**BUCKET, "results": [{**RESULT, "input_tokens": 1500, "output_tokens": 250, "num_model_requests": 12}]}
    found = await aggregates(page(BUCKET), page(BUCKET), page(grown))
    assert sum(x["usage"]["input_tokens"] for x in found) == 1500
    assert sum(x["usage"]["output_tokens"] for x in found) == 250


async def test_results_of_other_dimensions_are_other_sums() -> None:
    other = {**RESULT, "some_new_dimension": "x"}
    found = await aggregates(page({**BUCKET, "results": [RESULT, other]}))
    assert sum(x["usage"]["input_tokens"] for x in found) == 2000


async def test_audio_is_counted_with_the_text() -> None:
    (found,) = await aggregates(
        page({**BUCKET, "results": [{**RESULT, "input_audio_tokens": 50, "output_audio_tokens": 7}]})
    )
    assert (found["usage"]["input_tokens"], found["usage"]["audio_input_tokens"]) == (1050, 50)
    assert found["usage"]["output_tokens"] == 207


async def test_anthropics_report_leaves_the_cache_out() -> None:
    (found,) = await aggregates(REPORT)
    assert (found["provider"], found["response_model"]) == ("anthropic", "claude-sonnet-4-5")
    assert found["usage"] == {"status": "aggregate", "input_tokens": 6201, "output_tokens": 231, "cache_read_input_tokens": 4096,
                              "cache_creation_input_tokens": 2048}  # fmt: skip
    assert found["attribution"]["project"] == "wrkspc_1"
    assert "CANARY" not in all_text(read("openai-usage-api", REPORT))


def test_costs_and_errors_are_ignored_and_nothing_is_ever_a_call() -> None:
    cost = {"object": "organization.costs.result", "amount": {"value": 0.06, "currency": "usd"}, "line_item": None}
    out = read(
        "openai-usage-api",
        [page({**BUCKET, "results": [cost]}), {"error": {"message": "CANARY"}}, page(), page(BUCKET)],
    )
    assert not out.calls.calls
    assert out.calls.ignored == 2
    assert len(out.measured.points) == 5


def test_a_bucket_without_times_is_rejected_with_its_place() -> None:
    out = read("openai-usage-api", page({"results": [RESULT]}))
    assert [(x.reason, x.position) for x in out.measured.rejected] == [("invalid_time", "data[0].results[0]")]
