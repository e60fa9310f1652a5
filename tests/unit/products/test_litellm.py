"""LiteLLM's payloads: what the corpus does not hold.

Shapes and values are those that version 1.106 sends.
"""

from contextlib import suppress
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import BadPayload
from gateway.products.litellm.call_types import call_type
from gateway.products.litellm.daily import FOCUS_COLUMNS
from gateway.products.litellm.trim import without_price_maps
from gateway.rules.context import UserPolicy
from tests.support.growth import assert_linear
from tests.support.source_reading import CONTEXT, all_text, read, record, records
from tests.unit.products.test_hostile_payloads import CANARY, HOSTILE, changed, places, with_huge

CALL_ID = "6f195d01-95c2-4051-a8b1-bcbc097e41bf"
START = 1795157904.178972
USAGE: dict[str, Any] = {
    "completion_tokens": 340,
    "prompt_tokens": 1200,
    "total_tokens": 1540,
    "completion_tokens_details": {"audio_tokens": 0, "reasoning_tokens": 256},
    "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": 1024},
}


def payload(**changes: Any) -> dict[str, Any]:
    """A success. `metadata` of *changes* is laid over, the rest replaces."""
    metadata = {
        "user_api_key_hash": "CANARY",
        "user_api_key_alias": "alpha-prod-key",
        "user_api_key_team_id": "team-alpha",
        "user_api_key_team_alias": "Alpha Team",
        "user_api_key_org_id": "org-acme",
        "user_api_key_user_id": "user-ana",
        "user_api_key_project_id": "checkout",
        "requester_ip_address": "CANARY",
        "user_agent": "CANARY",
        "requester_metadata": {
            "tags": ["CANARY"],
            "trace_id": "f22616bf323b465cb97aa881b9e85959",
            "headers": {"x": "CANARY"},
        },
        "usage_object": USAGE,
        **changes.pop("metadata", {}),
    }
    base: dict[str, Any] = {
        "id": "chatcmpl-mock000002",
        "litellm_call_id": CALL_ID,
        "trace_id": "f22616bf323b465cb97aa881b9e85959",
        "session_id": "",
        "call_type": "acompletion",
        "cache_hit": None,
        "stream": None,
        "status": "success",
        "custom_llm_provider": "openai",
        "startTime": START,
        "endTime": START + 0.7159,
        "completionStartTime": START + 0.7159,
        "model": "openai/gpt-5-mini",
        "metadata": metadata,
        "response_cost": 0.0007496,
        "cost_breakdown": {"total_cost": 0.0007496, "service_tier": None},
        "total_tokens": 1540,
        "prompt_tokens": 1200,
        "completion_tokens": 340,
        "request_tags": ["CANARY", "User-Agent: CANARY"],
        "end_user": "enduser-1",
        "api_base": "https://api.openai.com/v1",
        "model_group": "fast-chat",
        "messages": [{"role": "user", "content": "CANARY"}],
        "response": {
            "id": "chatcmpl-mock000002",
            "model": "fast-chat",
            "choices": [{"finish_reason": "stop", "message": {"content": "CANARY"}}],
            "service_tier": "default",
        },
        "model_parameters": {"stream": False, "user": "CANARY", "tools": ["CANARY"]},
        "hidden_params": {
            "batch_models": None,
            "api_base": "https://api.openai.com/v1",
            "additional_headers": {"x": "CANARY"},
        },
        "model_map_information": {"model_map_key": "gpt-5-mini", "model_map_value": {"input_cost_per_token": 2.5e-07}},
        "error_str": None,
        "error_information": {"error_class": "", "error_code": "", "traceback": "", "error_message": ""},
    }
    return {**base, **changes}


def failure(**changes: Any) -> dict[str, Any]:
    failed: dict[str, Any] = {
        "id": CALL_ID,
        "status": "failure",
        "cache_hit": False,
        "response": {},
        "response_cost": 0.0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "total_tokens": 0,
        "error_str": "CANARY",
        "error_information": {
            "error_class": "RateLimitError",
            "error_code": "429",
            "traceback": "CANARY",
            "error_message": "CANARY",
        },
    }
    return payload(**{**failed, "metadata": {"usage_object": {}}, **changes})


# ---- one call


