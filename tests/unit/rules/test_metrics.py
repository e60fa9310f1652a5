"""Metric points: which are usage, what they count, and what becomes of the others."""

import math

import pytest

from gateway.counting.metrics.grouping import fold
from gateway.counting.metrics.series import PointReport, advance
from gateway.read.otlp_protobuf import decode_metrics
from gateway.rules.context import Context, UserPolicy
from gateway.rules.conventions.metric_tables import metric_table, token_kind
from gateway.rules.metrics import normalise_metrics
from gateway.rules.points import UsagePoints
from spool.clock import rfc3339_ms
from spool.record import Record
from tests.support.calls import EPOCH_MS
from tests.support.metrics import LABELS, TOKENS, Export, Kind

NOW_MS = EPOCH_MS + 90_000
CONTEXT = Context(NOW_MS, rfc3339_ms(NOW_MS), key="k")
CLAUDE = {"model": "claude-sonnet-4-5", "session.id": "s1", "user.email": "u@example.com"}


def measured(made: Export, context: Context = CONTEXT) -> UsagePoints:
    found = normalise_metrics(decode_metrics(made.body), context)
    assert found.items == len(found.points) + found.suppressed.total() + len(found.rejected) + found.ignored
    return found


def records(made: Export, context: Context = CONTEXT) -> list[Record]:
    """Of a sender that was never seen before."""
    found = measured(made, context)
    steps = []
    for point in found.points:
        count = -1 if point.measurements is None else point.measurements
        steps.append(
            advance(None, PointReport(point.is_delta, point.start_ns, point.time_ns, point.value, count), NOW_MS)[0]
        )
    folded = fold(found, steps, context)
    assert len(found.points) == len(folded.aggregates) + folded.duplicate.total() + folded.suppressed.total()
    return [aggregate.record for aggregate in folded.aggregates]


def test_input_and_output_of_one_label_set_become_one_record() -> None:
    (record,) = records(Export().point(1200, "input", calls=3).point(340, "output", calls=3))
    assert record["kind"] == "aggregate"
    assert record["usage"] == {"status": "aggregate", "input_tokens": 1200, "output_tokens": 340}
    assert record["calls"] == 3
    assert record["period"] == {"start": "2026-01-05T10:00:00.000Z", "end": "2026-01-05T10:01:00.000Z"}
    assert (record["provider"], record["request_model"], record["operation"]) == ("openai", "gpt-4o", "chat")
    assert record["attribution"] == {"service_name": "app", "key": "k"}
    assert record["source"]["format"] == "otlp.metrics"


def test_each_model_and_each_user_has_a_record_of_its_own() -> None:
    made = Export()
    for model in ("gpt-4o", "gpt-4o-mini"):
        for user in ("a", "b"):
            made.point(10, labels={**LABELS, "gen_ai.request.model": model, "user.id": user})
    found = records(made)
    assert {(x["request_model"], x["attribution"]["user"]) for x in found} == {
        (model, user) for model in ("gpt-4o", "gpt-4o-mini") for user in ("a", "b")
    }
    assert len({x["record_id"] for x in found}) == 4


def test_users_go_through_the_operators_policy() -> None:
    made = Export().point(10, more={"user.id": "u01"})
    (dropped,) = records(made, CONTEXT._replace(users=UserPolicy("drop")))
    assert "user" not in dropped["attribution"]


def test_labels_that_nobody_knows_distinguish_series_and_show_nowhere() -> None:
    made = Export()
    for n in range(5):
        made.point(100, more={"hidden_params": f"secret {n}"})
    assert len({point.key for point in measured(made).points}) == 5
    (record,) = records(made)
    assert record["usage"]["input_tokens"] == 500
    assert "secret" not in str(record)


def test_a_total_is_never_added() -> None:
    made = Export().point(10, "input").point(5, "output").point(15, "total")
    assert measured(made).suppressed == {"overlapping_type": 1}
    (record,) = records(made)
    assert record["usage"] == {"status": "aggregate", "input_tokens": 10, "output_tokens": 5}


def test_claude_codes_input_gets_its_cache_added_and_its_cost_stays() -> None:
    made = Export(scope="com.anthropic.claude_code")
    for kind, value in (("input", 57.0), ("output", 231.0), ("cacheRead", 4096.0), ("cacheCreation", 2048.0)):
        made.point(
            value, kind, name="claude_code.token.usage", kind="sum", temporality="delta", labels=CLAUDE, type_name="type",
            more={"query_source": "main"},
        )  # fmt: skip
    made.point(
        0.0125448, None, name="claude_code.cost.usage", kind="sum", temporality="delta", labels=CLAUDE, unit="USD"
    )
    (record,) = records(made)
    assert record["usage"] == {
        "status": "aggregate",
        "input_tokens": 6201,
        "output_tokens": 231,
        "cache_read_input_tokens": 4096,
        "cache_creation_input_tokens": 2048,
    }
    assert record["cost"] == {"amount": "0.0125448", "currency": "USD", "source": "reported", "price_version": None}
    assert record["attribution"]["session"] == "s1"
    assert "calls" not in record


