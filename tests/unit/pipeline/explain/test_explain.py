"""`normalise --explain`, on payloads made for one reason each:
through the real spool and ledger.
"""

import compileall
import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporters.otlp.encode import encode_spans
from gateway.cli.explaining import explain_payloads, printed
from gateway.cli.main import main
from gateway.common.traced import UNSHOWN
from gateway.pipeline.explain.story import Explanation, as_object
from tests.conformance.exporters.test_otlp import FULL
from tests.support.metrics import Export
from tests.unit.rules import log_records, spans

OPENAI = "opentelemetry.instrumentation.openai_v2"
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o-2024-08-06",
    "gen_ai.response.id": "chatcmpl-1",
    "gen_ai.usage.input_tokens": 120,
    "gen_ai.usage.output_tokens": 30,
}
ROOT = Path(__file__).parents[4]
SECRET = "tell me about CANARY"
"""Stands for a user's words."""


def span_payload(attributes: Mapping[str, Any], **rest: Any) -> tuple[bytes, str, str, str]:
    body = spans.request(attributes, **rest).SerializeToString()
    return body, "/v1/traces", "application/x-protobuf", ""


def log_payload(attributes: Mapping[str, Any], **rest: Any) -> tuple[bytes, str, str, str]:
    body = log_records.request(attributes, **rest).SerializeToString()
    return body, "/v1/logs", "application/x-protobuf", ""


async def items(*payloads: tuple[bytes, str, str, str]) -> list[Explanation]:
    explained = await explain_payloads(payloads)
    assert SECRET not in "".join(x for as_json in (True, False) for x in printed(explained.items, as_json=as_json))
    return explained.items


async def item(attributes: Mapping[str, Any], **rest: Any) -> Explanation:
    (found,) = await items(span_payload(attributes, **rest))
    return found


# ---- fields


async def test_of_two_names_for_one_count_the_newer_one_won_and_the_older_one_was_passed_over() -> None:
    explanation = await item({**CALL, "gen_ai.usage.prompt_tokens": 120, "gen_ai.system": "openai"}, scope=OPENAI)
    found = explanation.fields["usage.input_tokens"]
    assert found.value == 120
    assert found.provenance == ("item", ("gen_ai.usage.input_tokens",), ("gen_ai.usage.prompt_tokens",))
    assert explanation.fields["provider"].provenance.passed_over == ("gen_ai.system",)
    assert explanation.chosen_by == "the instrumentation scope's name"


async def test_a_count_of_0_gives_way_to_a_name_that_says_more() -> None:
    explanation = await item({**CALL, "gen_ai.usage.input_tokens": 0, "gen_ai.usage.prompt_tokens": 7}, scope=OPENAI)
    assert explanation.fields["usage.input_tokens"].provenance[1:] == (
        ("gen_ai.usage.prompt_tokens",),
        ("gen_ai.usage.input_tokens",),
    )


async def test_the_users_own_attribute_goes_before_the_resources_and_both_are_named() -> None:
    explanation = await item({**CALL, "user.id": "ann"}, scope=OPENAI, resource={"user.id": "bob", "team.id": "blue"})
    user, team = explanation.fields["attribution.user"], explanation.fields["attribution.team"]
    assert (user.value, user.provenance) == ("ann", ("item", ("user.id",), ("user.id",)))
    assert (team.value, team.provenance) == ("blue", ("resource", ("team.id",), ()))


async def test_a_user_named_unknown_is_none_so_the_resources_is_kept() -> None:
    explanation = await item({**CALL, "user.id": "unknown"}, scope=OPENAI, resource={"user.email": "bob"})
    assert explanation.fields["attribution.user"].provenance == ("resource", ("user.email",), ())