def test_a_success_is_a_call_with_all_that_it_states() -> None:
    found = record("litellm", payload())
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 1200,
        "cache_read_input_tokens": 1024,
        "output_tokens": 340,
        "reasoning_output_tokens": 256,
        "audio_input_tokens": 0,
        "audio_output_tokens": 0,
    }
    assert found["cost"] == {"amount": "0.0007496", "currency": "USD", "source": "reported", "price_version": None}
    assert found["attribution"] == {
        "key": "gateway-key",
        "user": "user-ana",
        "team": "team-alpha",
        "project": "checkout",
        "labels": {
            "virtual_key": "alpha-prod-key",
            "organization": "org-acme",
            "team_name": "Alpha Team",
            "model_group": "fast-chat",
        },
    }
    names = (
        "operation",
        "provider",
        "request_model",
        "response_model",
        "response_id",
        "request_id",
        "finish_reason",
        "service_tier",
    )
    assert [found.get(name) for name in names] == [
        "chat", "openai", "gpt-5-mini", None, "chatcmpl-mock000002", CALL_ID, "stop", "default",
    ]  # fmt: skip
    assert (found["duration_ms"], found["stream"]) == (716, False)
    assert found["trace"]["trace_id"] == "f22616bf323b465cb97aa881b9e85959"


def test_an_anthropic_usage_states_its_writes_twice_and_they_count_once() -> None:
    details = {"cached_tokens": 4096, "cache_write_tokens": 2048, "cache_creation_tokens": 2048}
    details["cache_creation_token_details"] = {"ephemeral_5m_input_tokens": 1448, "ephemeral_1h_input_tokens": 600}  # type: ignore[assignment]
    usage = {"prompt_tokens": 6201, "completion_tokens": 231, "prompt_tokens_details": details}
    usage |= {"cache_creation_input_tokens": 2048, "cache_read_input_tokens": 4096}
    sent = payload(
        prompt_tokens=6201, completion_tokens=231, metadata={"usage_object": usage}, custom_llm_provider="anthropic"
    )
    assert record("litellm", sent)["usage"] == {
        "status": "reported",
        "input_tokens": 6201,
        "cache_read_input_tokens": 4096,
        "cache_creation_input_tokens": 2048,
        "cache_creation_1h_input_tokens": 600,
        "output_tokens": 231,
    }


def test_a_passed_through_usage_of_anthropic_excludes_the_cache() -> None:
    usage = {
        "input_tokens": 57,
        "output_tokens": 231,
        "cache_read_input_tokens": 4096,
        "cache_creation_input_tokens": 2048,
    }
    sent = payload(
        prompt_tokens=0,
        completion_tokens=0,
        total_tokens=0,
        metadata={"usage_object": usage},
        call_type="pass_through_endpoint",
    )
    assert record("litellm", sent)["usage"]["input_tokens"] == 57 + 4096 + 2048


def test_audio_tokens_are_parts_of_their_wholes() -> None:
    details = {"prompt_tokens_details": {"audio_tokens": 100}, "completion_tokens_details": {"audio_tokens": 90}}
    usage = record("litellm", payload(metadata={"usage_object": {**USAGE, **details}}))["usage"]
    assert (usage["audio_input_tokens"], usage["audio_output_tokens"]) == (100, 90)


@pytest.mark.parametrize("usage", [{}, None, "CANARY", [1]])
def test_zeros_without_a_usage_are_unknown(usage: Any) -> None:
    sent = payload(prompt_tokens=0, completion_tokens=0, total_tokens=0, metadata={"usage_object": usage})
    assert record("litellm", sent)["usage"] == {"status": "missing"}


@pytest.mark.parametrize("cost", [0, 0.0, None, -1, "CANARY", 1e300, True])
def test_a_cost_that_is_none_is_unknown(cost: Any) -> None:
    found = record("litellm", payload(response_cost=cost))
    assert "cost" not in found or cost is True


def test_a_stream_has_a_first_token_and_others_have_none() -> None:
    streamed = record("litellm", payload(stream=True, completionStartTime=START + 0.25))
    assert (streamed["stream"], streamed["time_to_first_token_ms"]) == (True, 250)
    assert "time_to_first_token_ms" not in record("litellm", payload(completionStartTime=START + 0.25))


