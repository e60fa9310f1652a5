"""Money on a terminal has every digit; colours are for terminals that want them."""

from typing import Any

import pytest
from rich.console import Console

from gateway.cli.printing import amount_text, coloured, costs_text
from gateway.cli.status import today_text
from gateway.cli.tap import shown
from gateway.cli.usage import cost_text, sums_texts
from tests.unit.cli.test_top import SUMS, Seen, status
from tests.unit.cli.test_top import shown as frame_of

TINY = "0.000000123456789012"


@pytest.mark.parametrize(
    ("amount", "text"),
    [(TINY, TINY), ("1234567.5", "1,234,567.5"), ("-12345", "-12,345"), ("0", "0"), ("12", "12")],
)
def test_an_amount_has_every_digit(amount: str, text: str) -> None:
    assert amount_text(amount) == text


def test_no_command_cuts_money(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    sums: dict[str, Any] = {**SUMS, "costs": {"USD": TINY}}
    assert costs_text({"USD": TINY, "EUR": "3.50"}) == f"{TINY} USD + 3.50 EUR"
    assert cost_text(sums) == f"{TINY} USD"
    assert f"cost {TINY} USD" in today_text(sums)
    line = {"at": "2026-01-05T10:00:00.000Z", "outcome": "kept", "status": "ok", "reason": None, "provider": "openai"}
    line |= {"model": "m" * 40, "input_tokens": 1, "output_tokens": 2, "cost": {"amount": TINY, "currency": "USD"}}
    line |= dict.fromkeys(("key", "team", "service", "device"))
    assert f" {TINY} USD" in shown(line)
    seen = Seen("x")
    seen.look(status(), {"totals": sums, "usage": [{"provider": "p" * 60, "model": "m" * 60, **sums}]}, 0.0)
    lines = frame_of(seen).splitlines()
    assert len([text for text in lines if f"{TINY} USD" in text]) == 2, "of today, and of the model"


def test_colours_are_left_out_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("well", "green").startswith("\x1b[")
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("well", "green") == "well"
    assert Console(force_terminal=True).no_color, "rich's tables follow it by themselves"


def test_without_calls_all_sums_are_zero() -> None:
    nothing = {"calls": 0, "input_tokens": None, "output_tokens": None, "costs": {}}
    assert sums_texts(nothing) == ["0", "0", "0", "0"]
    assert sums_texts({**nothing, "calls": 1}) == ["1", "unknown", "unknown", "unknown"]
