"""The form of allocation rules and the body of its operations."""

from typing import Any

import pytest
from multidict import MultiDict

from gateway.operate.site.allocation_form import (
    FormRule,
    acted,
    body_of,
    moved_names,
    rule_of,
    rules_in,
    typed_of,
    values_of,
    with_rule,
)
from gateway.operate.site.allocation_links import give_link
from gateway.usage.allocation.body import MAX_RULES, NewVersion
from gateway.usage.sums.names import Absent

RULES: list[dict[str, Any]] = [
    {
        "match": {"service_name": ["batch", "a=b"], "user": [None]},
        "shares": [{"name": "x=y", "percent": "33.4"}, {"name": "chat", "percent": "66.6"}],
    },
    {"match": {}, "shares": [{"name": "rest", "percent": "100"}]},
]


def form(**changed: str) -> MultiDict[str]:
    """As a browser sends the form of `RULES`."""
    values = values_of([rule_of(each) for each in RULES], note="agreed", version="3") | changed
    sent = MultiDict[str]()
    for name, value in values.items():
        sent.extend([(name, each) for each in (value.split("\n") if name.startswith("filter") else [value]) if each])
    return sent


def rules(*names: str) -> dict[str, str]:
    return values_of([FormRule("", name) for name in names])


def test_a_form_that_was_not_touched_changes_nothing() -> None:
    body = body_of(typed_of(form()))
    assert body == {"rules": RULES, "note": "agreed"}
    assert len(NewVersion.checked(body).rules) == 2


def test_a_name_alone_gets_all_and_percent_signs_and_empty_lines_are_left_out() -> None:
    typed = typed_of(form(**{"shares-0": " search \r\n\r\n", "shares-1": "a = 50 %\r\nb=50"}))
    assert [each["shares"] for each in body_of(typed)["rules"]] == [
        [{"name": "search", "percent": "100"}],
        [{"name": "a", "percent": "50"}, {"name": "b", "percent": "50"}],
    ]


def test_a_name_is_added_to_its_rule() -> None:
    sent = form(**{"add_dimension-1": "model", "add_name-1": " gpt-4o "})
    assert [each["match"] for each in body_of(typed_of(sent))["rules"]] == [RULES[0]["match"], {"model": ["gpt-4o"]}]


@pytest.mark.parametrize(
    ("act", "order"),
    [
        ("up-1", "bac"), ("up-0", "abc"), ("down-0", "bac"), ("down-2", "abc"), ("remove-1", "ac"), ("remove-9", "abc"),
        ("remove-x", "abc"), ("keep", "abc"), ("add", "abc "),
    ],
)  # fmt: skip
def test_buttons_order_remove_and_add_rules(act: str, order: str) -> None:
    left = acted({**rules(*"abc"), "note": "kept"}, act)
    assert [each.shares for each in rules_in(left)] == [name.strip() for name in order]
    assert left["note"] == "kept"


def test_a_new_rule_is_before_the_one_that_takes_the_rest() -> None:
    first, rest, new = FormRule("key=a", "a"), FormRule("", "rest"), FormRule("key=b", "")
    assert with_rule([first, rest], new) == [first, new, rest]
    assert with_rule([first], new) == [first, new]


@pytest.mark.parametrize(("count", "found"), [("99999", 0), ("x", 0), ("", 0), ("999", MAX_RULES + 1)])
def test_a_made_up_count_is_bounded(count: str, found: int) -> None:
    assert len(rules_in(typed_of(MultiDict(rules=count)))) == found


def test_a_preview_compares_with_the_rules_that_are_applied() -> None:
    one, two = {"calls": 1}, {"calls": 2}
    names = [
        {"team": "a", "before": None, "applied": one, "after": two},
        {"team": "same", "before": None, "applied": one, "after": one},
        {"team": None, "absent": {"team": "unknown"}, "before": two, "applied": one, "after": None},
        {"team": None, "absent": {"team": "other"}, "before": two, "applied": one, "after": None},
    ]
    found = moved_names({"target": "team", "names": names})
    assert found == [("a", one, two), (None, one, None), ("(other)", one, None)]


def test_the_way_to_the_rules_has_the_names_of_the_calls() -> None:
    link = give_link(
        [("service_name", "a b"), ("project", Absent.UNKNOWN), ("tag:feature", "x"), ("team", Absent.UNKNOWN)]
    )
    assert link == (
        "/allocation/project?add=rule&service_name=a+b&tag=feature%3Dx&unknown=team#new-rule",
        "Give these calls a project",
    )
    of_tag = give_link([("tag:feature", Absent.UNKNOWN)])
    assert of_tag is not None
    assert of_tag.text == "Give these calls the tag feature"


@pytest.mark.parametrize(
    "filters", [[("team", "a")], [("user", Absent.UNKNOWN)], [("team", Absent.UNKNOWN), ("key", Absent.OTHER)]]
)
def test_calls_that_no_rule_can_take_have_no_way_there(filters: Any) -> None:
    assert give_link(filters) is None