@pytest.mark.parametrize(
    ("model", "provider", "expected"),
    [
        ("openai/gpt-5-mini", "openai", ("gpt-5-mini", "openai")),
        ("gpt-5-mini", "openai", ("gpt-5-mini", "openai")),
        ("azure/prod-4o", "azure", ("prod-4o", "azure.ai.openai")),
        (
            "bedrock/us.anthropic.claude-sonnet-4-5-v1:0",
            "bedrock",
            ("us.anthropic.claude-sonnet-4-5-v1:0", "aws.bedrock"),
        ),
        ("openrouter/openai/gpt-4o", "openrouter", ("openai/gpt-4o", "openrouter")),
        ("hosted_vllm/meta-llama/Llama-3.1-8B", "hosted_vllm", ("meta-llama/Llama-3.1-8B", "vllm")),
        ("gemini/gemini-2.5-flash", None, ("gemini-2.5-flash", "gcp.gemini")),
        ("openai/gpt-5-mini", None, ("gpt-5-mini", "openai")),
    ],
)
def test_the_model_loses_its_provider(model: str, provider: str | None, expected: tuple[str, str]) -> None:
    found = record("litellm", payload(model=model, custom_llm_provider=provider, api_base="", hidden_params={}))
    assert (found["request_model"], found["provider"]) == expected


def test_an_openai_client_at_an_azure_address_is_azure() -> None:
    base = "https://acme.openai.azure.com/openai/v1"
    assert record("litellm", payload(hidden_params={"api_base": base}))["provider"] == "azure.ai.openai"


def test_the_answers_model_counts_unless_it_is_the_alias() -> None:
    assert (
        record("litellm", payload(response={"model": "gpt-5-mini-2026-08-01"}))["response_model"]
        == "gpt-5-mini-2026-08-01"
    )
    assert record("litellm", payload(response={"model": "fast-chat"}))["response_model"] is None


# ---- who, trace, session


def test_the_end_user_is_used_where_the_key_has_no_user() -> None:
    assert record("litellm", payload(metadata={"user_api_key_user_id": None}))["attribution"]["user"] == "enduser-1"


@pytest.mark.parametrize(
    ("trace_id", "requester", "session"),
    [
        ("sess-anth-1", {"trace_id": "3d1c7812a713cfa43a3bb2810ed8f48d"}, "sess-anth-1"),
        ("sess-anth-1", None, "sess-anth-1"),
        ("24dcf2a6-e012-43ab-b5ef-dcaedaf78d38", None, None),
        ("24dcf2a6-e012-43ab-b5ef-dcaedaf78d38", {"headers": {}}, None),
        ("f22616bf323b465cb97aa881b9e85959", {"trace_id": "f22616bf323b465cb97aa881b9e85959"}, None),
        ("0b0e1c1e-4c5e-4a0c-9d5e-0123456789ab", {"user_id": "user_a_account__session_0b0e1c1e-4c5e-4a0c-9d5e-0123456789ab"}, "0b0e1c1e-4c5e-4a0c-9d5e-0123456789ab"),
        ("0b0e1c1e-4c5e-4a0c-9d5e-0123456789ab", {"trace_id": "f22616bf323b465cb97aa881b9e85959"}, "0b0e1c1e-4c5e-4a0c-9d5e-0123456789ab"),
    ],
)  # fmt: skip
def test_a_trace_id_that_is_the_clients_session_is_a_session(
    trace_id: str, requester: Any, session: str | None
) -> None:
    found = record("litellm", payload(trace_id=trace_id, metadata={"requester_metadata": requester}))
    assert found["attribution"].get("session") == session


# ---- identity


def test_a_fallbacks_failed_and_successful_attempt_are_two_calls() -> None:
    out = records("litellm", [failure(), payload()])
    assert len({found["record_id"] for found in out}) == 2
    assert [found["status"] for found in out] == ["error", "ok"]
    assert out[0]["usage"] == {"status": "none"}
    assert (out[0]["error_type"], out[0]["response_id"]) == ("RateLimitError", None)
    assert "cost" not in out[0]


def test_two_failed_attempts_of_one_call_are_two_calls_and_the_same_one_again_is_one() -> None:
    out = records("litellm", [failure(), failure(startTime=START + 1, endTime=START + 2), failure()])
    assert len({found["record_id"] for found in out}) == 2
    assert out[0]["record_id"] == out[2]["record_id"]


def test_a_hit_of_the_gateways_cache_is_unbilled_and_another_report() -> None:
    hit = payload(
        cache_hit=True, id="chatcmpl-mock000002_cache_hit1795157948.11", litellm_call_id="other", response_cost=0.0
    )
    first, second = records("litellm", [payload(), hit])
    assert (first["billed"], second["billed"]) == (True, False)
    assert second["cost"]["amount"] == "0"
    assert "gateway_cache_hit" in second["flags"]
    assert second["response_id"] == first["response_id"]
    assert second["record_id"] != first["record_id"]


