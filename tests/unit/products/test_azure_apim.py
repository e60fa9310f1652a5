"""API Management's generative AI gateway log, in each of its spellings."""

from typing import Any

import pytest

from tests.support.source_reading import all_text, read, record, records

ROW: dict[str, Any] = {
    "TimeGenerated": "2026-11-20T07:00:00.123Z",
    "CorrelationId": "c-1",
    "RequestId": "chatcmpl-1",
    "OperationName": "ChatCompletions_Create",
    "DeploymentName": "team-gpt",
    "ModelName": "gpt-4o-2024-08-06",
    "PromptTokens": 1200,
    "CompletionTokens": 340,
    "TotalTokens": 1540,
    "IsStreamCompletion": True,
    "SequenceNumber": 0,
    "Region": "westeurope",
    "RequestMessages": [{"content": "CANARY"}],
    "Type": "ApiManagementGatewayLlmLog",
}


def diagnostic(**changes: Any) -> dict[str, Any]:
    properties = {
        key[0].lower() + key[1:]: value
        for key, value in {**ROW, **changes}.items()
        if key not in {"TimeGenerated", "Type"}
    }
    return {
        "time": ROW["TimeGenerated"],
        "category": "GatewayLlmLogs",
        "location": "westeurope",
        "properties": properties,
    }


@pytest.mark.parametrize(
    "payload",
    [
        ROW,
        diagnostic(),
        {"records": [diagnostic()]},
        {f"{key}_d" if isinstance(value, int) else f"{key}_s": value for key, value in ROW.items() if key != "Type"},
        {
            "tables": [
                {
                    "name": "PrimaryResult",
                    "columns": [{"name": key, "type": "string"} for key in ROW],
                    "rows": [list(ROW.values())],
                }
            ]
        },
    ],
)
def test_a_row_is_read_in_any_spelling(payload: Any) -> None:
    found = record("azure-apim", payload)
    assert found["usage"] == {"status": "reported", "input_tokens": 1200, "output_tokens": 340}
    assert (found["request_model"], found["response_model"], found["deployment"]) == (
        "team-gpt",
        "gpt-4o-2024-08-06",
        "team-gpt",
    )
    assert (found["provider"], found["request_id"], found["response_id"]) == ("azure.ai.openai", "c-1", "chatcmpl-1")
    assert (found["region"], found["stream"], found["started_at"]) == ("westeurope", True, "2026-11-20T07:00:00.123Z")
    assert "CANARY" not in all_text(read("azure-apim", payload))


def test_a_call_split_into_several_rows_is_one_in_any_order() -> None:
    messages = [
        {**ROW, "SequenceNumber": n, "PromptTokens": None, "CompletionTokens": None, "TotalTokens": None}
        for n in (1, 2, 3)
    ]
    for rows in ([ROW, *messages], [*messages, ROW]):
        out = read("azure-apim", {"records": rows})
        assert len(out.calls.calls) == 1
        assert out.calls.suppressed == {"split_message": 3}
    assert not read("azure-apim", messages).calls.calls


def test_tokens_that_every_row_of_a_call_repeats_are_counted_once() -> None:
    out = read("azure-apim", [{**ROW, "SequenceNumber": n} for n in range(3)])
    assert (len(out.calls.calls), out.calls.suppressed) == (1, {"split_message": 2})


def test_a_row_comes_to_one_record_whether_its_call_is_reported_whole_or_in_parts() -> None:
    assert record("azure-apim", ROW)["record_id"] == record("azure-apim", {**ROW, "SequenceNumber": 4})["record_id"]


def test_zeros_are_unknown() -> None:
    assert record("azure-apim", {**ROW, "PromptTokens": 0, "CompletionTokens": 0, "TotalTokens": 0})["usage"] == {
        "status": "missing"
    }


def test_rows_of_other_logs_are_ignored() -> None:
    out = read("azure-apim", {"records": [{**diagnostic(), "category": "GatewayLogs"}, {"x": 1}]})
    assert out.calls.ignored == 2


def test_two_calls_are_two() -> None:
    assert len(records("azure-apim", [ROW, {**ROW, "CorrelationId": "c-2"}])) == 2


def test_a_model_of_another_family_is_of_its_own_provider() -> None:
    assert record("azure-apim", {**ROW, "ModelName": "claude-sonnet-4-5"})["provider"] == "anthropic"
    assert record("azure-apim", {**ROW, "ModelName": "Phi-4"})["provider"] == "azure.ai.inference"
