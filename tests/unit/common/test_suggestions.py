"""What an unknown name was most likely meant to be."""

import pytest

from gateway.common.suggestions import did_you_mean, nearest

NAMES = ("billing:read_costs", "budgets:read_budget", "send-ai-telemetry")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("billing:read_cost", "billing:read_costs"),
        (" Billing:Read_Costs ", "billing:read_costs"),
        ("ai-tele", "send-ai-telemetry"),
        ("read_budget", "budgets:read_budget"),
        ("a", None),
        ("", None),
        ("nothing like it", None),
    ],
)
def test_a_name_is_known_by_its_likeness_or_by_a_piece_of_it(text: str, meant: str | None) -> None:
    assert nearest(text, NAMES) == meant
    assert did_you_mean(text, NAMES) == ("" if meant is None else f"; did you mean {meant!r}?")
