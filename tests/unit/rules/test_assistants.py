"""Coding assistants of which nothing was captured: payloads composed from the names that their
sources and references document.

Cline: its telemetry service and SDK. Cursor: the wire reference of its export. Goose: the spans of
its provider calls. Copilot in VS Code: the events and attributes of its extension.
"""

from typing import Any, ClassVar

import pytest

from gateway.rules.call import RANK_SHIFT
from gateway.rules.conventions.metric_tables import metric_table, token_kind
from gateway.rules.signal_precedence import DETAILS
from tests.unit.rules.log_records import call_of, normalised
from tests.unit.rules.spans import normalised as spans_normalised
from tests.unit.rules.spans import record_of


class TestCline:
    TOKENS: ClassVar[dict[str, Any]] = {
        "distinct_id": "m-1",
        "ulid": "task-1",
        "tokensIn": 10,
        "tokensOut": 20,
        "model": "claude-sonnet-4-5",
    }
    TURN: ClassVar[dict[str, Any]] = {
        **TOKENS,
        "provider": "anthropic",
        "source": "assistant",
        "mode": "act",
        "timestamp": "2026-01-05T10:00:02.000Z",
        "cacheWriteTokens": 40,
        "cacheReadTokens": 300,
        "totalCost": 0.0125,
        "isNativeToolCall": True,
        "user_id": "u-1",
        "organization_id": "o-1",
    }

    def test_the_turn_has_provider_cache_and_cost(self) -> None:
        call = call_of(self.TURN, body="task.conversation_turn", scope="cline")
        record = call.record
        assert record["usage"] == {
            "status": "reported",
            "input_tokens": 350,
            "output_tokens": 20,
            "cache_read_input_tokens": 300,
            "cache_creation_input_tokens": 40,
        }
        assert (record["provider"], record["request_model"]) == ("anthropic", "claude-sonnet-4-5")
        assert record["cost"]["amount"] == "0.0125"
        assert record["attribution"]["user"] == "u-1"
        assert record["attribution"]["session"] == "task-1"
        assert record["attribution"]["labels"] == {"organization": "o-1"}
        assert record["flags"] == []

    def test_turn_and_tokens_are_two_ways_to_report_one_call_the_turn_first(self) -> None:
        turn = call_of(self.TURN, body="task.conversation_turn", scope="cline")
        tokens = call_of(self.TOKENS, body="task.tokens", scope="cline")
        assert (turn.marks >> RANK_SHIFT, tokens.marks >> RANK_SHIFT) == (1, 2)
        assert (turn.group, turn.session) == (tokens.group, tokens.session)

    def test_the_clis_tokens_have_the_cache_and_its_turns_no_tokens(self) -> None:
        cli = {**self.TOKENS, "cacheReadTokens": 300, "totalCost": 0.5, "agentId": "a", "isSubagent": False}
        assert call_of(cli, body="task.tokens", scope="cline").record["usage"]["input_tokens"] == 310
        turn = {"ulid": "task-1", "provider": "anthropic", "model": "m", "source": "assistant"}
        assert normalised(turn, body="task.conversation_turn", scope="cline").suppressed == {"not_a_call": 1}

    def test_an_error_is_a_failed_call_without_its_words(self) -> None:
        error = {
            "ulid": "task-1",
            "model": "claude-sonnet-4-5",
            "provider": "anthropic",
            "errorMessage": "CANARY-7Q-PROMPT was too long",
            "errorStatus": 429,
            "errorType": "rate_limit",
            "requestId": "req-1",
        }
        call = call_of(error, body="task.provider_api_error", scope="cline")
        record = call.record
        assert (record["status"], record["error_type"], record["usage"]) == ("error", "rate_limit", {"status": "none"})
        assert record["request_id"] == "req-1"
        assert "CANARY" not in repr(record)
        assert call.marks >> RANK_SHIFT == 0, "a way of its own would silence the tokens of a session that has no turns"

    @pytest.mark.parametrize("event", ["task.completed", "task.subagent_completed", "task.summarize_task"])
    def test_no_other_event_counts_what_the_turns_reported(self, event: str) -> None:
        assert normalised(self.TOKENS, body=event, scope="cline").ignored == 1

    @pytest.mark.parametrize(
        ("counter", "histogram", "kind"),
        [
            ("cline.tokens.input.total", "cline.tokens.input.per_response", "input"),
            ("cline.tokens.output.total", "cline.tokens.output.per_response", "output"),
            ("cline.cache.read.tokens.total", "cline.cache.read.tokens.per_event", "cache_read"),
            ("cline.cache.write.tokens.total", "cline.cache.write.tokens.per_event", "cache_creation"),
            ("cline.cost.total", "cline.cost.per_event", "cost"),
        ],
    )
    def test_its_counters_go_before_the_histograms_that_repeat_them(
        self, counter: str, histogram: str, kind: str
    ) -> None:
        told, repeated = metric_table("cline", counter), metric_table("cline", histogram)
        assert told is not None
        assert repeated is not None
        assert (told.kind, repeated.kind) == (kind, kind)
        assert told.rank < repeated.rank


