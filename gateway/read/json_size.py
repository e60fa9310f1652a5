"""How many values a JSON text holds, counted before it is parsed. Pure.

A value of two bytes becomes an object of sixty to two hundred.
"""

import re
from typing import Final

from gateway.read.limits import ParseLimits, too_many_values

WINDOW_BYTES: Final = 256 * 1024
"""Looked at in one call into C, which keeps the interpreter for as long as it takes."""
_OTHER: Final = re.compile(rb"[^\\]")
_MARKS: Final = (b"{", b"[", b",")


def check_json(text: bytes, limits: ParseLimits) -> None:
    """Raises TooLarge where *text* holds more than `max_json_values` objects, arrays and commas
    outside its texts.

    A text of no more bytes than that is not looked at. Of a larger one all marks are counted, a
    millisecond a megabyte; and only where those within texts could make the difference, it is
    looked at which are.
    """
    if has_more_values(text, limits.max_json_values):
        raise too_many_values(limits.max_json_values)


def has_more_values(text: bytes, most: int) -> bool:
    """As `check_json`."""
    return len(text) > most and _marks(text, most) > most and _values(text, most) > most


def _marks(text: bytes, most: int) -> int:
    """Marks, within texts or not; counted until they are more than *most*."""
    n = 0
    for start in range(0, len(text), WINDOW_BYTES):
        n += _marks_in(text, start, start + WINDOW_BYTES)
        if n > most:
            break
    return n


def _marks_in(text: bytes, start: int, end: int) -> int:
    return sum(text.count(mark, start, end) for mark in _MARKS)


def _values(text: bytes, most: int) -> int:
    """Marks outside texts, until they are more than *most*."""
    n = start = 0
    is_inside = False
    while start < len(text) and n <= most:
        end = _behind_backslashes(text, start + WINDOW_BYTES)
        parts = _without_escapes(text[start:end]).split(b'"')
        outside = b"".join(parts[is_inside::2])
        n += _marks_in(outside, 0, len(outside))
        is_inside ^= len(parts) % 2 == 0
        start = end
    return n


def _behind_backslashes(text: bytes, at: int) -> int:
    """From *at* on, where no backslash stands: what it escapes stands with it."""
    if not text.startswith(b"\\", at - 1):
        return at
    found = _OTHER.search(text, at)
    return len(text) if found is None else found.end()


def _without_escapes(text: bytes) -> bytes:
    """Without the quotes in texts."""
    return text.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in text else text