@pytest.mark.parametrize("own", [CALL_ID, "None", "", None, 7, ["CANARY"]])
def test_what_is_no_response_id_is_none(own: Any) -> None:
    assert record("litellm", payload(id=own))["response_id"] in {None, "7"} - ({"7"} if own != 7 else set())


def test_long_ids_that_differ_at_their_end_are_two_reports() -> None:
    long = "resp_" + "x" * 400
    assert (
        len({found["record_id"] for found in records("litellm", [payload(id=long + "a"), payload(id=long + "b")])}) == 2
    )


def test_a_payload_without_any_id_is_known_by_what_it_says() -> None:
    bare = payload(id=None, litellm_call_id=None)
    out = records("litellm", [bare, bare, {**bare, "startTime": START + 1}])
    assert len({found["record_id"] for found in out}) == 2


# ---- kinds of calls


@pytest.mark.parametrize(
    ("sent", "operation"),
    [
        ("completion", "chat"), ("acompletion", "chat"), ("aresponses", "chat"), ("anthropic_messages", "chat"),
        ("aanthropic_messages", "chat"), ("_arealtime", "chat"), ("_aresponses_websocket", "chat"),
        ("agenerate_content_stream", "generate_content"), ("atext_completion", "text_completion"),
        ("aembedding", "embeddings"), ("aimage_edit", "image_generation"), ("atranscription", "transcription"),
        ("aspeech", "speech"), ("arerank", "rerank"), ("amoderation", "moderation"), ("avideo_generation", "video_generation"),
        ("acreate_video", "video_generation"), ("aocr", "ocr"),
    ],
)  # fmt: skip
def test_calls_of_models_have_their_operation(sent: str, operation: str) -> None:
    assert record("litellm", payload(call_type=sent))["operation"] == operation


@pytest.mark.parametrize(
    "sent",
    [
        "call_mcp_tool", "list_mcp_tools", "acreate_batch", "acancel_batch", "acreate_file", "afile_content", "file_list",
        "alist_input_items", "adelete_responses", "acancel_responses", "acreate_thread", "a_add_message", "aget_assistants",
        "avector_store_create", "avector_store_file_list", "avideo_list", "avideo_content", "acreate_container",
        "alist_fine_tuning_jobs", "acreate_fine_tuning_job", "acreate_skill",
    ],
)  # fmt: skip
def test_what_manages_something_is_ignored(sent: str) -> None:
    out = read("litellm", payload(call_type=sent, prompt_tokens=0, completion_tokens=0, metadata={"usage_object": {}}))
    assert (out.calls.ignored, out.calls.calls) == (1, [])


@pytest.mark.parametrize("sent", ["asearch", "avector_store_search", "asend_message"])
def test_steps_around_calls_never_bill(sent: str) -> None:
    assert read("litellm", payload(call_type=sent)).calls.suppressed == {"not_a_call": 1}


def test_a_batch_counts_when_it_is_done_once_however_often_it_is_asked_for() -> None:
    batch = {
        "call_type": "aretrieve_batch",
        "id": "batch_1",
        "model": "",
        "hidden_params": {"batch_models": ["gpt-4o-mini"]},
    }
    waiting = payload(
        **batch, prompt_tokens=0, completion_tokens=0, total_tokens=0, response_cost=0, metadata={"usage_object": {}}
    )
    assert read("litellm", waiting).calls.ignored == 1
    done = [payload(**batch), payload(**batch, litellm_call_id="another", startTime=START + 60, endTime=START + 61)]
    first, second = records("litellm", done)
    assert first["record_id"] == second["record_id"]
    assert (first["batch"], first["request_model"]) == (True, "gpt-4o-mini")


def test_a_passed_through_request_is_a_call_where_it_states_usage() -> None:
    silent: dict[str, Any] = {
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "total_tokens": 0,
        "response_cost": 0.0,
        "metadata": {"usage_object": {}},
    }
    assert read("litellm", payload(call_type="pass_through_endpoint", model="unknown", **silent)).calls.ignored == 1
    assert record("litellm", payload(call_type="pass_through_endpoint"))["usage"]["input_tokens"] == 1200
    assert record("litellm", failure(call_type="allm_passthrough_route"))["status"] == "error"


