"""What input and output hold: proofs before tables, a contradiction flagged and never repaired."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.rules.extract import Extracted
from gateway.rules.usage import Basis, cached_tokens, partition, read_wholes
from tests.unit.rules.spans import record_of

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "some-model", "gen_ai.provider.name": "openai"}
INPUT, OUTPUT, READ, WRITTEN, THOUGHT = 2003, 1009, 601, 401, 103
WHOLES = {"gen_ai.usage.input_tokens": INPUT, "gen_ai.usage.output_tokens": OUTPUT}
CACHE = {"gen_ai.usage.cache_read.input_tokens": READ, "gen_ai.usage.cache_creation.input_tokens": WRITTEN}
REASONING = {"gen_ai.usage.reasoning.output_tokens": THOUGHT}
INCLUSIVE_SCOPE = "opentelemetry.instrumentation.openai_v2"
EXCLUSIVE_SCOPE = "@traceloop/instrumentation-anthropic"
"""Up to its version 0.27."""


def wholes(sent: dict[str, Any], scope: str = "own") -> tuple[int | None, int | None, list[str]]:
    record = record_of(CHAT | WHOLES | sent, scope=scope, version="0.27.0")
    return record["usage"].get("input_tokens"), record["usage"].get("output_tokens"), record["flags"]


def total(count: int) -> dict[str, int]:
    return {"gen_ai.usage.total_tokens": count}


@pytest.mark.parametrize("scope", ["own", INCLUSIVE_SCOPE, EXCLUSIVE_SCOPE])
def test_a_total_of_wholes_and_cache_proves_that_the_input_leaves_the_cache_out(scope: str) -> None:
    sent = CACHE | total(INPUT + READ + WRITTEN + OUTPUT)
    assert wholes(sent, scope) == (INPUT + READ + WRITTEN, OUTPUT, [])


@pytest.mark.parametrize("scope", ["own", INCLUSIVE_SCOPE])
def test_a_total_of_wholes_and_reasoning_proves_that_the_output_leaves_the_reasoning_out(scope: str) -> None:
    assert wholes(REASONING | total(INPUT + OUTPUT + THOUGHT), scope) == (INPUT, OUTPUT + THOUGHT, [])


def test_a_total_may_prove_both() -> None:
    sent = CACHE | REASONING | total(INPUT + READ + WRITTEN + OUTPUT + THOUGHT)
    assert wholes(sent, INCLUSIVE_SCOPE) == (INPUT + READ + WRITTEN, OUTPUT + THOUGHT, [])


@pytest.mark.parametrize(("scope", "given"), [(INCLUSIVE_SCOPE, INPUT), (EXCLUSIVE_SCOPE, INPUT + READ + WRITTEN)])
def test_a_total_that_is_the_sum_of_the_wholes_leaves_it_to_the_table(scope: str, given: int) -> None:
    assert wholes(CACHE | total(INPUT + OUTPUT), scope) == (given, OUTPUT, [])


def test_cache_and_reasoning_of_one_size_leave_it_to_the_table() -> None:
    sent = {"gen_ai.usage.cache_read.input_tokens": 50, "gen_ai.usage.reasoning.output_tokens": 50}
    assert wholes(sent | total(INPUT + OUTPUT + 50), INCLUSIVE_SCOPE) == (INPUT, OUTPUT, [])


@pytest.mark.parametrize("stated", [INPUT + OUTPUT - 1, INPUT + OUTPUT + 7])
def test_a_total_that_no_reading_adds_up_to_is_flagged_and_nothing_changes(stated: int) -> None:
    assert wholes(CACHE | total(stated), INCLUSIVE_SCOPE) == (INPUT, OUTPUT, ["inconsistent_usage"])


def test_a_total_of_zero_states_nothing() -> None:
    assert wholes(CACHE | total(0), INCLUSIVE_SCOPE) == (INPUT, OUTPUT, [])


@pytest.mark.parametrize("scope", ["own", INCLUSIVE_SCOPE, EXCLUSIVE_SCOPE])
def test_parts_greater_than_their_whole_prove_that_it_leaves_them_out(scope: str) -> None:
    small = {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 5}
    assert wholes(CACHE | REASONING | small, scope) == (3 + READ + WRITTEN, 5 + THOUGHT, [])


ANTHROPIC = {
    "input_tokens": INPUT,
    "output_tokens": OUTPUT,
    "cache_read_input_tokens": READ,
    "cache_creation_input_tokens": WRITTEN,
}
OPENAI = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "prompt_tokens_details": {"cached_tokens": READ}}


def raw(usage: dict[str, Any]) -> dict[str, str]:
    return {"gen_ai.usage.raw": orjson.dumps(usage).decode()}


@pytest.mark.parametrize("scope", ["own", INCLUSIVE_SCOPE, EXCLUSIVE_SCOPE])
@pytest.mark.parametrize("sent", [INPUT, INPUT + READ + WRITTEN])
def test_the_providers_object_proves_what_the_input_holds_against_any_table(scope: str, sent: int) -> None:
    found = wholes({"gen_ai.usage.input_tokens": sent} | raw(ANTHROPIC), scope)
    assert found == (INPUT + READ + WRITTEN, OUTPUT, [])


def test_a_providers_object_with_other_wholes_is_flagged_and_what_was_sent_stays() -> None:
    found = wholes(raw({**ANTHROPIC, "input_tokens": INPUT + 1, "output_tokens": OUTPUT + 1}), INCLUSIVE_SCOPE)
    assert found == (INPUT, OUTPUT, ["inconsistent_usage"])


def test_two_proofs_against_each_other_are_flagged() -> None:
    held = {"gen_ai.usage.input_tokens": INPUT + READ + WRITTEN}
    sent = held | raw(ANTHROPIC) | CACHE | total(INPUT + 2 * (READ + WRITTEN) + OUTPUT)
    assert wholes(sent, INCLUSIVE_SCOPE) == (INPUT + READ + WRITTEN, OUTPUT, ["inconsistent_usage"])


def test_an_object_of_openai_holds_its_cache() -> None:
    record = record_of(CHAT | raw(OPENAI), scope=EXCLUSIVE_SCOPE, version="0.27.0")
    assert record["usage"] == {
        "status": "reported", "input_tokens": INPUT, "output_tokens": OUTPUT, "cache_read_input_tokens": READ,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "provider", "given", "output"),
    [
        ("openlit.instrumentation.anthropic", "anthropic", INPUT + READ + WRITTEN, OUTPUT),
        ("openlit.instrumentation.bedrock", "aws.bedrock", INPUT + READ + WRITTEN, OUTPUT),
        ("openlit.instrumentation.openai", "openai", INPUT, OUTPUT),
        ("openlit.instrumentation.google_ai_studio", "gcp.gemini", INPUT, OUTPUT + THOUGHT),
        ("@openlit/instrumentation-anthropic", "anthropic", INPUT + READ + WRITTEN, OUTPUT),
        ("@openlit/instrumentation-bedrock", "aws.bedrock", INPUT + READ + WRITTEN, OUTPUT),
        ("@openlit/instrumentation-claude-agent-sdk", "anthropic", INPUT, OUTPUT),
        ("@openlit/instrumentation-openai", "openai", INPUT, OUTPUT),
        ("org.springframework.boot", "anthropic", INPUT + READ + WRITTEN, OUTPUT),
        ("org.springframework.boot", "openai", INPUT, OUTPUT),
        ("opentelemetry.instrumentation.bedrock", "aws.bedrock", INPUT + READ + WRITTEN, OUTPUT),
        ("opentelemetry.instrumentation.botocore.bedrock-runtime", "aws.bedrock", INPUT + READ + WRITTEN, OUTPUT),
        ("opentelemetry.instrumentation.anthropic", "anthropic", INPUT, OUTPUT),
        ("opentelemetry.instrumentation.google_generativeai", "gcp.gemini", INPUT, OUTPUT + THOUGHT),
        ("opentelemetry.instrumentation.google_genai", "gcp.gemini", INPUT, OUTPUT),
    ],
)
def test_without_a_proof_the_table_by_library_and_provider_decides(
    scope: str, provider: str, given: int, output: int
) -> None:
    record = record_of(
        CHAT | WHOLES | CACHE | REASONING | {"gen_ai.provider.name": provider}, scope=scope, version="0.62.4"
    )
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (given, output)


def test_thoughts_that_only_the_total_states_are_the_rest_of_it() -> None:
    """OpenLLMetry gives Google's candidates as the output, and the thoughts nowhere."""
    sent = CHAT | WHOLES | {"gen_ai.provider.name": "gcp.gen_ai"} | total(INPUT + OUTPUT + THOUGHT)
    record = record_of(sent, scope="opentelemetry.instrumentation.google_generativeai")
    assert record["usage"] == {
        "status": "reported", "input_tokens": INPUT, "output_tokens": OUTPUT + THOUGHT,
        "reasoning_output_tokens": THOUGHT,
    }  # fmt: skip