async def test_what_excludes_the_cache_is_summed_and_the_sum_is_shown() -> None:
    attributes = {
        "event.name": "api_request", "model": "claude-sonnet-4-5", "input_tokens": 57, "cache_read_tokens": 4096,
        "cache_creation_tokens": 2048, "output_tokens": 9, "request_id": "req_1",
    }  # fmt: skip
    (explanation,) = await items(log_payload(attributes, scope="com.anthropic.claude_code.events"))
    assert explanation.input is not None
    assert (explanation.input.basis, explanation.input.sum) == ("exclusive", "57 + 4096 + 2048")
    assert explanation.fields["usage.input_tokens"].provenance.attributes == (
        "input_tokens", "cache_read_tokens", "cache_creation_tokens",
    )  # fmt: skip
    assert explanation.record_id_from == "the event's own id (request_id) and its counts"
    assert (explanation.name, explanation.convention) == ("api_request", "claude_code")


async def test_where_the_table_does_not_know_the_numbers_prove_that_the_cache_is_not_in_the_input() -> None:
    explanation = await item(
        {**CALL, "gen_ai.usage.input_tokens": 5, "gen_ai.usage.cache_read.input_tokens": 40}, scope="own"
    )
    assert explanation.input is not None
    assert (explanation.input.basis, explanation.input.sum) == ("exclusive", "5 + 40")
    assert "proves" in explanation.input.why
    assert explanation.chosen_by == "attributes that begin with gen_ai., under a scope that is not known"


async def test_a_value_inside_a_text_is_explained_as_such() -> None:
    answer = orjson.dumps(
        {"id": "resp-1", "model": "gpt-4o-2024-08-06", "object": "response", "output": [SECRET]}
    ).decode()
    attributes = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o", "llm.token_count.prompt": 3}
    explanation = await item({**attributes, "output.value": answer}, scope="openinference.instrumentation.openai")
    assert explanation.fields["response_id"].provenance == ("text", ("output.value",), ())
    assert explanation.fields["response_model"].provenance == ("text", ("output.value",), ())


async def test_usage_that_no_convention_names_is_found_and_its_event_or_text_is_named() -> None:
    usage = {"prompt_tokens": 2003, "completion_tokens": 1009, "total_tokens": 3012}
    answer = {"id": "chatcmpl-abcdef123", "model": "gpt-4o-2024-08-06", "content": SECRET, "usage": usage}
    in_text = await item({"acme.component.output": orjson.dumps(answer).decode()})
    raw = {f"raw.usage.{name}": count for name, count in usage.items()} | {"raw.model": "gpt-4o-2024-08-06"}
    event = Span.Event(name="answered", attributes=spans.key_values(raw))
    in_event = await item({"acme.step": SECRET}, events=[event])
    assert in_text.fields["usage.input_tokens"].provenance == ("text", ("acme.component.output",), ())
    assert in_text.fields["response_id"].provenance == ("text", ("acme.component.output",), ())
    assert in_event.fields["usage.input_tokens"].provenance == ("event", ("raw.usage.prompt_tokens",), ())


async def test_a_cost_is_reported_estimated_or_unknown() -> None:
    reported = await item({**CALL, "gen_ai.usage.cost": 0.25}, scope=OPENAI)
    assert reported.fields["cost"].provenance.attributes == ("gen_ai.usage.cost",)
    estimated = (await item(CALL, scope=OPENAI)).fields["cost"]
    assert (estimated.provenance.by, estimated.value["source"]) == ("price_list", "estimated")
    names = {"gen_ai.request.model": "in-house", "gen_ai.response.model": "in-house"}
    unknown = (await item({**CALL, **names}, scope=OPENAI)).fields["cost"]
    assert (unknown.value, unknown.provenance.by) == (None, "default")
    assert "no price is known" in unknown.note


async def test_a_provider_that_nobody_named_is_known_by_its_model() -> None:
    explanation = await item({k: v for k, v in CALL.items() if k != "gen_ai.provider.name"}, scope=OPENAI)
    assert explanation.fields["provider"].provenance.attributes == ("gen_ai.response.model",)
    assert "family" in explanation.fields["provider"].note


# ---- what became no record


