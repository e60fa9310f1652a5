"""A body of an AI gateway -> the JSON documents in it, each with its position. Pure.

One object, an array of them, one a line, or one behind the other, whatever Content-Type states:
senders write NDJSON under `application/json` and arrays under `application/x-ndjson`. A line that
is no JSON costs only itself.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import orjson

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.outcomes import Rejection
from gateway.read.json_size import check_json
from gateway.read.limits import DEFAULT_LIMITS, ParseLimits
from gateway.read.loose_json import loads, place_of
from gateway.rules.texts import Json

BOM = b"\xef\xbb\xbf"
_ENDS = json.JSONDecoder()
"""Finds where an object ends. Its values are not used: it takes more
for JSON than the standard does."""
_BLANK = re.compile(r"\s*")
_LINE = re.compile(rb"[^\s][^\n]*+")
"""A line that is not blank, from its first character on."""
_SEAM = re.compile(rb"\}\s*+\{")
"""Between two objects; without one there is nothing to look for."""

MAX_BAD_LINES = 20_000
"""Each costs some 15 µs; all beyond this number is rejected as one item."""

ReadLine = Callable[[str], Json]
"""A line of a log that is no JSON -> its document; raises ValueError when it is no such line."""


class Document(NamedTuple):
    position: str
    """`[3]` in an array, `line 4` in NDJSON, "" for a body that is one document; never content."""
    value: Json


class Documents(NamedTuple):
    found: Sequence[Document]
    rejected: Sequence[Rejection]
    """Lines that could not be read."""


def documents_in(
    body: bytes, *, first_line: int = 1, read_line: ReadLine | None = None, limits: ParseLimits = DEFAULT_LIMITS
) -> Documents:
    """The documents of *body*, whose first line is number *first_line* of what was sent.

    Raises BadPayload where nothing in it can be read at all; never for a later part of a body,
    whose first one was read. Raises TooLarge for more values than *limits* allow.
    """
    text = body.removeprefix(BOM)
    check_json(text, limits)
    try:
        value: Json = loads(text)
    except orjson.JSONDecodeError as error:
        return _lines(text, first_line, read_line, place_of(error))
    position = "" if first_line == 1 else f"line {first_line}"
    if isinstance(value, list):
        return Documents([Document(f"{position}[{at}]", item) for at, item in enumerate(value)], ())
    return Documents([Document(position, value)], ())


def _lines(text: bytes, first_line: int, read_line: ReadLine | None, bad_at: str) -> Documents:
    """*bad_at*: where the body as a whole stops being JSON."""
    found, is_whole = _over_lines(text) if first_line == 1 else ([], False)
    if found:
        return Documents(found, [] if is_whole else [Rejection("not_json", f"[{len(found)}]")])
    rejected: list[Rejection] = []
    number, at = first_line, 0
    for match in _LINE.finditer(text):  # one after the other: as a list, lines of two bytes take twenty times that
        number, at = number + text.count(b"\n", at, match.start()), match.start()
        stripped = match[0].strip()
        position = f"line {number}"
        try:
            found += _line(stripped, position, read_line)
        except ValueError:
            rejected.append(Rejection("not_json", position))
            if len(rejected) == MAX_BAD_LINES:
                rejected.append(Rejection("too_many_bad_lines", f"all behind {position}"))
                break
    if first_line > 1:
        return Documents(found, rejected)
    if not found and not rejected:
        raise BadPayload("the body is empty: send a JSON object, an array of them, or one a line")
    if not found and (len(rejected) == 1 or _is_one_document(text)):
        raise BadPayload(f"the body is not valid JSON ({bad_at}): it is cut short, or in another format")
    return Documents(found, rejected)


def _line(line: bytes, position: str, read_line: ReadLine | None) -> Iterator[Document]:
    """What stands on one line: a document, an array of them, or a log line that *read_line* knows.

    Raises ValueError: at once, or behind the documents that stand before what is none.
    """
    try:
        value: Json = loads(line)
    except orjson.JSONDecodeError:
        found, is_whole = _together(line, position)
        yield from found
        if found and is_whole:
            return
        if found or read_line is None:
            raise
        value = read_line(line.decode("utf-8", "replace"))
    if isinstance(value, list):
        yield from (Document(f"{position}[{at}]", item) for at, item in enumerate(value))
    else:
        yield Document(position, value)


def _over_lines(text: bytes) -> tuple[list[Document], bool]:
    """As `_together`, where the first object takes several lines; none where the first line
    is or holds one by itself.
    """
    first, _, rest = text.lstrip().partition(b"\n")
    if not first.startswith(b"{") or not rest or _is_document(first) or _together(first)[0]:
        return [], False
    return _together(text)


def _is_document(line: bytes) -> bool:
    try:
        loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _together(text: bytes, position: str = "") -> tuple[list[Document], bool]:
    """Objects that stand one behind the other, and whether nothing else stands there; none where
    anything but a cut object does.
    """
    found: list[Document] = []
    if not _SEAM.search(text):
        return found, False
    try:
        read = text.decode("utf-8", "replace").strip()
        at = 0
        while at < len(read):
            if read[at] != "{":
                return [], False
            end = _ENDS.raw_decode(read, at)[1]
            found.append(Document(f"{position}[{len(found)}]", loads(read[at:end].encode())))
            at = blank.end() if (blank := _BLANK.match(read, end)) else end
    except (ValueError, RecursionError):
        return found, False
    return found, True


def _is_one_document(text: bytes) -> bool:
    """Whether the body is one pretty-printed document, cut short: then its lines are none."""
    return text.lstrip()[:1] in {b"{", b"["} and text.lstrip()[1:2] in {b"\n", b"\r", b" ", b"\t"}
