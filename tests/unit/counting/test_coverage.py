"""Sources of AI spans without calls: who is named, who is not, and when no more."""

from gateway.counting.coverage import (
    COVERED_MS,
    FORGOTTEN_MS,
    LEAST_SPANS,
    MAX_SERVICES,
    MAX_SOURCES,
    MAX_TRACES,
    REMEDY,
    WAIT_MS,
    Coverage,
)
from tests.support.retained import largest

TRACE, OTHER = b"t" * 16, b"o" * 16


def crew(
    spans: int = LEAST_SPANS, service: str | None = "crew", trace: bytes = TRACE
) -> list[tuple[str | None, str, int, list[bytes]]]:
    return [(service, "crewai.telemetry", spans, [trace])]


def named(coverage: Coverage, now_ms: int = WAIT_MS) -> list[str | None]:
    return [source["service_name"] for source in coverage.uncovered(now_ms)]


def test_agents_without_calls_are_named_with_the_remedy() -> None:
    coverage = Coverage()
    coverage.see_ai_spans(crew(2), 0)
    coverage.see_ai_spans(crew(5), 60_000)
    (found,) = coverage.uncovered(WAIT_MS)
    assert (found["service_name"], found["library"], found["spans"]) == ("crew", "crewai.telemetry", 7)
    assert "LiteLLM" in found["remedy"]
    coverage.see_ai_spans([("x", "another", 3, [OTHER])], 0)
    assert coverage.uncovered(WAIT_MS)[1]["remedy"] == REMEDY


def test_calls_may_still_arrive_for_a_while() -> None:
    coverage = Coverage()
    coverage.see_ai_spans(crew(), 0)
    assert named(coverage, WAIT_MS - 1) == []


def test_a_single_step_is_no_reason() -> None:
    coverage = Coverage()
    coverage.see_ai_spans(crew(LEAST_SPANS - 1), 0)
    assert named(coverage) == []


def test_usage_of_the_same_service_covers_it_whatever_comes_first() -> None:
    before, after = Coverage(), Coverage()
    before.see_usage(["crew"], 0)
    before.see_ai_spans(crew(), 1)
    after.see_ai_spans(crew(), 0)
    after.see_usage(["crew"], 1)
    assert named(before) == named(after) == []
    after.see_usage(["another"], 1)
    after.see_ai_spans(crew(service="third"), 0)
    assert named(after) == ["third"]


def test_a_call_of_another_service_in_its_trace_covers_it() -> None:
    coverage = Coverage()
    coverage.see_ai_spans(crew(), 0)
    assert coverage.watches_traces
    coverage.see_calls([OTHER])
    assert named(coverage) == ["crew"]
    coverage.see_calls([TRACE])
    assert named(coverage) == []
    assert not coverage.watches_traces


def test_usage_of_long_ago_covers_nothing() -> None:
    coverage = Coverage()
    coverage.see_usage(["crew"], 0)
    now_ms = COVERED_MS + 1
    coverage.see_ai_spans(crew(), now_ms)
    assert named(coverage, now_ms + WAIT_MS) == ["crew"]


def test_a_source_that_fell_silent_is_forgotten() -> None:
    coverage = Coverage()
    coverage.see_ai_spans(crew(), 0)
    assert named(coverage, FORGOTTEN_MS) == ["crew"]
    assert named(coverage, FORGOTTEN_MS + 1) == []


def test_what_it_remembers_is_bounded() -> None:
    coverage = Coverage()
    for n in range(2 * MAX_SOURCES):
        coverage.see_ai_spans(crew(service=f"s{n}"), 0)
    coverage.see_usage((f"u{n}" for n in range(2 * MAX_SERVICES)), 0)
    coverage.see_calls(n.to_bytes(16, "big") for n in range(2 * MAX_TRACES))
    assert len(coverage.uncovered(WAIT_MS)) <= MAX_SOURCES
    assert largest(coverage) <= max(MAX_SERVICES, MAX_TRACES)
