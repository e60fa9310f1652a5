"""What the attributes of a span are to the templates of spans with these names: the key of what
repeats, and what varies. Pure.

An attribute that varies and is not shown to have the name and form that it had in the span that
was learnt becomes a part of the key as it is: then either nothing is known of the key, or all of
that attribute.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.ingest.parsing.attribute_bytes import UnreadAttributes, count_in, name_in, text_in
from gateway.ingest.parsing.made_function import made
from gateway.normalise.templates import Role

Values = Callable[..., tuple[tuple[Any, ...], tuple[Any, ...]]]
"""`values(attributes, kind, status, is_root, has_events, name)` -> the key of the shape, and what
varies: the counts by number, then the texts by number; None for one that is not of that form."""
_NUMBER: Final = 0x18
"""Tag of a whole number."""


@dataclass
class _Parts:
    """Of the function's text."""

    constants: dict[str, Any]
    key: list[str]
    lines: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    """Lines that need to know the texts."""
    varying: set[str] = field(default_factory=set)


def values_of(
    heads: tuple[bytes, ...], roles: Mapping[str, Role], unread: UnreadAttributes, *, reads_name: bool
) -> tuple[Values, tuple[str, ...]]:
    """For spans whose attributes begin with *heads*, in that order; and the names of what varies:
    `count0`, …, `hole0`, …
    """
    constants: dict[str, Any] = {"known": unread.known, "take": unread.take, "count_in": count_in, "text_in": text_in}
    parts = _Parts(constants, ["kind", "status", "is_root", "has_events"])
    if reads_name:
        parts.key.append("name")
    for at, head in enumerate(heads):
        _place(parts, at, head, roles.get(name_in(head)))
    entries = "".join(f"e{at}, " for at in range(len(heads)))
    varying = tuple(sorted(parts.varying))
    lines = [f"{entries}= entries"] if heads else []
    lines += [
        "odd = ()",
        *parts.lines,
        *parts.last,
        f"return ({', '.join(parts.key)}, odd), ({''.join(f'{x}, ' for x in varying)})",
    ]
    return made("values(entries, kind, status, is_root, has_events, name)", lines, constants), varying


def _place(parts: _Parts, at: int, head: bytes, role: Role | None) -> None:
    """Read attribute number *at*."""
    entry = f"e{at}"
    parts.constants.update({f"h{at}": head, f"n{at}": name_in(head)})
    if role is None:
        parts.lines.append(_unread(at))
    elif role.kind == "key":
        parts.key.append(entry)
    elif role.kind == "behind":
        is_hole = f"hole{role.number} is not None and"
        parts.last.append(
            f"if not ({is_hole} (known.get({entry}) == n{at} or take({entry}, n{at}))): odd += {at}, {entry}"
        )
    elif role.kind == "hole":
        text = f"hole{role.number}"
        parts.varying.add(text)
        parts.lines += [f"{text} = text_in({entry}, h{at})", f"if {text} is None: odd += {at}, {entry}"]
    else:
        number = f"count{role.number}"
        parts.varying.add(number)
        parts.constants.update({f"{x}{at}": head + bytes([2 + size, _NUMBER]) for size, x in enumerate(("one", "two"))})
        parts.lines += _count(at, len(head) + 2, number)


def _unread(at: int) -> str:
    return f"if known.get(e{at}) != n{at} and not take(e{at}, n{at}): odd += {at}, e{at}"


def _count(at: int, size: int, count: str) -> list[str]:
    """Most counts take one byte or two."""
    entry = f"e{at}"
    return [
        f"if len({entry}) == {size + 2} and {entry}[:{size}] == two{at} and {entry}[-2] > 127 > {entry}[-1]:",
        f"    {count} = {entry}[-2] - 128 | {entry}[-1] << 7",
        f"elif len({entry}) == {size + 1} and {entry}[:{size}] == one{at} and {entry}[-1] < 128:",
        f"    {count} = {entry}[-1]",
        "else:",
        f"    {count} = count_in({entry}, h{at})",
        f"    if {count} is None: odd += {at}, {entry}",
    ]
