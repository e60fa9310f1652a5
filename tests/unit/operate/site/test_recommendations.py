"""Recommendations on the page and at the command: the amount, why, and what can be decided."""

from decimal import Decimal
from typing import Any

import pytest

from gateway.cli.recommendations import print_list
from gateway.common.lists.conventions import envelope, read_request
from gateway.operate.role import Role
from gateway.operate.site import recommendations as site
from gateway.usage.recommendations.listing import RECOMMENDATION_LIST, page_of_recommendations
from gateway.usage.recommendations.recommendation import Recommendation, State
from tests.support.shown import shown, text_of


def one(state: State = "open", **changes: Any) -> Recommendation:
    fields: dict[str, Any] = {
        "kind": "cheaper_model", "service": "<triage>", "provider": "openai", "model": "gpt-4o", "instead": "gpt-4o-mini",
        "currency": "USD", "cost": Decimal("1721.5"), "cost_instead": Decimal("103.25"), "calls": 90_000,
        "evidence": {"output_tokens_of_a_call": 40}, "found_ms": 1, "updated_ms": 1, "state": state, **changes,
    }  # fmt: skip
    return Recommendation("0123456789abcdef" * 2, 1, **fields)


def answer(*kept: Recommendation) -> dict[str, Any]:
    request = read_request(RECOMMENDATION_LIST, [])
    return envelope(RECOMMENDATION_LIST, request, page_of_recommendations(kept, request))


def test_the_page_has_the_amount_and_why() -> None:
    html = shown(site.VIEW, site.recommendations(answer(one())))
    text = text_of(html)
    assert "<triage>: gpt-4o gives short answers; gpt-4o-mini gives them for less" in text
    assert '<data value="1618.25">USD 1,618.25</data>' in html
    assert (
        "Cost of the calls, less the price of the same tokens at the smaller model: USD 1,721.50 less USD 103.25."
        in text
    )
    assert "40 output tokens of a call" in text
    assert [each in html for each in (">Accept<", ">Dismiss<", ">Open again<")] == [True, True, False]


@pytest.mark.parametrize("state", ["accepted", "dismissed"])
def test_what_was_decided_can_be_opened_again(state: State) -> None:
    html = shown(site.VIEW, site.recommendations(answer(one(state, realised=Decimal("12.5"), is_found=False))))
    assert [each in html for each in (">Accept<", ">Open again<", "no longer found", "USD 12.50")] == [
        False,
        True,
        True,
        True,
    ]


def test_a_viewer_decides_nothing() -> None:
    assert "<form" not in shown(site.VIEW, site.recommendations(answer(one())), Role.VIEWER).split("<tbody>")[1]


def test_without_any_the_page_says_what_it_looks_for() -> None:
    assert "Nothing to recommend." in shown(site.VIEW, site.recommendations(answer()))


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    print_list(answer(one("accepted", realised=Decimal("12.5"))))
    out = capsys.readouterr().out
    assert all(
        each in out
        for each in ("1,618.25 USD", "<triage>: gpt-4o", "(01234567)", "accepted", "12.50", "1 recommendation")
    )
