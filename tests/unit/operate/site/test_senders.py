"""Libraries whose input may include the cached tokens or not, on the page and in the terminal."""

import pytest

from gateway.cli.senders import LIST_LIMIT, print_readings
from gateway.counting.readings import InputReading
from gateway.fleet.senders.listing import sender_page
from gateway.operate.site import senders
from tests.support.shown import shown, text_of

NOTHING = sender_page({}, 0, ())
READING: InputReading = {
    "library": "acme.sdk",
    "library_version": "1.0\x1b[31m",
    "provider": "anthropic",
    "basis": "excludes_cache",
    "includes_cache": [],
    "excludes_cache": ["team-a"],
    "calls_proved": 7,
    "calls_learnt": 2,
    "calls_assumed": 19,
    "input_tokens_assumed": 3800,
}


def test_the_page_shows_how_the_input_of_a_library_was_read_and_escapes_its_name() -> None:
    script: InputReading = {**READING, "library": "<script>alert(1)</script>"}
    page = shown(senders.VIEW, senders.senders(NOTHING, [READING, script]))
    assert "<script>alert" not in page
    assert "anthropic excludes the cached tokens 7 2 19 3,800" in text_of(page)


def test_the_page_has_no_such_table_where_every_input_is_known() -> None:
    assert "cached tokens" not in shown(senders.VIEW, senders.senders(NOTHING))


def test_a_terminal_gets_one_line_a_library_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_readings([READING] * (LIST_LIMIT + 3))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == LIST_LIMIT + 2
    assert "\x1b" not in lines[1]
    assert "anthropic: excludes the cached tokens. Calls: 7 proved, 2 learnt, 19 assumed" in lines[1]
    assert lines[-1].strip() == "3 more are in GET /v2/status"
    print_readings([])
    assert capsys.readouterr().out == ""
