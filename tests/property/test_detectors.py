"""The detectors on any history: the same history gives the same findings, in whatever order
and pieces it is reported.
"""

import random
from collections import Counter
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from gateway.usage.insights.detect import Figures, detect
from gateway.usage.insights.finding import Finding
from gateway.usage.insights.thresholds import LEAST_EXTRA_TOKENS
from gateway.usage.sums.history import History, Model, Usage
from gateway.usage.sums.tally import PICO
from tests.support.usage_history import NOW_HOUR

NAMES = st.sampled_from(["", "a", "b", "c\n"])
COUNTS = st.sampled_from([0, 1, 9, 10, 49, 50, 200, 100_000, 5_000_000])

USAGE = st.builds(
    Usage,
    hour=st.integers(0, 9 * 24).map(lambda ago: NOW_HOUR - ago),
    provider=NAMES,
    model=NAMES,
    team=NAMES,
    service_name=NAMES,
    currency=st.sampled_from(["", "USD", "EUR"]),
    cost_source=st.sampled_from(["", "reported"]),
    calls=COUNTS,
    failed_calls=COUNTS,
    calls_without_usage=COUNTS,
    calls_without_price=COUNTS,
    input_tokens=COUNTS,
    output_tokens=COUNTS,
    cacheable_tokens=COUNTS,
    cache_read_tokens=COUNTS,
    cost_pico=st.sampled_from([0, -PICO, PICO // 3, PICO, 90 * PICO]),
).map(
    lambda usage: usage._replace(
        failed_calls=min(usage.failed_calls, usage.calls),
        calls_without_usage=min(usage.calls_without_usage, usage.calls),
        cache_read_tokens=min(usage.cache_read_tokens, usage.cacheable_tokens),
    )
)
HISTORIES = st.builds(
    History,
    now_hour=st.just(NOW_HOUR),
    usage=st.lists(USAGE, max_size=60),
    models=st.lists(
        st.builds(Model, NAMES, NAMES, st.integers(NOW_HOUR - 200, NOW_HOUR + 1)), unique_by=lambda x: x[:2], max_size=6
    ),
    began_hour=st.integers(NOW_HOUR - 200, NOW_HOUR),
)
DENSE = st.builds(
    lambda low, high, at: [low] * 8 * 24 + ([low] * at + [high] + [low] * (23 - at)),
    st.integers(0, 10**6), st.integers(0, 10**8), st.integers(0, 23),
)  # fmt: skip
"""Tokens of nine days, hour by hour, in which one hour of the last day is another."""


def found(history: History) -> list[Finding]:
    return detect(Figures(history=history))


@given(HISTORIES, st.randoms(use_true_random=False))
def test_the_order_in_which_it_is_reported_does_not_matter(history: History, chance: random.Random) -> None:
    usage, models = list(history.usage), list(history.models)
    chance.shuffle(usage)
    chance.shuffle(models)
    assert found(history._replace(usage=usage, models=models)) == found(history)


@given(HISTORIES)
def test_one_cause_is_found_once_and_reported_in_one_printed_line(history: History) -> None:
    findings = found(history)
    assert [n for n in Counter(x.insight_id for x in findings).values() if n > 1] == []
    for finding in findings:
        assert finding.title.isprintable()
        assert finding.cost_impact is None or Decimal(finding.cost_impact) > 0
        assert "E" not in (finding.cost_impact or "")


@given(HISTORIES)
def test_nothing_is_found_without_usage_but_models(history: History) -> None:
    assert {x.cause for x in found(history._replace(usage=[]))} <= {"new_model"}
    assert found(history._replace(usage=[], models=[])) == []


@given(HISTORIES)
def test_sums_that_are_reported_in_two_pieces_are_the_same(history: History) -> None:
    counts = Usage._fields[7:]
    halves = []
    for usage in history.usage:
        half = {name: getattr(usage, name) // 2 for name in counts}
        halves += [usage._replace(**half), usage._replace(**{x: getattr(usage, x) - half[x] for x in counts})]
    assert found(history._replace(usage=halves)) == found(history)


@given(DENSE)
def test_a_flat_history_has_no_spike_and_a_spike_is_above_it(tokens: list[int]) -> None:
    usage = [
        Usage(NOW_HOUR - len(tokens) + 1 + n, "p", "m", "", "", "", "", calls=1, input_tokens=count)
        for n, count in enumerate(tokens)
    ]
    low, high = min(tokens), max(tokens)
    causes = [x.cause for x in found(History(NOW_HOUR, usage, began_hour=NOW_HOUR - 1_000))]
    if sum(tokens[-24:]) <= 24 * tokens[0] + LEAST_EXTRA_TOKENS:
        assert causes == []
    if tokens[0] and tokens[0] == low and high > 50 * low + LEAST_EXTRA_TOKENS:
        assert causes == ["token_spike"]
