"""Spans that other reports repeat: products' places in their order, LiteLLM's raw
answers, details events on spans.
"""

from typing import Any

import pytest

from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.call import RANK_SHIFT, REPEAT
from gateway.rules.signal_precedence import DETAILS, ORDER, SPAN, rank_of
from gateway.rules.traces import normalise_traces
from tests.unit.rules.log_records import call_of as call_of_log
from tests.unit.rules.spans import CONTEXT, SPAN_ID, key_values, normalised, record_of, request

PARENT_ID = b"\x07" * 8
RAW_USAGE = "{'prompt_tokens': 120, 'completion_tokens': 30, 'prompt_tokens_details': {'cached_tokens': 100}}"
RAW: dict[str, Any] = {
    "llm.openai.id": "chatcmpl-1",
    "llm.openai.model": "gpt-5-mini-2026",
    "llm.openai.usage": RAW_USAGE,
    "llm.openai.choices": "CANARY-7Q-COMPLETION",
}


class TestRawAnswers:
    """LiteLLM's `raw_gen_ai_request`."""

    def test_one_with_id_and_usage_is_a_report_of_its_parents_call(self) -> None:
        out = normalised(RAW, scope="litellm", name="raw_gen_ai_request", parent_span_id=PARENT_ID)
        (call,) = out.calls
        assert call.marks & REPEAT
        assert call.record["response_id"] == "chatcmpl-1"
        assert (call.record["provider"], call.record["response_model"]) == ("openai", "gpt-5-mini-2026")
        assert call.record["usage"] == {
            "status": "reported",
            "input_tokens": 120,
            "output_tokens": 30,
            "cache_read_input_tokens": 100,
        }
        assert "CANARY" not in repr(out)

    def test_anthropics_own_input_excludes_the_cache(self) -> None:
        usage = "{'input_tokens': 57, 'cache_creation_input_tokens': 2048, 'cache_read_input_tokens': 4096, 'output_tokens': 231}"
        raw = {"llm.anthropic.id": "msg_1", "llm.anthropic.model": "claude-sonnet-4-5", "llm.anthropic.usage": usage}
        record = record_of(raw, scope="litellm", name="raw_gen_ai_request")
        assert record["usage"]["input_tokens"] == 6201
        assert record["provider"] == "anthropic"

    @pytest.mark.parametrize("missing", ["llm.openai.id", "llm.openai.usage"])
    def test_one_that_lacks_either_is_a_step(self, missing: str) -> None:
        raw = {name: value for name, value in RAW.items() if name != missing}
        assert normalised(raw, scope="litellm", name="raw_gen_ai_request").suppressed == {"not_a_call": 1}

    def test_one_whose_call_came_along_only_completes_it(self) -> None:
        message = request(
            {"gen_ai.operation.name": "chat", "gen_ai.request.model": "alias", "gen_ai.usage.input_tokens": 120},
            scope="litellm",
            name="litellm_request",
        )
        spans = message.resource_spans[0].scope_spans[0].spans
        spans.add(
            trace_id=spans[0].trace_id,
            span_id=PARENT_ID,
            parent_span_id=SPAN_ID,
            name="raw_gen_ai_request",
            start_time_unix_nano=spans[0].start_time_unix_nano,
            end_time_unix_nano=spans[0].end_time_unix_nano,
            attributes=key_values(RAW),
        )
        out = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT)
        (call,) = out.calls
        assert call.record["response_model"] == "gpt-5-mini-2026"
        assert out.suppressed == {"not_a_call": 1}
        assert len(out.links) == 1

    @pytest.mark.parametrize(
        ("own", "counts", "calls"),
        [
            ({}, {}, 2),  # as LiteLLM writes the second call inside an application's span
            ({"llm.openai.id": "chatcmpl-1"}, {}, 1),
            ({"llm.openai.usage": RAW_USAGE}, {}, 2),  # the id that LiteLLM gives is another: who else knows this one?
            ({}, {"gen_ai.response.id": None}, 1),
            ({}, {"gen_ai.usage.input_tokens": None}, 2),
        ],
        ids=["another", "same id", "same counts", "no id above", "no counts above"],
    )
    def test_one_with_another_response_is_left_to_the_ledger(
        self, own: dict[str, str], counts: dict[str, int | str | None], calls: int
    ) -> None:
        above = {"gen_ai.operation.name": "chat", "gen_ai.response.id": "chatcmpl-1", "gen_ai.usage.input_tokens": 120}
        stated = {name: value for name, value in {**above, **counts}.items() if value is not None}
        message = request(stated, scope="checkout", name="POST /checkout")
        another = {"llm.openai.id": "chatcmpl-2", "llm.openai.usage": "{'prompt_tokens': 300, 'completion_tokens': 70}"}
        litellm = message.resource_spans[0].scope_spans.add()
        litellm.scope.name = "litellm"
        spans = message.resource_spans[0].scope_spans[0].spans
        litellm.spans.add(
            trace_id=spans[0].trace_id,
            span_id=PARENT_ID,
            parent_span_id=SPAN_ID,
            name="raw_gen_ai_request",
            start_time_unix_nano=spans[0].start_time_unix_nano,
            end_time_unix_nano=spans[0].end_time_unix_nano,
            attributes=key_values({**another, **own}),
        )
        out = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT)
        assert len(out.calls) == calls
        assert all(call.marks & REPEAT and call.record["response_id"] == "chatcmpl-2" for call in out.calls[1:])

    @pytest.mark.parametrize("above_id", ["chatcmpl-1", None])
    @pytest.mark.parametrize("first", [0, 1])
    def test_of_several_below_one_span_only_the_one_that_fits_repeats_it(
        self, above_id: str | None, first: int
    ) -> None:
        """LiteLLM hangs all calls that are made inside an application's span below it, and
        writes the first one on it.
        """
        above = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 120, "gen_ai.usage.output_tokens": 30}
        message = request(above | ({"gen_ai.response.id": above_id} if above_id else {}), scope="app", name="POST /")
        told = [
            ("chatcmpl-1", RAW_USAGE, "m-1"),
            ("chatcmpl-2", "{'prompt_tokens': 300, 'completion_tokens': 70}", "m-2"),
        ]
        for number, (response_id, usage, model) in enumerate([told[first], told[1 - first]]):
            self._add_raw(
                message, {"llm.openai.id": response_id, "llm.openai.usage": usage, "llm.openai.model": model}, number
            )
        out = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT)
        assert sorted((c.record["usage"]["input_tokens"], c.record["response_model"]) for c in out.calls) == [
            (120, "m-1"),
            (300, "m-2"),
        ]
        assert (out.suppressed, len(out.links)) == ({"not_a_call": 1}, 1)

    def test_retries_below_one_span_that_report_the_same_are_one_call(self) -> None:
        message = request(
            {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 120}, scope="app", name="POST /"
        )
        for number in range(2):
            self._add_raw(message, RAW, number)
        out = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT)
        assert (len(out.calls), out.suppressed) == (1, {"not_a_call": 2})

    def test_steps_that_name_different_models_name_none(self) -> None:
        message = request(
            {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 120}, scope="litellm", name="x"
        )
        for number, model in enumerate(["m-1", "m-2", "m-1"]):
            self._add_raw(message, {"llm.openai.model": model}, number)
        (call,) = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT).calls
        assert call.record["response_model"] is None

    def test_a_span_of_another_trace_names_no_model_here(self) -> None:
        message = request(
            {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 120}, scope="litellm", name="x"
        )
        self._add_raw(message, {"llm.openai.model": "m-1"}, 0, trace_id=bytes(range(1, 17)))
        (call,) = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT).calls
        assert call.record["response_model"] is None

    @staticmethod
    def _add_raw(message: Any, attributes: dict[str, Any], number: int, **fields: Any) -> None:
        above = message.resource_spans[0].scope_spans[0].spans[0]
        litellm = message.resource_spans[0].scope_spans.add()
        litellm.scope.name = "litellm"
        made = {
            "trace_id": above.trace_id,
            "span_id": bytes([0xA0 + number]) * 8,
            "parent_span_id": SPAN_ID,
            "start_time_unix_nano": above.start_time_unix_nano,
            "end_time_unix_nano": above.end_time_unix_nano,
            **fields,
        }
        litellm.spans.add(name="raw_gen_ai_request", attributes=key_values(attributes), **made)


