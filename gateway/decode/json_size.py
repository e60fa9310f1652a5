"""How many values a JSON text holds, counted before it is parsed. Pure.

A value of two bytes becomes an object of sixty to two hundred.
"""

import re
from typing import Final

from gateway.decode.limits import ParseLimits, too_many_values

WINDOW_BYTES: Final = 256 * 1024
"""Looked at in one call into C, which keeps the interpreter for as long as it takes."""
_WITHIN: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
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
    n = at = 0
    while n <= most:
        quote = text.find(b'"', at)
        end = len(text) if quote < 0 else quote
        for start in range(at, end, WINDOW_BYTES):
            n += _marks_in(text, start, min(start + WINDOW_BYTES, end))
            if n > most:
                return n
        if quote < 0:
            break
        at = _text_end(text, quote + 1)
    return n


def _text_end(text: bytes, at: int) -> int:
    """Behind the quote that ends the text whose inside begins at *at*; the end where none does."""
    while True:
        match = _WITHIN.match(text, at, at + WINDOW_BYTES + 1)
        end = at if match is None else match.end()
        if text.startswith(b'"', end):
            return end + 1
        if end == at:  # the end, or the backslash before it
            return len(text)
        at = end
