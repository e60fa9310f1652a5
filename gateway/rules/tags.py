"""Tags: attributes that the operator's configuration lists, read as labels of the record. Pure.

Only a listed attribute is read. Its value is kept if it is a name: one line of at most
`MAX_TAG_CHARS` printable characters that looks like no secret, without the blanks around it. Any
other is left out, and none that stands behind it is taken for it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.read.view import Attributes
from gateway.rules.extract import NO_INTEREST, WHO, AttributeTable, ExtractionPlan, Interest, pick_planned

MAX_TAG_CHARS: Final = 120
_FIELDS: Final = frozenset({"environment"})
"""Tags that are a field of the attribution; every other one is a label."""
_SECRET: Final = re.compile(
    r"""
      \b(?:sk|pk|rk|tgk|csk|gsk|hf|xai|pplx|r8|glpat|gh[opsur]|github_pat|xox[abeoprs]|npm|pypi|dop_v1|whsec)[-_][\w-]{16,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b | \bAIza[\w-]{30,} | \beyJ[\w-]{8,}\.[\w-]{8,} | -----BEGIN
    | \b(?:Bearer|Basic)\s+[\w+/.=~-]{8,}
    | \b(?:pass(?:word|wd)?|secret|token|api[_-]?key)\s*[=:]\s*\S
    | ://[^/\s:@]+:[^/\s@]+@
    | (?=[\w+/=-]*[a-z])(?=[\w+/=-]*[A-Z])(?=[\w+/=-]*[0-9])[\w+/=]{32,}
    """,
    re.VERBOSE | re.ASCII,
)
"""Keys of well-known forms, credentials in an address or behind their name, and words of 32 or more
letters and digits in both cases."""


def looks_secret(text: str) -> bool:
    return _SECRET.search(text) is not None


def is_value(text: str) -> bool:
    """Whether *text* may be kept as the value of a tag."""
    return len(text) <= MAX_TAG_CHARS and text.isprintable() and not looks_secret(text)


class Tags:
    """The attributes that state tags, with a memory of names."""

    def __init__(self, attributes: Mapping[str, Sequence[str]]) -> None:
        """*attributes*: tag -> those that state it, the first that has a value wins."""
        self.interests = AttributeTable(_known(attributes), lambda _: NO_INTEREST)

    def plan(self, names: tuple[str, ...]) -> ExtractionPlan:
        """How those among *names* are read."""
        return self.interests.plan(names)

    def add(self, who: dict[str, str], attributes: Attributes, plan: ExtractionPlan) -> None:
        """Write what *attributes*, whose names *plan* was made for, state into *who*."""
        if plan.who:
            stated = {field: value.strip() for field, value in pick_planned(attributes, plan).who.items()}
            who |= {field: value for field, value in stated.items() if value and is_value(value)}

    def add_of(self, who: dict[str, str], attributes: Attributes) -> None:
        """The same for attributes of any names."""
        self.add(who, attributes, self.plan(tuple(attributes)))


def _known(attributes: Mapping[str, Sequence[str]]) -> dict[str, Interest]:
    return {name: (field_of(tag), rank, WHO) for tag, names in attributes.items() for rank, name in enumerate(names)}


def field_of(tag: str) -> str:
    """As `Extracted.who` names it."""
    return tag if tag in _FIELDS else f"label.{tag}"


NO_TAGS: Final = Tags({})
