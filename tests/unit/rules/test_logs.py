"""Log records: which events are calls, what their tables read, their time, their
identity, and where they stand.
"""

from typing import Any, ClassVar

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from gateway.common.operations import rfc3339
from gateway.read.otlp_protobuf import decode_logs
from gateway.rules.call import LOG, RANK_SHIFT, Call
from gateway.rules.context import Context, UserPolicy
from gateway.rules.logs import normalise_logs
from tests.unit.rules.log_records import add_record, call_of, normalised, request
from tests.unit.rules.spans import CONTEXT, END_NS, RECEIVED_MS, SPAN_ID, TRACE_ID

CLAUDE = "com.anthropic.claude_code.events"
API_REQUEST: dict[str, Any] = {
    "event.name": "api_request",
    "session.id": "s-1",
    "model": "claude-sonnet-4-5",
    "input_tokens": 10,
    "output_tokens": 20,
    "cache_read_tokens": 300,
    "cache_creation_tokens": 40,
}
DETAILS = "gen_ai.client.inference.operation.details"
ANSWER = {"gen_ai.response.model": "m-1", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 7}
TOKENS = {"input_token_count": 100, "output_token_count": 30, "thoughts_token_count": 20, "model": "m"}


def calls(message: ExportLogsServiceRequest) -> list[Call]:
    return normalise_logs(decode_logs(message.SerializeToString()), CONTEXT).calls