class TestDetailsOnSpans:
    def test_usage_of_a_details_event_is_the_spans_where_it_has_none(self) -> None:
        message = request({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
        self.add_event(
            message, {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4, "gen_ai.response.id": "r"}
        )
        (call,) = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT).calls
        assert call.record["usage"] == {"status": "reported", "input_tokens": 9, "output_tokens": 4}
        assert (call.record["response_id"], call.record["request_model"]) == ("r", "m")

    def test_a_span_with_usage_keeps_its_own(self) -> None:
        message = request({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 1})
        self.add_event(message, {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4})
        (call,) = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT).calls
        assert call.record["usage"] == {"status": "partial", "input_tokens": 1}

    def test_its_content_is_left_alone(self) -> None:
        message = request({"gen_ai.operation.name": "chat"})
        self.add_event(message, {"gen_ai.usage.input_tokens": 9, "gen_ai.input.messages": "CANARY-7Q-PROMPT"})
        out = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT)
        assert out.calls
        assert "CANARY" not in repr(out)

    @staticmethod
    def add_event(message: Any, attributes: dict[str, Any]) -> None:
        message.resource_spans[0].scope_spans[0].spans[0].events.add(name=DETAILS, attributes=key_values(attributes))


class TestOrder:
    def test_a_products_spans_and_logs_are_in_one_group_and_session(self) -> None:
        resource = {"service.name": "gemini-cli", "host.name": "h"}
        span = normalised(
            {"gen_ai.operation.name": "llm_call", "gen_ai.conversation.id": "s", "gen_ai.usage.input_tokens": 1},
            scope="gemini-cli",
            resource=resource,
        ).calls[0]
        log = call_of_log(
            {"event.name": "gemini_cli.api_response", "session.id": "s", "input_token_count": 1},
            scope="gemini-cli",
            resource=resource,
        )
        assert (span.group, span.session) == (log.group, log.session)
        assert (log.marks >> RANK_SHIFT, span.marks >> RANK_SHIFT) == (1, 3)

    def test_a_thread_of_the_system_is_no_session_of_codex(self) -> None:
        usage = {"gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 1}
        call = normalised(usage | {"thread.id": 3}, scope="codex_exec", name="handle_responses").calls[0]
        assert call.session == 0
        assert "session" not in call.record["attribution"]

    def test_spans_of_a_library_have_no_place(self) -> None:
        call = normalised({"gen_ai.operation.name": "chat"}, scope="opentelemetry.util.genai.handler").calls[0]
        assert (call.marks, call.group, call.session) == (0, 0, 0)

    def test_each_way_of_a_product_has_its_own_rank_that_fits_the_row(self) -> None:
        for product, ways in ORDER.items():
            ranks = [rank_of(product, way) for way in ways]
            assert ranks == list(range(1, len(ways) + 1))
            assert max(ranks) < 1 << 8
            assert SPAN in ways
        assert rank_of("gen_ai", SPAN) == rank_of("codex", "unknown") == 0
