"""Metrics of names that no table knows: usage where name and points have its shape, and nothing
else.
"""

from typing import Any

import pytest

from gateway.read.otlp_protobuf import decode_metrics
from gateway.rules.context import Context
from gateway.rules.metrics import normalise_metrics
from gateway.rules.points import UsagePoints
from spool.clock import rfc3339_ms
from tests.support.calls import EPOCH_MS
from tests.support.metrics import Export

NOW_MS = EPOCH_MS + 90_000
CONTEXT = Context(NOW_MS, rfc3339_ms(NOW_MS), key="k")
MODEL = {"llm.model_name": "gpt-4o"}
TYPE = "llm.token_type"


def measured(made: Export) -> UsagePoints:
    found = normalise_metrics(decode_metrics(made.body), CONTEXT)
    assert found.items == len(found.points) + found.suppressed.total() + len(found.rejected) + found.ignored
    return found


def shaped(name: str = "acme.llm.tokens", **changes: Any) -> Export:
    given: dict[str, Any] = {"name": name, "kind": "sum", "labels": MODEL, "type_name": TYPE, "unit": "1", **changes}
    return Export(scope="acme").point(120, "prompt", **given).point(30, "completion", **given)


@pytest.mark.parametrize(
    "name", ["acme.llm.tokens", "acme_tokens_total", "llm-token-usage", "llmTokensUsed", "agent/tokens/consumed"]
)
@pytest.mark.parametrize("kind", ["sum", "histogram", "exponential"])
def test_a_counter_or_histogram_of_tokens_by_kind_and_model_is_usage(name: str, kind: str) -> None:
    found = measured(shaped(name, kind=kind))
    assert [(point.kind, point.value) for point in found.points] == [("input", 120), ("output", 30)]
    assert {point.table.convention for point in found.points} == {"shape"}
    assert {point.labels.request_model for point in found.points} == {"gpt-4o"}


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {}},
        {"labels": {"llm.model_family_size": "gpt-4o"}},
        {"type_name": "acme.colour"},
        {"kind": "gauge"},
        {"kind": "up_down"},
        {"unit": "s"},
        {"unit": "{token}/s"},
        *(
            {"name": name}
            for name in (
                "acme.llm.calls", "acme.tokens.limit", "acme.tokens_per_second", "acme.token.budget.remaining", "acme.tokens.cost",
                "acme.server.tokens", "acme.time_to_first_token", "acme.tokenizer.size", "acme.max_tokens", "tokenized.words", "x" * 300 + ".tokens",
            )
        ),
    ],
)  # fmt: skip
def test_what_lacks_a_part_of_the_shape_is_ignored(changes: dict[str, Any]) -> None:
    found = measured(shaped(**changes))
    assert (found.points, found.ignored, found.rejected) == ([], 2, [])


def test_an_unknown_kind_of_tokens_is_ignored_and_a_total_repeats_its_parts() -> None:
    given: dict[str, Any] = {"name": "acme.tokens", "kind": "sum", "labels": MODEL, "type_name": TYPE}
    found = measured(Export().point(1, "wasted", **given).point(150, "total", **given).point(120, "input", **given))
    assert [point.value for point in found.points] == [120]
    assert (found.ignored, dict(found.suppressed)) == (1, {"overlapping_type": 1})


def test_of_two_metrics_of_a_scope_that_have_the_shape_one_is_read() -> None:
    made = shaped("acme.tokens")
    made.point(120, "prompt", name="acme.tokens.by_team", kind="sum", labels=MODEL, type_name=TYPE)
    found = measured(made)
    assert (len(found.points), found.ignored) == (2, 1)


def test_a_point_that_has_not_the_shape_does_not_keep_another_metric_from_being_read() -> None:
    made = Export(scope="acme").point(9, "prompt", name="acme.cached.tokens", kind="sum", labels={}, type_name=TYPE)
    made.point(120, "prompt", name="acme.tokens", kind="sum", labels=MODEL, type_name=TYPE)
    assert [point.value for point in measured(made).points] == [120]


def test_a_time_that_cannot_be_right_is_named_only_where_the_shape_is_that_of_usage() -> None:
    wrong: dict[str, Any] = {"name": "acme.tokens", "kind": "sum", "type_name": TYPE, "temporality": "unspecified"}
    found = measured(Export().point(1, "input", labels=MODEL, **wrong).point(1, "input", labels={}, **wrong))
    assert ([each.reason for each in found.rejected], found.ignored) == (["unspecified_temporality"], 1)
