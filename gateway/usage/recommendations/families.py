"""The next cheaper model of a family. Pure.

A pair is listed where the provider itself offers the second as the smaller one of the first. A
model that the price list does not know is never recommended, whatever this page says.
"""

import re
from typing import Final

_CHEAPER: Final = tuple(
    (re.compile(pattern), smaller)
    for pattern, smaller in (
        (r"(gpt-4o|gpt-4\.1|gpt-5)", r"\1-mini"),
        (r"(gpt-4\.1|gpt-5)-mini", r"\1-nano"),
        (r"claude-opus-4(?:-[15])?", "claude-sonnet-4-5"),
        (r"claude-sonnet-4(?:-5)?", "claude-haiku-4-5"),
        (r"claude-3-[57]-sonnet", "claude-3-5-haiku"),
        (r"gemini-(1\.5|2\.5)-pro", r"gemini-\1-flash"),
        (r"gemini-(2\.0|2\.5)-flash", r"gemini-\1-flash-lite"),
        (r"mistral-large", "mistral-small"),
    )
)


def cheaper_of(model: str) -> str | None:
    """*model* without a date, as questions about usage group it."""
    for pattern, smaller in _CHEAPER:
        if (found := pattern.fullmatch(model)) is not None:
            return found.expand(smaller)
    return None
