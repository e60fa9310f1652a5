"""What may be written about insights: each fault names its field and what is valid, and quotes
nothing.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.usage.insights.changes import (
    COMMENT_MAX_CHARS,
    TITLE_MAX_CHARS,
    WORD_MAX_CHARS,
    CommentBody,
    InvalidInsight,
    NewInsight,
    checked_change,
    status_when_found,
    status_when_gone,
)
from gateway.usage.insights.finding import STATUSES, Status

WHOLE = {"title": "t", "category": "c", "effort": "e"}
CANARY = "CANARY-7Q-insight"


def test_what_is_not_given_is_unknown_or_new() -> None:
    made = NewInsight.checked(WHOLE)
    assert (made.status, made.cost_impact) == ("new", None)


@pytest.mark.parametrize("impact", ["0", "-3", "12.50", "0.000000000001", "9" * 30, None])
def test_a_cost_is_kept_as_it_was_written(impact: str | None) -> None:
    assert NewInsight.checked({**WHOLE, "cost_impact": impact}).cost_impact == impact


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("title", value) for value in (None, "", "  \n", 1, ["x"], "x" * (TITLE_MAX_CHARS + 1))),
        *(("category", value) for value in (None, "", "x" * (WORD_MAX_CHARS + 1))),
        *(("effort", value) for value in (None, "\t", 2, "x" * (WORD_MAX_CHARS + 1))),
        *(("status", value) for value in (None, "", "New", "open", 0, ["new"])),
        *(
            ("cost_impact", value)
            for value in (1, 1.5, True, "", "1,5", "1e3", "NaN", "inf", " 1", "1\n", "٣", "9" * 31, ".5")
        ),
    ],
)
def test_a_wrong_field_is_named_with_what_is_valid(field: str, value: Any) -> None:
    for check in (lambda content: NewInsight.checked({**WHOLE, **content}), checked_change):
        with pytest.raises(
            InvalidInsight, match=rf"^{field}: (text of 1 to|one of new, |a decimal number).* is needed$"
        ) as refused:
            check({field: value})
        assert refused.value.code == f"invalid_{field}"


@pytest.mark.parametrize("field", WHOLE)
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(InvalidInsight, match=f"^{field}: ") as refused:
        NewInsight.checked({name: value for name, value in WHOLE.items() if name != field})
    assert refused.value.code == f"missing_{field}"


@pytest.mark.parametrize("text", [None, "", " ", 7, "x" * (COMMENT_MAX_CHARS + 1)])
def test_a_comment_has_text_within_bounds(text: Any) -> None:
    with pytest.raises(InvalidInsight, match=r"^text: text of 1 to 10000 characters is needed$"):
        CommentBody.checked({"text": text})
    assert len(CommentBody.checked({"text": "é" * COMMENT_MAX_CHARS}).text) == COMMENT_MAX_CHARS


def test_a_change_of_nothing_and_one_of_what_is_not_there_are_refused_by_name() -> None:
    for content in ({}, {"id": "x"}, {"status": "new", "last_updated": "2026-01-05"}):
        with pytest.raises(InvalidInsight, match=r"^body: .*status, title, category, effort, cost_impact"):
            checked_change(content)


def test_a_change_holds_what_was_given_and_null_only_for_a_cost() -> None:
    assert checked_change({"cost_impact": None}) == {"cost_impact": None}
    assert checked_change({"status": "on_hold", "title": "t"}) == {"status": "on_hold", "title": "t"}


TEXT = st.text("a1 .-é🙂\x00\n", max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*WHOLE, "status", "cost_impact", CANARY]), JSON | st.just(CANARY * 40)))
def test_any_body_is_taken_or_refused_without_quoting_it(content: dict[str, Any]) -> None:
    try:
        made = NewInsight.checked(content)
    except InvalidInsight as error:
        text = f"{error!r} {error.code} {error.__cause__}"
    else:
        text = ""
        assert made.model_dump() == {"status": "new", "cost_impact": None, **content}
    assert CANARY not in text


@pytest.mark.parametrize("status", STATUSES)
def test_the_rules_of_rounds(status: Status) -> None:
    assert status_when_found(status, was_standing=True) == status
    assert status_when_found(status, was_standing=False) == ("new" if status == "addressed" else status)
    assert status_when_gone(status) == (status if status in ("on_hold", "ignored") else "addressed")
