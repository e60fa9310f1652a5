"""Which rule a call belongs to, however many there are."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.usage.sums.allocation import Definition, Rule
from gateway.usage.sums.matching import Matcher, filters_of
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.splitting import Share

NAMES = ("a", "b", "c", None)
DIMENSIONS = ("key", "service_name", "tag:region")
ALL = (Share("x", Decimal(100)),)

rules = st.builds(
    Rule,
    st.dictionaries(st.sampled_from(DIMENSIONS), st.lists(st.sampled_from(NAMES), min_size=1).map(tuple)),
    st.sampled_from([ALL, (Share("y", Decimal(50)), Share("z", Decimal(50)))]),
)
calls = st.fixed_dictionaries(
    {each: st.sampled_from(["a", "b", "d", *Absent]) for each in DIMENSIONS}
    | {"team": st.sampled_from([Absent.UNKNOWN, Absent.UNKNOWN, "x", Absent.OTHER])}
)


def first_of(by_rules: list[Rule], call: dict[str, Name]) -> Rule | None:
    """Rule by rule."""
    for rule in by_rules:
        wanted = {
            name: [Absent.UNKNOWN if each is None else each for each in some] for name, some in rule.match.items()
        }
        if call["team"] is Absent.UNKNOWN and all(call[name] in some for name, some in wanted.items()):
            return rule
    return None


@given(st.lists(rules, max_size=8), calls)
def test_the_first_rule_is_found(by_rules: list[Rule], call: dict[str, Name]) -> None:
    assert Matcher(Definition("team", 1, tuple(by_rules))).rule_for(call) is first_of(by_rules, call)


@given(
    st.lists(rules, max_size=8),
    calls,
    st.lists(st.sampled_from(["x", "y", "z", "q", *Absent]), min_size=1),
    st.dictionaries(st.just("key"), st.lists(st.sampled_from(["a", "b", *Absent]), min_size=1), max_size=1),
)
def test_filters_keep_every_call_of_a_wanted_name_once(
    by_rules: list[Rule], call: dict[str, Name], wanted: list[Name], more: dict[str, list[Name]]
) -> None:
    rule = first_of(by_rules, call)
    gets = {call["team"]} if rule is None else {share.name for share in rule.shares}
    found = filters_of([Definition("team", 1, tuple(by_rules))], {**more, "team": wanted})
    times = sum(all(call[name] in names for name, names in where.items()) for where in found)
    is_wanted = bool(gets & {*wanted}) and all(call[name] in names for name, names in more.items())
    assert times == 1 if is_wanted else times <= 1


class CountedNames(dict[str, Name]):
    """Counts how often it is asked."""

    asked = 0

    def __getitem__(self, name: str) -> Name:
        CountedNames.asked += 1
        return super().__getitem__(name)


@pytest.fixture
def counted() -> Iterator[type[CountedNames]]:
    CountedNames.asked = 0
    yield CountedNames
    CountedNames.asked = 0


def test_four_times_the_rules_take_no_look_more(counted: type[CountedNames]) -> None:
    looks = []
    for count in (250, 1000):
        by_rules = tuple(Rule({"key": (f"key-{n}",), "service_name": (f"s-{n}", None)}, ALL) for n in range(count))
        matcher = Matcher(Definition("team", 1, by_rules))
        counted.asked = 0
        for n in range(count):
            call: dict[str, Any] = {"team": Absent.UNKNOWN, "key": f"key-{n}", "service_name": Absent.UNKNOWN}
            assert matcher.rule_for(counted(call)) is by_rules[n]
        looks.append(counted.asked / count)
    assert looks == [3, 3], "of each call: its target, and each dimension that rules name"
