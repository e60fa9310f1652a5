"""A body of an AI gateway -> the JSON documents in it, each with its position. Pure.

One object, an array of them, or one a line, whatever Content-Type says: senders write NDJSON under `application/json` and
arrays under `application/x-ndjson`. A line that is no JSON costs only itself.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import orjson

from gateway.errors import BadPayload
from gateway.normalise.call import Rejection
from gateway.normalise.texts import Json

BOM = b"\xef\xbb\xbf"

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


def documents_in(body: bytes, *, first_line: int = 1, read_line: ReadLine | None = None) -> Documents:
    """The documents of *body*, whose first line is number *first_line* of what was sent.

    Raises BadPayload where nothing in it can be read at all.
    """
    text = body.removeprefix(BOM)
    try:
        value: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _lines(text, first_line, read_line)
    if isinstance(value, list):
        return Documents([Document(f"[{at}]", item) for at, item in enumerate(value)], ())
    return Documents([Document("" if first_line == 1 else f"line {first_line}", value)], ())


def _lines(text: bytes, first_line: int, read_line: ReadLine | None) -> Documents:
    found: list[Document] = []
    rejected: list[Rejection] = []
    for number, line in enumerate(text.split(b"\n"), start=first_line):
        stripped = line.strip()
        if not stripped:
            continue
        position = f"line {number}"
        try:
            found += _line(stripped, position, read_line)
        except ValueError:
            rejected.append(Rejection("not_json", position))
    if not found and not rejected:
        raise BadPayload("the body is empty: send a JSON object, an array of them, or one a line")
    if not found and (len(rejected) == 1 or _is_one_document(text)):
        raise BadPayload("the body is not JSON: it is cut short, or in another format")
    return Documents(found, rejected)


def _line(line: bytes, position: str, read_line: ReadLine | None) -> Iterator[Document]:
    """What stands on one line: a document, an array of them, or a log line that *read_line* knows. Raises ValueError."""
    try:
        value: Json = orjson.loads(line)
    except orjson.JSONDecodeError:
        if read_line is None:
            raise
        value = read_line(line.decode("utf-8", "replace"))
    if isinstance(value, list):
        return iter([Document(f"{position}[{at}]", item) for at, item in enumerate(value)])
    return iter([Document(position, value)])


def _is_one_document(text: bytes) -> bool:
    """Whether the body is one pretty-printed document, cut short: then its lines are none."""
    return text.lstrip()[:1] in {b"{", b"["} and text.lstrip()[1:2] in {b"\n", b"\r", b" ", b"\t"}
