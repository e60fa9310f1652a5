"""A call that two reports stated is priced by what both of them know."""

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads

TRACE = "000000000000000000000000000000aa"


def payload(scope: str, span_id: str, trace_id: str, counts: dict[str, int]) -> tuple[bytes, str, str, str]:
    texts = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "gen_ai.response.id": "chatcmpl-one",
    }
    attributes = [
        *({"key": key, "value": {"stringValue": value}} for key, value in texts.items()),
        *({"key": f"gen_ai.usage.{key}", "value": {"intValue": value}} for key, value in counts.items()),
    ]
    span = {
        "traceId": trace_id,
        "spanId": span_id,
        "startTimeUnixNano": "1793527200000000000",
        "endTimeUnixNano": "1793527201000000000",
        "attributes": attributes,
    }
    body = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [span]}]}]}
    return orjson.dumps(body), "/v1/traces", "application/json", ""


WHOLES = {"input_tokens": 1000, "output_tokens": 100}


@pytest.mark.parametrize("cached_first", [True, False])
async def test_an_estimate_is_made_again_when_the_cache_split_comes_with_another_report(*, cached_first: bool) -> None:
    plain = payload("an.application", "00000000000000aa", TRACE, WHOLES)
    cached = payload("a.gateway", "00000000000000bb", TRACE[::-1], {**WHOLES, "cache_read.input_tokens": 800})
    records, _, _ = await records_of_payloads([cached, plain] if cached_first else [plain, cached])
    (record,) = map(orjson.loads, records)
    assert record["usage"]["cache_read_input_tokens"] == 800
    # 200 x 0.15 + 800 x 0.075 + 100 x 0.60, per million tokens
    assert record["cost"]["amount"] == "0.00015"


async def test_a_merged_call_whose_answering_model_nobody_knows_is_priced_by_the_one_asked_for() -> None:
    def without_answer(scope: str, span_id: str, trace_id: str) -> tuple[bytes, str, str, str]:
        body, *rest = payload(scope, span_id, trace_id, WHOLES)
        return body.replace(b"gen_ai.response.model", b"unread"), *rest  # type: ignore[return-value]

    first = without_answer("an.application", "00000000000000aa", TRACE)
    second = without_answer("a.gateway", "00000000000000bb", TRACE[::-1])
    records, _, outcomes = await records_of_payloads([first, second])
    (record,) = map(orjson.loads, records)
    assert (record["cost"]["amount"], outcomes["duplicate"]) == ("0.00021", 1)