COUNT = st.integers(0, 5000)


@given(
    st.fixed_dictionaries(
        {"input": COUNT, "output": COUNT},
        optional={
            "cache_read": COUNT, "cache_creation": COUNT, "reasoning": COUNT, "total": st.integers(0, 20_000),
            "native_input": COUNT, "whole_input": COUNT, "native_output": COUNT, "whole_output": COUNT,
        },
    ),
    st.sampled_from(Basis),
    st.sampled_from(Basis),
)  # fmt: skip
def test_a_whole_is_one_that_was_stated_or_that_and_its_parts(
    counts: dict[str, int], basis: Basis, output_basis: Basis
) -> None:
    for whole in ("input", "output"):
        if "native_" + whole not in counts or "whole_" + whole not in counts:  # an object states both or none
            counts.pop("native_" + whole, None)
            counts.pop("whole_" + whole, None)
    cached, reasoning = cached_tokens(counts), counts.get("reasoning", 0)
    found = read_wholes(counts, cached, basis, output_basis)
    given_input, given_output = counts["input"], counts["output"]
    assert found.input in {given_input, given_input + cached, counts.get("whole_input")}
    rest = counts.get("total", 0) - given_input - given_output
    outputs = {given_output, given_output + reasoning, counts.get("whole_output")}
    assert found.output in outputs | {x + rest for x in outputs if x is not None} | {
        x + rest - cached for x in outputs if x is not None
    }
    picked = Extracted()
    picked.counts = dict(counts)
    usage, consistent = partition(picked, basis, output_basis, failed=False, began=True, output_expected=True)
    if not any(count for name, count in counts.items() if name != "total"):
        assert usage["status"] == "missing"
        return
    assert (usage["input_tokens"], usage["output_tokens"]) == (found.input, found.output)
    fits = cached <= usage["input_tokens"] and usage.get("reasoning_output_tokens", 0) <= usage["output_tokens"]
    assert consistent == (found.is_sound and fits)


