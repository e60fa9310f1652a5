"""JSON as senders write it where the standard is stricter than their own libraries. Pure.

1. Half of a surrogate pair, from a text that was cut inside an emoji (JavaScript and
   Python both escape it): U+FFFD.
2. `NaN`, `Infinity` and `-Infinity` outside a text, which Python's `json` writes: null.
3. Bytes that are no UTF-8, from a text that was cut between bytes: U+FFFD.

Prompts and answers hold them, and no one reads those; but one of them would
cost all calls of a body.
"""

import re
from json import JSONDecodeError
from typing import Final, cast

import orjson

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_TRAILING = "after document"
"""In what orjson states where a whole document stands and more behind it: nothing to remedy."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ALONE = re.compile(rb"(?:%(high)b(?!%(low)b)|(?<!%(high)b)%(low)b){1,4096}+" % {b"high": _HIGH, b"low": _LOW})
"""Halves of pairs, as many as follow each other, where no backslash is escaped."""
_REPLACEMENT = rb"\ufffd"
"""As long as what it replaces, so nothing moves."""
MAX_TEXTS: Final = 2_000_000
"""In which a word is looked for; a document of a million values has no more."""
_NO_JSON = b"\0"
"""Stands in no JSON as it is."""
_WORDS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|(-?(?:NaN|Infinity))', re.DOTALL)


def loads(text: bytes | str) -> Json:
    """The document. Raises orjson.JSONDecodeError."""
    try:
        return cast("Json", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        if _TRAILING in str(error):
            raise
        sent = text.encode("utf-8", "replace") if isinstance(text, str) else text
        mended = _mended(sent)
        if mended == sent:
            raise
    return cast("Json", orjson.loads(mended))


def place_of(error: JSONDecodeError) -> str:
    """Where a body stops being JSON; what orjson states beside it may quote the body."""
    return f"line {error.lineno}, column {error.colno}"


def whole_escapes(text: bytes) -> bytes:
    """Rule 1."""
    if not _HALF.search(text) or _NO_JSON in text:
        return text
    pairs = text.replace(rb"\\", _NO_JSON * 2)
    mended = bytearray(pairs)
    for match in _ALONE.finditer(pairs):
        start, end = match.span()
        mended[start:end] = _REPLACEMENT * ((end - start) // len(_REPLACEMENT))
    return bytes(mended).replace(_NO_JSON * 2, rb"\\")


def _mended(text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode("utf-8", "replace").encode()
    text = whole_escapes(text)
    if b"NaN" in text or b"Infinity" in text:
        text = _without_words(text)
    return text


def _without_words(text: bytes) -> bytes:
    """Rule 2."""
    parts: list[bytes] = []
    begun = 0
    for number, match in enumerate(_WORDS.finditer(text)):
        if number > MAX_TEXTS:
            return text
        if match[1]:
            parts += (text[begun : match.start()], b"null")
            begun = match.end()
    return b"".join((*parts, text[begun:]))