def test_every_call_type_of_the_product_is_known() -> None:
    """`CallTypes` of 1.106; those left open are decided by what they state."""
    left_open = {"pass_through_endpoint", "llm_passthrough_route", "decisions", "systemone"}
    assert {sent for sent in left_open if call_type(sent).kind == "open"} == left_open


def test_images_state_no_tokens_and_are_calls_all_the_same() -> None:
    silent: dict[str, Any] = {
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "total_tokens": 0,
        "metadata": {"usage_object": {"output_image_count": 2}},
    }
    found = record("litellm", payload(call_type="aimage_generation", **silent))
    assert (found["usage"], found["cost"]["amount"]) == ({"status": "missing"}, "0.0007496")


# ---- the older payload

OLDER: dict[str, Any] = {
    "id": "chatcmpl-mock000002",
    "call_type": "acompletion",
    "cache_hit": "None",
    "startTime": "2026-11-20 06:58:24.178972",
    "endTime": "2026-11-20 06:58:24.894829",
    "model": "gpt-5-mini",
    "user": "",
    "modelParameters": "{'stream': False, 'CANARY': 1}",
    "messages": "[{'role': 'user', 'content': 'CANARY prompt_tokens=9'}]",
    "response": "ModelResponse(id='CANARY', usage=Usage(prompt_tokens=7))",
    "usage": "Usage(completion_tokens=340, prompt_tokens=1200, total_tokens=1540, completion_tokens_details="
    "CompletionTokensDetailsWrapper(accepted_prediction_tokens=None, audio_tokens=None, reasoning_tokens=256, text_tokens=None), "
    "prompt_tokens_details=PromptTokensDetailsWrapper(audio_tokens=0, cached_tokens=1024, text_tokens=None))",
    "metadata": "{'user_api_key_user_id': 'user-ana', 'user_api_key_team_id': 'team-alpha', 'headers': {'x': 'CANARY'}}",
    "cost": "0.0007496",
}


def test_the_older_payload_is_read_from_its_texts() -> None:
    found = record("litellm", OLDER)
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 1200,
        "cache_read_input_tokens": 1024,
        "output_tokens": 340,
        "reasoning_output_tokens": 256,
        "audio_input_tokens": 0,
    }
    assert (found["started_at"], found["duration_ms"]) == ("2026-11-20T06:58:24.179Z", 716)
    assert (found["attribution"]["user"], found["attribution"]["team"]) == ("user-ana", "team-alpha")
    assert (found["response_id"], found["cost"]["amount"]) == ("chatcmpl-mock000002", "0.0007496")
    assert "CANARY" not in all_text(read("litellm", OLDER))


def test_an_older_payloads_writes_to_the_cache_are_read() -> None:
    usage = (
        "Usage(completion_tokens=231, prompt_tokens=6201, total_tokens=6432, completion_tokens_details=None, prompt_tokens_details="
        "PromptTokensDetailsWrapper(cached_tokens=4096, cache_write_tokens=2048, cache_creation_tokens=2048, "
        "cache_creation_token_details=CacheCreationTokenDetails(ephemeral_5m_input_tokens=2048, ephemeral_1h_input_tokens=0)), "
        "cache_creation_input_tokens=2048, cache_read_input_tokens=4096)"
    )
    found = record("litellm", {**OLDER, "usage": usage, "model": "anthropic/claude-sonnet-4-5"})["usage"]
    assert (found["input_tokens"], found["cache_read_input_tokens"], found["cache_creation_input_tokens"]) == (
        6201,
        4096,
        2048,
    )


def test_a_name_that_a_client_could_have_written_is_not_believed() -> None:
    doubled = OLDER["metadata"] + "{'user_api_key_team_id': 'team-beta'}"
    assert "team" not in record("litellm", {**OLDER, "metadata": doubled})["attribution"]


# ---- events


def test_lagos_subscription_goes_the_way_of_users() -> None:
    event = {
        "event": {
            "transaction_id": "t-1",
            "external_subscription_id": "ana@example.com",
            "code": "CANARY",
            "properties": {
                "model": "openai/gpt-5-mini",
                "response_cost": 0.1,
                "prompt_tokens": 12,
                "completion_tokens": 3,
            },
        }
    }
    found = record("litellm", event)
    assert found["attribution"]["labels"] == {"subscription": "ana@example.com"}
    assert (found["usage"]["input_tokens"], found["request_model"], found["flags"]) == (
        12,
        "gpt-5-mini",
        ["received_time"],
    )
    for policy in (UserPolicy("hash", b"secret"), UserPolicy("drop")):
        assert "ana@example.com" not in all_text(read("litellm", event, CONTEXT._replace(users=policy)))


