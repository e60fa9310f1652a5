"""A filter by a name that no call has is answered with the names that come near."""

import pytest

from gateway.cli.known_names import nearest_names, unknown_text

NAMES = ["checkout", "Checkout-EU", "search", "support", "gpt-4o", "gpt-4o-mini"]


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("chekout", ["checkout", "Checkout-EU"]),
        ("CHECKOUT", ["checkout", "Checkout-EU"]),
        ("gpt-4", ["gpt-4o", "gpt-4o-mini"]),
        ("sarch", ["search"]),
        ("zzz", []),
    ],
)
def test_names_that_hold_it_come_before_those_that_are_spelt_alike(typed: str, near: list[str]) -> None:
    assert nearest_names(typed, NAMES) == near


def test_where_none_is_near_the_most_used_are_listed_and_without_any_that_is_said() -> None:
    assert unknown_text("team", "zzz", NAMES) == (
        "no call of this time has team=zzz; there are: checkout, Checkout-EU, search"
    )
    assert unknown_text("team", "zzz", []) == "no call of this time has team=zzz; none has a team at all"
    assert "\x1b" not in unknown_text("team", "\x1b[31m", ["\x1b[31mred"])