@given(
    st.integers(1, 5000), st.integers(1, 5000), st.integers(0, 5000), st.integers(0, 5000), st.booleans(), st.booleans()
)
def test_a_true_call_under_a_true_table_is_read_back_whatever_travels_along(
    uncached: int,
    written: int,
    cached: int,
    thoughts: int,
    excludes: bool,  # noqa: FBT001
    states_total: bool,  # noqa: FBT001
) -> None:
    """Both wholes with their parts apart, or both without; the total is the sender's own sum."""
    whole, output = uncached + cached, written + thoughts
    sent = (uncached, written) if excludes else (whole, output)
    counts = {"input": sent[0], "output": sent[1], "cache_read": cached, "reasoning": thoughts}
    if states_total:
        counts["total"] = sum(sent)
    basis = Basis.EXCLUSIVE if excludes else Basis.INCLUSIVE
    found = read_wholes(counts, cached, basis, basis)
    assert (found.input, found.output, found.is_sound) == (whole, output, True)


@pytest.mark.parametrize(
    ("stream", "more", "given"),
    [
        (False, {}, INPUT + READ + WRITTEN),
        (True, {}, INPUT),
        (False, total(INPUT + OUTPUT), INPUT + READ + WRITTEN),
        (True, total(INPUT + READ + WRITTEN + OUTPUT), INPUT + READ + WRITTEN),
        (False, raw({**ANTHROPIC, "input_tokens": INPUT - READ - WRITTEN}), INPUT),
        (True, raw(ANTHROPIC), INPUT + READ + WRITTEN),
    ],
)
def test_langchain_through_openlit_leaves_the_cache_out_unless_it_streams(
    *, stream: bool, more: dict[str, Any], given: int
) -> None:
    sent = CACHE | {"gen_ai.provider.name": "anthropic", "gen_ai.request.is_stream": stream} | more
    assert wholes(sent, "openlit.instrumentation.langchain") == (given, OUTPUT, [])
