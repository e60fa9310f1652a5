"""What the page states about an insight is what docs/insights.md states."""

import re
from pathlib import Path

from gateway.usage.insights import detect
from gateway.usage.insights.explanations import EXPLANATIONS

PACKAGE = Path(detect.__file__).parent
PAGE = PACKAGE.parents[2] / "docs" / "insights.md"


def test_every_cause_is_explained() -> None:
    sources = "".join(file.read_text() for file in PACKAGE.glob("*.py"))
    assert set(EXPLANATIONS) == {*re.findall(r'cause="(\w+)"', sources), "spend_spike", "token_spike"}


def test_the_words_are_those_of_the_docs() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", PAGE.read_text(), re.MULTILINE)
    documented = {name: (raised, resolved) for name, raised, resolved in rows if name not in ("insight", "---")}
    assert {each.name: (each.raised, each.resolved) for each in EXPLANATIONS.values()} == documented