def test_an_openmeter_event_of_an_embedding_names_no_response() -> None:
    event = {
        "specversion": "1.0", "type": "litellm_tokens", "id": CALL_ID, "time": "2026-11-20T07:09:33.6+00:00", "subject": "user-ana",
        "source": "litellm-proxy", "data": {"model": "text-embedding-3-small", "cost": 0, "prompt_tokens": 77, "completion_tokens": 0},
    }  # fmt: skip
    found = record("litellm", event)
    assert (found["response_id"], found["request_id"], found["attribution"]["user"]) == (None, CALL_ID, "user-ana")
    assert "cost" not in found


# ---- what is none of it


def test_a_budget_alert_is_ignored_and_the_unknown_is_named_by_its_place() -> None:
    out = read(
        "litellm",
        [
            {"spend": 1.0, "event": "budget_crossed", "event_group": "key", "user_email": "CANARY"},
            None,
            {"text": "CANARY"},
        ],
    )
    assert out.calls.ignored == 1
    assert [(x.reason, x.position) for x in out.calls.rejected] == [("not_an_object", "[1]"), ("unknown_shape", "[2]")]
    assert "CANARY" not in all_text(out)


def test_one_bad_line_costs_only_itself() -> None:
    body = orjson.dumps(payload()) + b"\n{cut\n" + orjson.dumps(payload(litellm_call_id="b"))
    out = read("litellm", body)
    assert len(out.calls.calls) == 2
    assert [(x.reason, x.position) for x in out.calls.rejected] == [("not_json", "line 2")]


# ---- what is cut before parsing


def dumped(document: Any) -> bytes:
    """As LiteLLM's `json.dumps` has it."""
    return orjson.dumps(document).replace(b'":', b'": ').replace(b',"', b', "')


def test_a_price_map_is_cut_and_nothing_else() -> None:
    body = dumped([payload(), payload(litellm_call_id="b")])
    trimmed = without_price_maps(body)
    assert b"input_cost_per_token" not in trimmed
    kept = [{k: v for k, v in sent.items() if k != "model_map_information"} for sent in orjson.loads(body)]
    assert orjson.loads(trimmed) == kept


@pytest.mark.parametrize("where", ["messages", "metadata", "both", "end"])
def test_no_client_hides_its_usage_behind_the_names_that_are_cut(where: str) -> None:
    begin: dict[str, Any] = {"model_map_information": {}}
    end: dict[str, Any] = {"error_str": "CANARY"}
    hostile: dict[str, dict[str, Any]] = {
        "messages": {"messages": [{**begin, "content": "x", **end}]},
        "metadata": {"metadata": {"requester_metadata": {**begin, **end}}},
        "both": {"metadata": {"requester_metadata": begin}, "messages": end},
        "end": {"metadata": {"requester_metadata": begin}},
    }
    plain, sent = payload(), payload(**hostile[where])
    out = records("litellm", dumped([sent, plain]))
    assert [found["usage"]["input_tokens"] for found in out] == [1200, 1200]
    assert [found["cost"]["amount"] for found in out] == ["0.0007496", "0.0007496"]


def test_price_maps_of_several_models_are_cut_whatever_their_order() -> None:
    maps = [b'"model_map_information": {"key": "m%d", "x": %s}, ' % (n, b"1" * n * 100) for n in range(7)]
    order = [0, 1, 0, 0, 5, 6, 1, 2, 3, 4, 0, 1, 6]
    body = b"".join(b'{"a": %d, %s"error_str": null}' % (n, maps[n]) for n in order)
    assert without_price_maps(body) == b"".join(b'{"a": %d, "error_str": null}' % n for n in order)


@pytest.mark.parametrize("rest", [(), (b'"prompt_tokens"', b'"error_str"            ')])
def test_price_maps_are_looked_for_in_linear_time(rest: tuple[bytes, ...]) -> None:
    def trim(n: int) -> None:
        body = b"".join(part * n for part in (b'"model_map_information"', *rest))
        for _ in range(40):
            without_price_maps(body)

    assert_linear(trim, 650)


