"""Every statement of the published text has a test, or stands in docs/scopes.md as a name."""

import re
from importlib import import_module

from tests.conformance.service_interface import published
from tests.conformance.service_interface.statements import NAME, OPEN, STATEMENTS
from tests.support.scopes_table import PAGE

_NO_STATEMENT = re.compile(
    r"\s*$|\|[-| ]+\|$|\*\*|- `[a-z0-9_-]+:[a-z0-9_-]+`$|\| (Field|State|Parameter|Limit|Use case) \|"
)
"""Blank, a line or head of a table, a category, a scope with nothing said of it."""


def lines_below(heading: str) -> list[str]:
    """Lines that state something, up to the next heading."""
    text = re.split(r"\n#{2,3} ", published.TEXT.partition(f"\n{heading}\n")[2])[0]
    return [line for line in text.splitlines() if not _NO_STATEMENT.match(line)]


def without_tests(heading: str) -> list[str]:
    """Those that no entry of the table begins as, and that leave nothing open."""
    known = STATEMENTS.get(heading, {})
    rest = [line for line in lines_below(heading) if not any(line.startswith(begin) for begin in known)]
    return [line for line in rest if not any(word in line for word in OPEN)]


def test_every_statement_of_every_heading_has_its_tests() -> None:
    headings = re.findall(r"^#{2,3} .*", published.TEXT, re.MULTILINE)
    assert [heading for heading in STATEMENTS if heading not in headings] == []
    assert {heading: lines for heading in headings if (lines := without_tests(heading))} == {}


def test_the_table_names_no_statement_that_is_not_there() -> None:
    for heading, known in STATEMENTS.items():
        lines = lines_below(heading)
        assert [begin for begin in known if not any(line.startswith(begin) for line in lines)] == []


def test_every_test_that_is_named_is_there() -> None:
    named = {test for known in STATEMENTS.values() for tests in known.values() for test in tests} - {NAME}
    for test in sorted(named):
        module, _, name = test.rpartition(".")
        assert callable(getattr(import_module(module), name, None)), test


def test_what_is_a_name_is_in_the_page() -> None:
    names = PAGE.read_text().partition("## What else is a name")[2]
    for heading, known in STATEMENTS.items():
        part = heading.split(" ")[1].rstrip(".")
        for begin, tests in known.items():
            if NAME in tests:
                assert f"| {part} | {begin.removeprefix('- ').strip('`')}" in names, begin