class TestCursor:
    SCOPE = "cursor.telemetry"
    RESOURCE: ClassVar[dict[str, Any]] = {
        "service.name": "cursor",
        "cursor.team.id": 4242,
        "cursor.surface": "cli",
        "cursor.entrypoint": "cli",
        "cursor.user.id": 99,
    }
    REQUEST: ClassVar[dict[str, Any]] = {
        "cursor.event.id": "customer-telemetry:v1:ev-1",
        "cursor.source_event.id": "src-1",
        "cursor.conversation.id": "conversation-1",
        "cursor.usage_event.id": "ue-1",
        "cursor.model.name": "claude-4.5-sonnet",
        "cursor.api.request.input_tokens": 100,
        "cursor.api.request.output_tokens": 200,
        "cursor.api.request.cache_read_tokens": 50,
        "cursor.api.request.cache_creation_tokens": 10,
        "cursor.api.billable": True,
    }

    @pytest.mark.parametrize("named", [{"body": "api_request"}, {"event_name": "cursor.api.request"}])
    def test_a_request_is_a_call(self, named: dict[str, str]) -> None:
        call = call_of(self.REQUEST, scope=self.SCOPE, resource=self.RESOURCE, **named)
        record = call.record
        assert record["usage"] == {
            "status": "reported",
            "input_tokens": 100,
            "output_tokens": 200,
            "cache_read_input_tokens": 50,
            "cache_creation_input_tokens": 10,
        }
        assert (record["provider"], record["request_model"]) == ("anthropic", "claude-4.5-sonnet")
        assert record["request_id"] == "ue-1"
        who = record["attribution"]
        assert (who["session"], who["team"], who["user"]) == ("conversation-1", "4242", "99")
        assert who["labels"] == {"surface": "cli"}
        assert (record["source"]["convention"], record["flags"]) == ("cursor", ["basis_assumed"])

    def test_an_input_smaller_than_its_cache_leaves_it_out(self) -> None:
        sent = self.REQUEST | {"cursor.api.request.input_tokens": 7}
        assert call_of(sent, scope=self.SCOPE, body="api_request").record["usage"]["input_tokens"] == 67

    def test_a_log_that_is_delivered_again_is_the_same_report(self) -> None:
        ids = {
            call_of(self.REQUEST, scope=self.SCOPE, body="api_request", observed_time_unix_nano=n).record["record_id"]
            for n in (1, 2)
        }
        assert len(ids) == 1

    def test_an_error_is_a_failed_call(self) -> None:
        error = {"cursor.event.id": "ev-2", "cursor.usage_event.id": "ue-2", "cursor.model.name": "claude-4.5-sonnet"}
        record = call_of(error, scope=self.SCOPE, body="api_error").record
        assert (record["status"], record["usage"]) == ("error", {"status": "none"})

    @pytest.mark.parametrize(
        "event",
        ["api_correction_not_billed_errored", "skill_activated", "conversation_user_message", "cloud_agent_setup"],
    )
    def test_no_other_event_is_a_call(self, event: str) -> None:
        out = normalised(self.REQUEST | {"text": "CANARY-7Q-PROMPT"}, scope=self.SCOPE, body=event)
        assert (out.calls, out.ignored) == ([], 1)

    @pytest.mark.parametrize("name", ["cursor.token.usage", "token.usage"])
    def test_its_metrics_are_found_with_and_without_the_product(self, name: str) -> None:
        table = metric_table(self.SCOPE, name)
        assert table is not None
        assert table.convention == "cursor"
        assert [token_kind(kind) for kind in ("input", "output", "cache_read", "cache_creation")] == [
            "input",
            "output",
            "cache_read",
            "cache_creation",
        ]