class TestWhichEventsAreCalls:
    @pytest.mark.parametrize(
        "named",
        [
            {"attributes": {"event.name": DETAILS}},
            {"attributes": {"event_name": DETAILS}},
            {"attributes": {}, "event_name": DETAILS},
            {"attributes": {"event.name": DETAILS}, "event_name": "event src/telemetry.rs:703"},
            {"attributes": {}, "body": DETAILS},
        ],
    )
    def test_an_events_name_is_found_wherever_it_is(self, named: dict[str, Any]) -> None:
        attributes = named.pop("attributes")
        assert call_of({**attributes, **ANSWER}, **named).record["usage"]["output_tokens"] == 7

    def test_claude_codes_short_names_mean_its_events_only_in_its_scope(self) -> None:
        assert len(normalised(API_REQUEST, scope=CLAUDE).calls) == 1
        assert normalised(API_REQUEST | {"event.name": "tool_result"}, scope=CLAUDE).ignored == 1
        out = normalised(API_REQUEST, scope="shop")
        assert out.unknown_conventions == {"shop": 1}, "elsewhere it is an unknown log with usage"

    def test_claude_codes_body_names_the_event_where_the_scope_was_lost(self) -> None:
        attributes = {key: value for key, value in API_REQUEST.items() if key != "event.name"}
        assert call_of(attributes, body="claude_code.api_request").record["usage"]["input_tokens"] == 350

    @pytest.mark.parametrize(
        ("attributes", "outcome"),
        [
            ({"gen_ai.input.messages": "CANARY", "gen_ai.provider.name": "openai"}, "content_only"),
            ({"gen_ai.request.model": "m-1", "gen_ai.provider.name": "openai"}, "content_only"),
            ({"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 5}, "not_a_call"),
            ({"gen_ai.operation.name": "execute_tool", "error.type": "x"}, "not_a_call"),
        ],
    )
    def test_details_without_an_answer_are_no_call(self, attributes: dict[str, Any], outcome: str) -> None:
        out = normalised(attributes, event_name=DETAILS)
        assert (out.calls, dict(out.suppressed)) == ([], {outcome: 1})

    @pytest.mark.parametrize(
        "attributes",
        [
            {"gen_ai.usage.input_tokens": 5},
            {"gen_ai.response.id": "r-1"},
            {"gen_ai.response.model": "m-1"},
            {"gen_ai.request.model": "m-1", "error.type": "429"},
        ],
    )
    def test_details_with_an_answer_or_a_failure_are_a_call(self, attributes: dict[str, Any]) -> None:
        assert len(normalised(attributes, event_name=DETAILS).calls) == 1

    @pytest.mark.parametrize(
        "event",
        [
            "gen_ai.system.message",
            "gen_ai.user.message",
            "gen_ai.assistant.message",
            "gen_ai.tool.message",
            "gen_ai.choice",
            "gen_ai.content.prompt",
            "gen_ai.content.completion",
            "gen_ai.client.operation.exception",
        ],
    )
    def test_events_of_content_are_suppressed_whatever_they_carry(self, event: str) -> None:
        out = normalised({"event.name": event, **ANSWER}, body="CANARY-7Q-PROMPT")
        assert (out.calls, dict(out.suppressed)) == ([], {"content_only": 1})
        assert "CANARY" not in repr(out)

    @pytest.mark.parametrize(
        ("event", "scope"),
        [
            ("gemini_cli.conversation_finished", "gemini-cli"),
            ("qwen-code.chat_compression", "qwen-code"),
            ("codex.turn_ttft", "codex_otel.log_only"),
            ("copilot_chat.agent.turn", "copilot-chat"),
            ("claude_code.subagent_done", ""),
            ("something.new", "gemini-cli"),
        ],
    )
    def test_other_events_of_a_known_product_never_count_what_its_calls_reported(self, event: str, scope: str) -> None:
        out = normalised({"event.name": event, **ANSWER, **TOKENS}, scope=scope)
        assert (out.calls, out.ignored) == ([], 1)

    def test_codex_reports_a_call_by_the_completed_event_that_has_tokens(self) -> None:
        event = {"event.name": "codex.sse_event", "event.kind": "response.completed", "model": "gpt-5-codex"}
        tokens = {"input_token_count": "2100", "output_token_count": "410", "cached_token_count": "1536"}
        scope = {"scope": "codex_otel.log_only"}
        assert normalised(event, **scope).suppressed == {"not_a_call": 1}
        assert normalised(event | tokens | {"event.kind": "response.created"}, **scope).suppressed == {"not_a_call": 1}
        usage = call_of(event | tokens, **scope).record["usage"]
        assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (2100, 1536, 410)

    def test_session_totals_are_no_call(self) -> None:
        totals = {"monotonic_counter.goose.session_tokens": 900, "input_tokens": 800, "output_tokens": 100}
        assert normalised(totals, scope="goose").suppressed == {"not_a_call": 1}

    def test_a_log_without_usage_is_ignored(self) -> None:
        assert normalised({"http.method": "GET"}, body="GET /").ignored == 1
        assert normalised({"event.name": "user.login"}).ignored == 1

    def test_an_unknown_log_with_usage_is_read_flagged_and_counted(self) -> None:
        out = normalised({"llm.usage.prompt_tokens": 9, "llm.usage.completion_tokens": 3, "model": "x"}, scope="my.app")
        (call,) = out.calls
        assert call.record["usage"] == {"status": "reported", "input_tokens": 9, "output_tokens": 3}
        assert "unknown_convention" in call.record["flags"]
        assert out.unknown_conventions == {"my.app": 1}


class TestTables:
    def test_claude_code_excludes_the_cache_and_cline_too(self) -> None:
        usage = call_of(API_REQUEST, scope=CLAUDE).record["usage"]
        assert usage["input_tokens"] == 350
        cline = {
            "tokensIn": 10,
            "tokensOut": 20,
            "cacheReadTokens": 300,
            "cacheWriteTokens": 40,
            "ulid": "t",
            "model": "m",
        }
        record = call_of(cline, body="task.tokens", scope="cline").record
        assert record["usage"]["input_tokens"] == 350
        assert record["attribution"]["session"] == "t"

    def test_numbers_may_be_texts(self) -> None:
        texts = {key: str(value) for key, value in API_REQUEST.items()}
        told = call_of(texts | {"cost_usd": "0.0125448"}, scope=CLAUDE).record
        assert told["usage"] == call_of(API_REQUEST, scope=CLAUDE).record["usage"]
        assert told.get("cost") == {
            "amount": "0.0125448",
            "currency": "USD",
            "source": "reported",
            "price_version": None,
        }

    def test_only_a_speed_that_has_a_price_of_its_own_is_a_tier(self) -> None:
        assert "service_tier" not in call_of(API_REQUEST | {"speed": "normal"}, scope=CLAUDE).record
        assert call_of(API_REQUEST | {"speed": "fast"}, scope=CLAUDE).record["service_tier"] == "fast"

    @pytest.mark.parametrize(
        ("event", "more", "output"),
        [
            ("gemini_cli.api_response", {}, 50),
            ("gemini_cli.api_response", {"total_token_count": 150}, 50),
            ("gemini_cli.api_response", {"total_token_count": 130}, 30),
            ("qwen-code.api_response", {}, 30),
            ("qwen-code.api_response", {"total_token_count": 130}, 30),
            ("qwen-code.api_response", {"total_token_count": 150}, 50),
            ("qwen-code.api_response", {"auth_type": "vertex-ai"}, 50),
        ],
    )
    def test_the_total_proves_whether_the_output_holds_thoughts(
        self, event: str, more: dict[str, Any], output: int
    ) -> None:
        usage = call_of({"event.name": event, **TOKENS, **more}).record["usage"]
        assert usage["output_tokens"] == output
        assert usage["reasoning_output_tokens"] == 20

    def test_tool_prompts_count_as_input_where_the_total_says_that_it_does_not_hold_them(self) -> None:
        event = {"event.name": "gemini_cli.api_response", **TOKENS, "tool_token_count": 8}
        assert call_of(event | {"total_token_count": 158}).record["usage"]["input_tokens"] == 108
        assert call_of(event | {"total_token_count": 150}).record["usage"]["input_tokens"] == 100

    def test_an_answers_model_is_the_one_that_answered_and_an_errors_the_one_that_was_asked(self) -> None:
        answer = call_of({"event.name": "qwen-code.api_response", **TOKENS}).record
        error = call_of({"event.name": "qwen-code.api_error", "model": "m", "status_code": 429}).record
        assert (answer["request_model"], answer["response_model"]) == (None, "m")
        assert (error["request_model"], error["response_model"]) == ("m", None)
        assert (error["status"], error["error_type"], error["usage"]) == ("error", "429", {"status": "none"})

    def test_the_request_event_in_the_same_span_names_the_model_that_was_asked(self) -> None:
        message = request({"event.name": "qwen-code.api_request", "model": "alias"}, trace_id=TRACE_ID, span_id=SPAN_ID)
        add_record(message, {"event.name": "qwen-code.api_response", **TOKENS}, trace_id=TRACE_ID, span_id=SPAN_ID)
        add_record(message, {"event.name": "qwen-code.api_response", **TOKENS}, trace_id=TRACE_ID, span_id=b"\x09" * 8)
        assert [call.record["request_model"] for call in calls(message)] == ["alias", None]

    def test_an_error_text_is_not_kept(self) -> None:
        error = {"event.name": "api_error", "model": "m", "error": "429 CANARY-7Q-PROMPT", "status_code": "429"}
        record = call_of(error, scope=CLAUDE).record
        assert record["error_type"] == "429"
        assert "CANARY" not in repr(record)
        bare = call_of({"event.name": "api_error", "model": "m", "error": "boom"}, scope=CLAUDE).record
        assert bare["error_type"] == "error"

    def test_who_it_was_comes_from_the_record(self) -> None:
        who = {"user.id": "hash", "user.email": "u01@example.com", "organization.id": "org-1", "query_source": "main"}
        attribution = call_of(API_REQUEST | who, scope=CLAUDE, resource={"service.name": "claude-code"}).record[
            "attribution"
        ]
        assert attribution["user"] == "u01@example.com"
        assert attribution["session"] == "s-1"
        assert attribution["labels"]["organization"] == "org-1"
        dropping = Context(RECEIVED_MS, rfc3339(RECEIVED_MS), users=UserPolicy("drop"))
        assert "u01@example.com" not in repr(call_of(API_REQUEST | who, scope=CLAUDE, context=dropping).record)

    def test_details_are_read_by_the_table_of_their_scope(self) -> None:
        thoughts = {**ANSWER, "gen_ai.usage.reasoning.output_tokens": 2, "event.name": DETAILS}
        assert call_of(thoughts, scope="gemini-cli").record["usage"]["output_tokens"] == 9
        assert call_of(thoughts, scope="opentelemetry.util.genai.handler").record["usage"]["output_tokens"] == 7
        assert call_of(thoughts, scope="gemini-cli").record["source"]["convention"] == "gemini_cli"


class TestTime:
    def test_a_logs_time_is_the_end_of_its_call(self) -> None:
        call = call_of(API_REQUEST | {"duration_ms": 1842}, scope=CLAUDE)
        assert call.end_ms == END_NS // 1_000_000
        assert call.start_ms == call.end_ms - 1842
        assert call.record["duration_ms"] == 1842
        assert call.record["started_at"] == rfc3339(call.start_ms)

    @pytest.mark.parametrize("duration", [-1, 1e12, "soon"])
    def test_a_duration_that_is_none_is_left_out(self, duration: object) -> None:
        call = call_of(API_REQUEST | {"duration_ms": duration}, scope=CLAUDE)
        assert (call.record["duration_ms"], call.start_ms) == (None, call.end_ms)

    def test_without_its_own_time_the_sdks_counts_then_the_payloads(self) -> None:
        observed = call_of(API_REQUEST, scope=CLAUDE, time_unix_nano=0, observed_time_unix_nano=END_NS + 10**9)
        assert observed.end_ms == END_NS // 1_000_000 + 1000
        told = API_REQUEST | {"event.timestamp": "2026-01-05T10:00:02.500Z"}
        assert call_of(told, scope=CLAUDE, time_unix_nano=0).record["started_at"] == "2026-01-05T10:00:02.500Z"

    @pytest.mark.parametrize("sent", ["", "yesterday", "2026-01-05T10:00:02", "9" * 400, "0001-01-01T00:00:00Z"])
    def test_a_call_without_any_time_is_rejected_by_its_position(self, sent: str) -> None:
        out = normalised(API_REQUEST | {"event.timestamp": sent}, scope=CLAUDE, time_unix_nano=0)
        assert [r[:2] for r in out.rejected] == [("invalid_time", "resourceLogs[0].scopeLogs[0].logRecords[0]")]


class TestIdentity:
    def test_the_same_log_has_the_same_id_and_another_one_another(self) -> None:
        first = call_of(API_REQUEST, scope=CLAUDE)
        again = call_of(
            dict(reversed(API_REQUEST.items())), scope=CLAUDE, context=CONTEXT._replace(received_at_ms=RECEIVED_MS + 9)
        )
        assert first.record["record_id"] == again.record["record_id"]
        others = [
            call_of(API_REQUEST, scope=CLAUDE, time_unix_nano=END_NS + 1),
            call_of(API_REQUEST | {"output_tokens": 21}, scope=CLAUDE),
            call_of(API_REQUEST | {"session.id": "s-2"}, scope=CLAUDE),
            call_of(API_REQUEST | {"model": "other"}, scope=CLAUDE),
            call_of(API_REQUEST | {"event.sequence": 9}, scope=CLAUDE),
            call_of(API_REQUEST, scope=CLAUDE, resource={"service.name": "elsewhere"}),
            call_of(API_REQUEST, scope=CLAUDE, trace_id=TRACE_ID, span_id=SPAN_ID),
        ]
        ids = {first.record["record_id"], *(call.record["record_id"] for call in others)}
        assert len(ids) == 1 + len(others)

    def test_a_request_id_is_the_events_own_but_for_other_numbers(self) -> None:
        named = API_REQUEST | {"request_id": "req-1"}
        first = call_of(named, scope=CLAUDE).record["record_id"]
        assert call_of(named, scope=CLAUDE, time_unix_nano=END_NS + 5).record["record_id"] == first
        assert call_of(named | {"output_tokens": 21}, scope=CLAUDE).record["record_id"] != first
        assert call_of(named | {"request_id": "req-2"}, scope=CLAUDE).record["record_id"] != first


class TestEqualLogsOfOneMoment:
    """Codex gives its events no id: what states two equal ones apart
    is their time, to the nanosecond.
    """

    EVENT: ClassVar[dict[str, Any]] = {
        "event.name": "codex.sse_event",
        "event.kind": "response.completed",
        "event.timestamp": "2026-01-05T10:00:02.090Z",
        "conversation.id": "c-1",
        "model": "gpt-5-codex",
        "input_token_count": "2100",
        "output_token_count": "410",
    }

    def ids(self, *records: tuple[dict[str, Any], int]) -> list[str]:
        message = ExportLogsServiceRequest()
        for more, observed_ns in records:
            add_record(message, self.EVENT | more, scope="codex", time_unix_nano=0, observed_time_unix_nano=observed_ns)
        body = message.SerializeToString()
        first, again = (normalise_logs(decode_logs(body), CONTEXT).calls for _ in range(2))
        assert [call.event_id for call in first] == [call.event_id for call in again], "a resend is the same reports"
        return [call.record["record_id"] for call in first]

    def test_two_within_a_millisecond_are_two_calls(self) -> None:
        assert len(set(self.ids(({}, END_NS + 1_000), ({}, END_NS + 1_001)))) == 2

    def test_their_own_timestamp_distinguishes_them_where_the_sdks_is_lost(self) -> None:
        stamps = [{"event.timestamp": f"2026-01-05T10:00:02.0901{n}0Z"} for n in (1, 2)]
        assert len(set(self.ids(*((stamp, 0) for stamp in stamps)))) == 2

    def test_two_of_one_nanosecond_are_one_report_that_came_twice(self) -> None:
        assert len(set(self.ids(({}, END_NS), ({}, END_NS)))) == 1
        assert len(set(self.ids(({}, 0), ({}, 0)))) == 1

    @pytest.mark.parametrize("more", [{"ttft_ms": 41}, {"event.sequence": 7}])
    def test_what_else_they_say_distinguishes_them(self, more: dict[str, Any]) -> None:
        assert len(set(self.ids(({}, END_NS), (more, END_NS)))) == 2


class TestPlace:
    def test_the_span_around_a_log_is_its_parent_and_its_own_only_for_details(self) -> None:
        ids = {"trace_id": TRACE_ID, "span_id": SPAN_ID}
        details = call_of({"event.name": DETAILS, **ANSWER}, **ids)
        other = call_of(API_REQUEST, scope=CLAUDE, **ids)
        for call in (details, other):
            assert (call.trace_id, call.span_id, call.parent_span_id) == (TRACE_ID, b"", SPAN_ID)
            assert call.marks & LOG
        assert details.record.get("trace") == {
            "trace_id": TRACE_ID.hex(),
            "span_id": SPAN_ID.hex(),
            "parent_span_id": None,
        }
        assert other.record.get("trace") == {
            "trace_id": TRACE_ID.hex(),
            "span_id": None,
            "parent_span_id": SPAN_ID.hex(),
        }

    @pytest.mark.parametrize(
        "ids", [{"trace_id": b"\x01"}, {"trace_id": bytes(16), "span_id": SPAN_ID}, {"span_id": SPAN_ID}]
    )
    def test_ids_that_are_none_are_left_out_and_the_call_is_kept(self, ids: dict[str, bytes]) -> None:
        call = call_of(API_REQUEST, scope=CLAUDE, **ids)
        assert (call.trace_id, call.parent_span_id) == (b"", b"")
        assert "trace" not in call.record

    def test_reports_of_a_product_are_in_its_order_by_session(self) -> None:
        answer = {"event.name": "gemini_cli.api_response", "session.id": "s", **TOKENS}
        details = {"event.name": DETAILS, "session.id": "s", **ANSWER}
        first, second = call_of(answer, scope="gemini-cli"), call_of(details, scope="gemini-cli")
        assert (first.marks >> RANK_SHIFT, second.marks >> RANK_SHIFT) == (1, 2)
        assert (first.group, first.session) == (second.group, second.session)
        assert call_of(answer | {"session.id": "t"}).session != first.session
        here, there = (call_of(answer, resource={"host.name": name}) for name in ("here", "there"))
        assert here.group == there.group, "not every way states the host: it is compared where both do"
        assert here.place != there.place
        assert call_of({**ANSWER, "event.name": DETAILS}).group == 0, "a library has no order"

    def test_ways_of_one_scope_may_be_of_one_call_and_reports_of_one_way_may_not(self) -> None:
        answer, error, details = (
            call_of(attributes | {"model": "m", "gen_ai.response.model": "m"}, scope="gemini-cli").scope
            for attributes in (
                {"event.name": "gemini_cli.api_response", "input_token_count": 1, "output_token_count": 1},
                {"event.name": "gemini_cli.api_error"},
                {"event.name": DETAILS},
            )
        )
        assert answer == error != details

    def test_an_error_is_reported_in_the_same_way_as_an_answer(self) -> None:
        error = call_of({"event.name": "api_error", "model": "m"}, scope=CLAUDE)
        assert error.marks >> RANK_SHIFT == call_of(API_REQUEST, scope=CLAUDE).marks >> RANK_SHIFT == 1