@pytest.mark.parametrize(
    ("attributes", "rest", "because"),
    [
        (
            {"gen_ai.operation.name": "execute_tool"},
            {},
            "gen_ai.operation.name says that it is a step, not a call (tool)",
        ),
        ({"openinference.span.kind": "AGENT"}, {}, "openinference.span.kind says that it is a step, not a call"),
        ({"gen_ai.usage.input_tokens": 5}, {"name": f"my agent {SECRET}"}, "its name is that of a step, not of a call"),
        (
            {"gen_ai.request.model": "gpt-4o"},
            {},
            "AI work (gen_ai.request.model), but neither a response nor usage of a call",
        ),
    ],
)
async def test_a_step_is_suppressed_for_what_makes_it_one(
    attributes: dict[str, Any], rest: dict[str, Any], because: str
) -> None:
    explanation = await item(attributes, **rest)
    assert (explanation.outcome, explanation.reason, explanation.because) == ("suppressed", "not_a_call", because)
    assert not explanation.fields


async def test_a_span_of_another_library_is_ignored_and_not_named() -> None:
    explanation = await item({"http.method": "GET"}, name=SECRET)
    assert (explanation.outcome, explanation.reason, explanation.name, explanation.convention) == (
        "ignored",
        None,
        None,
        None,
    )


async def test_a_span_is_named_only_by_words_that_are_known() -> None:
    assert (await item(CALL, scope=OPENAI, name="chat gpt-4o")).name == "chat gpt-4o"
    assert (await item(CALL, scope=OPENAI, name=f"chat {SECRET}")).name == "chat"
    assert (await item(CALL, scope=OPENAI, name=SECRET)).name is None


async def test_a_name_that_is_a_sentence_is_not_shown() -> None:
    explanation = await item({f"{SECRET}.usage.prompt_tokens": 5, "my.usage.completion_tokens": 6}, scope="own")
    assert explanation.fields["usage.input_tokens"].provenance.attributes == (UNSHOWN,)
    assert explanation.fields["usage.output_tokens"].provenance.attributes == ("my.usage.completion_tokens",)
    assert explanation.convention == "generic"


async def test_a_rejected_span_has_the_reason_that_its_sender_gets() -> None:
    explanation = await item(CALL, scope=OPENAI, start_time_unix_nano=1, end_time_unix_nano=2)
    assert (explanation.outcome, explanation.reason, explanation.fields) == ("rejected", "invalid_time", {})


async def test_an_event_that_holds_content_only_says_so() -> None:
    (explanation,) = await items(log_payload({"event.name": "gen_ai.user.message"}, body=SECRET))
    assert (explanation.outcome, explanation.reason, explanation.name) == (
        "suppressed",
        "content_only",
        "gen_ai.user.message",
    )


# ---- what another report stands for


async def test_a_span_sent_twice_is_a_duplicate_of_the_first_ones_record() -> None:
    first, second = await items(span_payload(CALL, scope=OPENAI), span_payload(CALL, scope=OPENAI))
    assert (second.outcome, second.reason, second.of) == ("duplicate", "same_span", [first.record_id])


async def test_two_reports_of_one_response_become_one_record_whose_fields_name_their_report() -> None:
    told_twice = {**CALL, "gen_ai.usage.cache_read.input_tokens": 100}
    gateway = span_payload(told_twice, scope="litellm", span_id=bytes(range(1, 9)), trace_id=bytes(range(1, 17)))
    kept, other = await items(span_payload({**CALL, "user.id": "ann"}, scope=OPENAI), gateway)
    assert (kept.outcome, other.outcome, other.reason, other.of) == (
        "kept",
        "duplicate",
        "response_id",
        [kept.record_id],
    )
    read = kept.fields["usage.cache_read_input_tokens"]
    assert (read.value, read.provenance.attributes) == (100, ("gen_ai.usage.cache_read.input_tokens",))
    assert "by the report at resourceSpans[0].scopeSpans[0].spans[0]" in read.note
    assert kept.fields["attribution.user"].note == ""