class TestGoose:
    CALL: ClassVar[dict[str, Any]] = {
        "session.id": "20260105_1",
        "gen_ai.conversation.id": "20260105_1",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "claude-sonnet-4-5-20250929",
        "gen_ai.usage.input_tokens": 400,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 300,
    }

    def test_the_providers_stream_is_the_call(self) -> None:
        record = record_of(self.CALL, scope="goose", name="stream_response_from_provider")
        assert (record["usage"]["input_tokens"], record["usage"]["cache_read_input_tokens"]) == (400, 300)
        assert (record["source"]["convention"], record["provider"]) == ("goose", "anthropic")
        assert record["attribution"]["session"] == "20260105_1"
        assert record["stream"] is True

    @pytest.mark.parametrize("name", ["reply", "reply_stream"])
    @pytest.mark.parametrize("operation", ["chat", "invoke_agent"])
    def test_a_reply_sums_its_calls_up_and_is_none(self, name: str, operation: str) -> None:
        out = spans_normalised(self.CALL | {"gen_ai.operation.name": operation}, scope="goose", name=name)
        assert (out.calls, out.suppressed, len(out.links)) == ([], {"not_a_call": 1}, 1)

    @pytest.mark.parametrize("name", ["complete", "dispatch_tool_call", "stream_response_from_provider"])
    def test_older_spans_without_usage_are_no_calls(self, name: str) -> None:
        attributes = {"session.id": "s", "gen_ai.request.model": "m", "input": "CANARY-7Q-PROMPT"}
        assert spans_normalised(attributes, scope="goose", name=name).calls == []

    def test_sums_over_a_session_are_no_calls(self) -> None:
        completed = {"session_type": "app", "exit_type": "normal", "total_tokens": 900, "message_count": 4}
        assert normalised(completed | {"monotonic_counter.goose.session_completions": 1}, scope="goose").calls == []
        assert metric_table("goose", "goose.session_tokens") is None


class TestCopilotInVsCode:
    DETAILS: ClassVar[dict[str, Any]] = {
        "event.name": DETAILS,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.response.model": "gpt-5-mini-2025-08-07",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
    }

    def test_details_are_a_call_that_its_span_goes_before(self) -> None:
        call = call_of(self.DETAILS, body="GenAI inference: gpt-5-mini", scope="copilot-chat")
        assert (call.record["response_id"], call.record["usage"]["input_tokens"]) == ("chatcmpl-1", 100)
        assert call.marks >> RANK_SHIFT == 2

    def test_a_chat_span_has_cache_reasoning_and_first_token(self) -> None:
        span = {name: value for name, value in self.DETAILS.items() if name != "event.name"}
        more = {
            "gen_ai.provider.name": "github",
            "gen_ai.usage.cache_read.input_tokens": 64,
            "gen_ai.usage.reasoning_tokens": 8,
            "copilot_chat.time_to_first_token": 420,
            "copilot_chat.server_request_id": "srv-1",
            "copilot_chat.session_id": "session-1",
            "copilot_chat.user_request": "CANARY-7Q-PROMPT",
        }
        record = record_of(span | more, scope="copilot-chat", name="chat gpt-5-mini")
        assert record["usage"]["cache_read_input_tokens"] == 64
        assert record["usage"]["reasoning_output_tokens"] == 8
        assert (record["time_to_first_token_ms"], record["request_id"]) == (420, "srv-1")
        assert record["attribution"]["session"] == "session-1"
        assert "CANARY" not in repr(record)

    @pytest.mark.parametrize(
        "event", ["copilot_chat.agent.turn", "copilot_chat.summarization", "github.copilot.agent.turn"]
    )
    @pytest.mark.parametrize("scope", ["copilot-chat", ""])
    def test_sums_over_a_turn_are_no_calls(self, event: str, scope: str) -> None:
        out = normalised(self.DETAILS | {"event.name": event}, scope=scope)
        assert (out.calls, out.ignored) == ([], 1)