def test_a_payload_that_ends_with_its_price_map_does_not_swallow_the_next() -> None:
    last = payload()
    for name in ("error_str", "error_information"):
        del last[name]
    assert last.pop("model_map_information")
    last["model_map_information"] = {"model_map_key": "x"}
    assert len(records("litellm", dumped([last, payload(litellm_call_id="b")]))) == 2


# ---- hostile

FOREIGN = {
    "time/usage_start": "2026-11-19T00:00:00Z",
    "resource/id": "i-1",
    "resource/service": "EC2",
    "cost/cost": "7",
}
ROW = {
    "time/usage_start": "2026-11-19T00:00:00",
    "cost/cost": "0.07496",
    "resource/id": "czrn:litellm:openai:cross-region:team-alpha:llm-usage:gpt-5-mini",
    "action/operation": "team-alpha",
    "resource/tag:model": "gpt-5-mini",
    "resource/tag:provider": "openai",
    "resource/tag:team_alias": "Alpha Team",
    "resource/tag:model_group": "fast-chat",
    "resource/tag:api_key_prefix": "4e9f7b2d",
    "resource/tag:api_requests": "100",
    "resource/tag:prompt_tokens": "120000",
    "resource/tag:completion_tokens": "34000",
    "resource/tag:cache_read_tokens": "102400",
}
DAILY = {"month": "2026-11", "operation": "replace_hourly", "data": [ROW]}
SHAPES = [payload(), failure(), OLDER, DAILY, ROW]


def test_billing_data_that_litellm_did_not_write_is_no_usage() -> None:
    out = read("litellm", {**DAILY, "data": [FOREIGN, ROW, {"BilledCost": "1"}]}).measured
    assert [(x.reason, x.position) for x in out.rejected] == [
        ("foreign_billing_row", "data[0]"), ("foreign_billing_row", "data[2]"),
    ]  # fmt: skip
    assert len(out.points) == len(read("litellm", ROW).measured.points)
    assert read("litellm", FOREIGN).measured.rejected[0].reason == "foreign_billing_row"


@pytest.mark.parametrize("sent", SHAPES, ids=["success", "failure", "older", "daily", "row"])
def test_any_value_in_any_place_has_a_outcome(sent: Any) -> None:
    for path in places(sent):
        for put in HOSTILE:
            with suppress(BadPayload):
                assert "CANARY" not in all_text(read("litellm", with_huge(sent, path, put))), (path, put)


@pytest.mark.parametrize("sent", SHAPES, ids=["success", "failure", "older", "daily", "row"])
def test_a_sentence_next_to_or_under_any_field_goes_no_further(sent: Any) -> None:
    for path in places(sent):
        value: Any = sent
        for step in path:
            value = value[step]
        if isinstance(value, dict):
            more = changed(sent, path, {**value, "note": [CANARY], CANARY[:40]: CANARY})
            assert "CANARY" not in all_text(read("litellm", more)), path
        if path and not isinstance(value, str):
            assert "CANARY" not in all_text(read("litellm", changed(sent, path, CANARY))), path


def test_deep_nesting_and_odd_csv_are_refused_or_rejected() -> None:
    for body in (
        b'{"call_type":' + b"[" * 2000,
        b'"' + b"a," * 50,
        b",".join([b"CANARY"] * len(FOCUS_COLUMNS)),
        b"\x00,\x00",
    ):
        with suppress(BadPayload):
            assert "CANARY" not in all_text(read("litellm", body))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("text-completion-openai", "openai"),
        ("azure_text", "azure.ai.openai"),
        ("vertex_ai_beta", "gcp.vertex_ai"),
        ("sagemaker_chat", "aws.sagemaker"),
        ("ollama_chat", "ollama"),
        ("watsonx_text", "ibm.watsonx.ai"),
    ],
)
def test_several_apis_of_a_provider_are_one_provider(sent: str, expected: str) -> None:
    assert (
        record("litellm", payload(custom_llm_provider=sent, model="m", hidden_params={}, api_base=""))["provider"]
        == expected
    )


def test_an_older_version_states_the_parts_in_its_response() -> None:
    sent = payload(metadata={"usage_object": None}, response={"choices": [{"message": "CANARY"}], "usage": USAGE})
    usage = record("litellm", sent)["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["reasoning_output_tokens"]) == (
        1200,
        1024,
        256,
    )
    assert "CANARY" not in all_text(read("litellm", sent))