def test_gemini_clis_own_counter_goes_before_the_common_one_and_thoughts_join_the_output() -> None:
    made = Export(scope="gemini-cli").point(1800, "input").point(150, "output")
    for kind, value in (("input", 1800), ("output", 150), ("thought", 90), ("cache", 640), ("tool", 7)):
        made.point(
            value,
            kind,
            name="gemini_cli.token.usage",
            kind="sum",
            labels={"model": "gemini-2.5-flash"},
            type_name="type",
        )
    (record,) = records(made)
    usage = record["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["reasoning_output_tokens"]) == (1800, 240, 90)
    assert usage["other"] == {"gemini_cli.usage.tool": 7}
    assert record["provider"] == "gcp.gemini"


def test_the_common_counter_alone_counts_under_gemini_cli_too() -> None:
    (record,) = records(Export(scope="gemini-cli").point(1800, "input").point(150, "output"))
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (1800, 150)


def test_counters_go_before_histograms_of_the_same_tokens() -> None:
    made = Export()
    for name, value in (("input_tokens", 1200), ("output_tokens", 340), ("cache_read.input_tokens", 1024)):
        made.point(value, None, name=f"gen_ai.client.inference.usage.{name}", kind="sum")
    for name, value in (("input_tokens", 1200), ("output_tokens", 340)):
        made.point(value, None, name=f"gen_ai.client.inference.operation.{name}")
    (record,) = records(made)
    assert (record["usage"]["input_tokens"], record["usage"]["cache_read_input_tokens"]) == (1200, 1024)


def test_two_scopes_that_measured_the_same_calls_count_once() -> None:
    made = Export().point(1200, "input", scope="pydantic-ai").point(340, "output", scope="pydantic-ai")
    made.point(0.01, None, name="operation.cost", scope="pydantic-ai", unit="{USD}")
    labels = {"gen_ai.system": "openai", "gen_ai.response.model": "gpt-4o-2024-08-06"}
    made.point(1200, "input", scope="openai", labels=labels).point(340, "output", scope="openai", labels=labels)
    (record,) = records(made)
    assert record["cost"] is not None


def test_parts_that_exceed_their_whole_are_kept_with_a_flag() -> None:
    (record,) = records(Export().point(10, "input").point(20, "cached_input"))
    assert record["usage"]["input_tokens"] == 10
    assert record["flags"] == ["inconsistent_usage"]


@pytest.mark.parametrize("kind", ["histogram", "exponential", "sum"])
def test_every_kind_of_counter_counts(kind: Kind) -> None:
    (record,) = records(Export().point(1200, kind=kind))
    assert record["usage"]["input_tokens"] == 1200


@pytest.mark.parametrize("kind", ["gauge", "up_down"])
def test_what_may_fall_is_no_usage(kind: Kind) -> None:
    found = measured(Export().point(1200, kind=kind))
    assert (found.points, found.ignored) == ([], 1)


def test_other_metrics_are_ignored_point_by_point() -> None:
    made = (
        Export()
        .point(0.4, None, name="gen_ai.client.operation.duration")
        .point(3, None, name="http.requests", kind="sum")
    )
    found = measured(made)
    assert (found.points, found.ignored) == ([], 2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 1e300])
def test_a_value_that_cannot_be_a_count_is_rejected_with_its_position(value: float) -> None:
    found = measured(Export().point(5.0, kind="sum").point(value, "output", kind="sum"))
    (rejection,) = found.rejected
    assert rejection[:2] == ("invalid_value", "resourceMetrics[0].scopeMetrics[0].metrics[0].sum.dataPoints[1]")
    assert len(found.points) == 1


def test_a_point_of_no_known_temporality_is_rejected() -> None:
    (rejection,) = measured(Export().point(5, temporality="unspecified")).rejected
    assert rejection.reason == "unspecified_temporality"


def test_a_point_of_an_impossible_time_is_rejected() -> None:
    (rejection,) = measured(Export().point(5, at=-(EPOCH_MS / 1000))).rejected
    assert rejection.reason == "invalid_time"


def test_a_cost_that_a_double_cannot_hold_exactly_is_the_decimal_that_was_meant() -> None:
    (record,) = records(Export().point(0.041425000000000003, None, name="operation.cost", unit="{USD}"))
    assert record["cost"] is not None
    assert record["cost"]["amount"] == "0.041425"


def test_a_batched_payload_of_two_exports_gives_a_record_for_each_time() -> None:
    made = Export()
    for n in range(2):
        made.point(10, temporality="delta", start=60.0 * n, at=60.0 * (n + 1))
    assert [record["period"]["start"] for record in records(made)] == [
        "2026-01-05T10:00:00.000Z",
        "2026-01-05T10:01:00.000Z",
    ]


def test_a_series_is_the_same_from_any_sender_but_one_without_a_start_is_the_senders() -> None:
    other = CONTEXT._replace(key="rotated")
    known, unknown = Export().point(5), Export().point(5, start=-1)
    assert measured(known).points[0].key == measured(known, other).points[0].key
    assert measured(unknown).points[0].key != measured(unknown, other).points[0].key


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        ("input", "input"), ("prompt_tokens", "input"), ("completion", "output"), ("cacheRead", "cache_read"), ("cached_input", "cache_read"),
        ("cache", "cache_read"), ("cacheCreation", "cache_creation"), ("cache_write_input", "cache_creation"), ("thought", "reasoning"),
        ("reasoning_output", "reasoning"), ("input_audio", "audio_input"), ("total", "total"), ("tool", None), ("", None),
    ],
)  # fmt: skip
def test_words_for_kinds_of_tokens(sent: str, kind: str | None) -> None:
    assert token_kind(sent) == kind


def test_names_that_came_through_prometheus_are_known() -> None:
    assert metric_table("s", "gen_ai_client_token_usage_tokens") == metric_table("s", TOKENS)
    assert metric_table("s", "claude_code_token_usage_tokens_total") == metric_table("s", "claude_code.token.usage")
    assert metric_table("s", "agentgateway_gen_ai_client_token_usage") is not None
    assert metric_table("s", "token.usage") is None
    assert metric_table("cursor.telemetry", "token.usage") is not None
