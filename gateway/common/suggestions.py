"""What a name that no one knows was most likely meant to be. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

PART_CHARS = 3
"""So much of a name, or more, is taken for the beginning of it or a piece."""


def nearest(text: str, names: Iterable[str]) -> str | None:
    """The one of *names* that comes near *text*, or holds it; None when none does."""
    names, text = list(names), text.strip().lower()
    close = get_close_matches(text, names, n=1)
    if not close and len(text) >= PART_CHARS:
        close = [name for name in names if text in name]
    return close[0] if close else None


def did_you_mean(text: str, names: Iterable[str]) -> str:
    """`; did you mean …?`, or nothing when no name is near."""
    near = nearest(text, names)
    return "" if near is None else f"; did you mean {near!r}?"