async def test_an_agents_sum_is_suppressed_for_the_calls_below_it() -> None:
    usage = {"gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "gpt-4o"}
    above = {**usage, "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 6}
    below = {**usage, "gen_ai.usage.input_tokens": 15, "gen_ai.usage.output_tokens": 3}
    parent, one, two = await items(
        span_payload(above, scope="framework"),
        *(span_payload(below, scope=OPENAI, span_id=bytes([n] * 8), parent_span_id=spans.SPAN_ID) for n in (1, 2)),
    )
    assert (parent.outcome, parent.reason) == ("suppressed", "ancestor")
    assert parent.of == sorted([one.record_id, two.record_id])
    assert (one.outcome, two.outcome) == ("kept", "kept")


async def test_a_products_span_gives_way_to_its_log_and_the_reason_names_the_way_that_counts() -> None:
    span = {"model": "claude-sonnet-4-5", "input_tokens": 5, "output_tokens": 6, "session.id": "s"}
    log = {**span, "event.name": "api_request", "request_id": "req_1", "input_tokens": 7}
    scope = "com.anthropic.claude_code"
    of_span, of_log = await items(
        span_payload(span, scope=scope, name="claude_code.llm_request"), log_payload(log, scope=scope)
    )
    assert (of_span.outcome, of_span.reason, of_log.outcome) == ("suppressed", "other_report", "kept")
    assert "claude_code.api_request" in of_span.because


async def test_metrics_with_calls_say_that_the_calls_are_counted() -> None:
    resource = {"service.name": "app"}
    export = Export(resource=resource)
    export.point(120, "input")
    export.point(30, "output")
    metrics = (export.request.SerializeToString(), "/v1/metrics", "application/x-protobuf", "")
    call, given, output = await items(span_payload(CALL, scope=OPENAI, resource=resource), metrics)
    assert call.outcome == "kept"
    assert (given.outcome, given.reason) == ("suppressed", "calls_reported")
    assert given.because.endswith("counts input, by its type (gen_ai.token.type)")
    assert (output.outcome, output.reason, output.of) == ("duplicate", "folded", [])


async def test_metrics_alone_are_one_record_and_each_point_states_what_it_counts() -> None:
    export = Export()
    export.point(120, "input")
    export.point(30, "output")
    export.point(150, "total")
    metrics = (export.request.SerializeToString(), "/v1/metrics", "application/x-protobuf", "")
    given, output, total = await items(metrics)
    assert (given.outcome, given.name, given.input and given.input.sum) == ("kept", "gen_ai.client.token.usage", "120")
    assert (output.reason, output.of) == ("folded", [given.record_id])
    assert (total.outcome, total.reason) == ("suppressed", "overlapping_type")


async def test_an_events_fault_is_reported_with_those_that_are_kept() -> None:
    body = orjson.dumps([{"title": "a", "source": "b"}, {"title": SECRET}])
    kept, rejected = await items((body, "/v1/events", "application/json", ""))
    assert (kept.outcome, rejected.outcome, rejected.reason) == ("kept", "rejected", "source_missing")


# ---- the command


def run(*arguments: str, body: bytes) -> Result:
    return CliRunner().invoke(main, ["normalise", *arguments], input=body)


def test_the_command_prints_one_json_object_an_item_and_the_counts_with_them() -> None:
    body = span_payload(CALL, scope=OPENAI)[0]
    ran = run("--explain", "--json", body=body)
    assert ran.exit_code == 0
    (line,) = ran.stdout.splitlines()
    explanation = orjson.loads(line)
    assert explanation["fields"]["request_model"] == {
        "value": "gpt-4o", "from": "item", "attributes": ["gen_ai.request.model"], "passed_over": [], "note": None,
    }  # fmt: skip
    assert explanation["input"]["sum"] == "120"
    assert ran.stderr == "received 1, kept 1\n"


def test_the_command_prints_lines_to_read_by_default() -> None:
    ran = run("--explain", body=span_payload({"gen_ai.operation.name": "execute_tool"})[0])
    head, *rest = ran.stdout.splitlines()
    assert head == "resourceSpans[0].scopeSpans[0].spans[0]: span chat: suppressed (not_a_call)"
    assert rest[0].startswith("  because gen_ai.operation.name says that it is a step")


def test_a_compressed_json_payload_is_explained_as_any_other() -> None:
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"no"}]}]}]}'
    options = ("--content-type", "application/json", "--content-encoding", "gzip")
    ran = run("--explain", "--json", *options, body=gzip.compress(body))
    assert [orjson.loads(line)["reason"] for line in ran.stdout.splitlines()] == ["invalid_trace_id"]


