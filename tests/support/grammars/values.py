"""Texts that senders put anywhere: short, long, escaped, damaged, and such as are read again."""

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence

BOMB = base64.b64encode(gzip.compress(bytes(200_000), 9, mtime=0)).decode()
REPR = "Usage(input_tokens=5, " + "a=[b, c, (d, 'e')], " * 20 + ")"
USAGE = json.dumps({"usage": {"prompt_tokens": 5, "completion_tokens": 7}, "id": "chatcmpl-1", "model": "gpt-4o"})
TEXTS: Mapping[str, bytes] = {
    "": b"",
    "a": b"a",
    "short": b"x" * 20,
    "long": b"x" * 3_000,
    "longer": b"x" * 100_000,
    "unicode": "\u65e5\U0001f600".encode() * 20,
    "damaged": b"\xff\xed\xa0\x80a" * 20,
    "quotes": b'"\\' * 20,
    "marks": b"[{,:}]" * 20,
    "lines": b"\n" * 40,
    "digits": b"9" * 40,
    "many digits": b"9" * 2_000,
    "decimal": b"0." + b"1234567890" * 20 + b"e-7",
    "words": b"NaN Infinity -Infinity null " * 5,
    "time": b"2026-01-05T10:00:00.123456789+00:00",
    "usage": USAGE.encode(),
    "usage in usage": json.dumps({"output": USAGE}).encode(),
    "usage cut": USAGE.encode()[:-5],
    "nested": b'{"a":[' * 60 + b"1" + b"]}" * 60,
    "many values": json.dumps({f"k{n}": [n, {}] for n in range(200)}).encode(),
    "repr": REPR.encode(),
    "repr names": b"a " * 200,
    "repr open": b"A(" * 60,
    "tags": b"<A: 'b'>" * 30,
    "markup": b"<" * 300,
    "stream": b"data: " + USAGE.encode() + b"\n\ndata: {}\n\n" * 20,
    "bomb": BOMB.encode(),
    "model": b"gpt-4o-2024-08-06",
    "operation": b"chat",
    "provider": b"openai",
}
"""By name."""
NUMBERED = ("number", "number 8", "number 16", "hex 8", "hex 16", "few", "few 8", "few 16", "few hex 8")
"""Another one each time, or one of a few; as text, as so many bytes, or as their hex digits."""
FEW = 40
OWN = "own "
"""Before an id as a sender gave it, which is numbered where its item fills the body."""


def made_text(value: str | bytes, numbers: Iterator[int]) -> bytes:
    if isinstance(value, bytes):
        return value
    if value.startswith(OWN):
        return value.removeprefix(OWN).encode("latin-1")
    if value in NUMBERED:
        return made_id(value.split(), next(numbers))
    return TEXTS[value]


def made_id(words: Sequence[str], number: int) -> bytes:
    *words, last = words
    if (words and words[0] == "few") or last == "few":
        number %= FEW
    if not last.isdecimal():
        return b"n%d" % number
    made = (number + 1).to_bytes(int(last), "big")
    return made.hex().encode() if "hex" in words else made


def numbered(value: str | bytes) -> str | bytes:
    """What an id becomes whose item fills the body."""
    if isinstance(value, bytes) or not value.startswith(OWN):
        return value
    own = value.removeprefix(OWN)
    if len(own) in {8, 16} and not own.isalnum():
        return f"number {len(own)}"
    is_hex = len(own) in {16, 32} and all(letter in "0123456789abcdef" for letter in own)
    return f"hex {len(own) // 2}" if is_hex else "number"