def test_what_cannot_be_read_or_explained_is_an_error_that_names_the_remedy() -> None:
    assert run("--explain", body=b"\xff").exit_code == 1
    unknown = run("--explain", "--path", "/v1/other", body=b"")
    assert unknown.exit_code == 2
    assert "/v1/traces" in unknown.stderr
    alone = run("--json", body=b"")
    assert alone.exit_code == 2
    assert "--explain" in alone.stderr


def test_a_wheel_without_source_text_explains_as_well(tmp_path: Path) -> None:
    for package in ("gateway", "exporters", "spool"):
        folder = tmp_path / package
        shutil.copytree(ROOT / package, folder, ignore=shutil.ignore_patterns("__pycache__"))
        assert compileall.compile_dir(folder, quiet=1, legacy=True)
    for source in tmp_path.rglob("*.py"):
        source.unlink()
    script = "import sys, gateway; print(gateway.__file__, file=sys.stderr); from gateway.cli.main import main; main()"
    body = span_payload({**CALL, "gen_ai.system": "openai"}, scope=OPENAI)[0]
    ran = subprocess.run(
        [sys.executable, "-c", script, "normalise", "--explain", "--json"],
        input=body, capture_output=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True,
    )  # fmt: skip
    assert b"__init__.pyc" in ran.stderr
    assert orjson.loads(ran.stdout)["fields"]["provider"]["passed_over"] == ["gen_ai.system"]


# ---- records of another gateway, as spans


async def test_a_record_that_came_as_a_span_names_the_attribute_of_each_field() -> None:
    body = encode_spans([orjson.dumps(FULL)], packs=False).body
    (explanation,) = await items((body, "/v1/traces", "application/x-protobuf", ""))
    assert (explanation.outcome, explanation.convention, explanation.record_id) == (
        "kept",
        "records",
        FULL["record_id"],
    )
    found = {path: made.provenance[:2] for path, made in explanation.fields.items()}
    assert found["usage.input_tokens"] == ("item", ("gen_ai.usage.input_tokens",))
    assert found["attribution.labels.cost.center"] == ("item", ("telemetry_gateway.attribution.labels.cost.center",))
    assert found["cost"] == ("item", ("telemetry_gateway.cost.amount",))
    assert found["attribution.service_name"] == ("resource", ("service.name",))
    assert found["started_at"] == ("envelope", ())


async def test_a_span_of_a_gateways_scope_without_a_record_is_rejected() -> None:
    (explanation,) = await items(span_payload(CALL, scope="ai-telemetry-gateway"))
    assert (explanation.outcome, explanation.reason) == ("rejected", "missing_field")
    assert "states no sound record" in explanation.because


async def test_the_providers_object_and_the_total_are_named_as_the_proof() -> None:
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "thoughtsTokenCount": 7, "totalTokenCount": 127}
    sent = {
        "genkit:type": "action",
        "genkit:metadata:subtype": "model",
        "genkit:name": "googleai/gemini-2.5-flash",
        "genkit:output": orjson.dumps({"message": SECRET, "custom": {"usageMetadata": usage}}).decode(),
    }
    explanation = await item(sent, scope="genkit-tracer")
    assert explanation.output is not None
    assert (explanation.output.basis, explanation.output.sum) == ("exclusive", "20 + 7")
    assert "the provider's own usage" in explanation.output.why
    assert explanation.fields["usage.output_tokens"].provenance.attributes == ("genkit:output",)

    sent = {**CALL, "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20, "gen_ai.usage.total_tokens": 160,
            "gen_ai.usage.cache_read.input_tokens": 40}  # fmt: skip
    explanation = await item(sent, scope="own")
    assert explanation.input is not None
    assert (explanation.input.basis, explanation.input.sum) == ("exclusive", "100 + 40")
    assert "the stated total proves" in explanation.input.why


def test_the_object_that_is_printed_holds_what_the_docs_say() -> None:
    item = Explanation(0, "resourceSpans[0].scopeSpans[0].spans[0]", "span")
    assert list(as_object(item)) == [
        "position", "item", "name", "fate", "reason", "because", "of", "convention", "chosen_by", "record_id",
        "record_id_from", "input", "output", "fields",
    ]  # fmt: skip
