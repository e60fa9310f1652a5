"""One or many JSON objects in a body: an object, an array, an object with the items
under a name, or NDJSON. Pure.
"""

from typing import Any, NamedTuple

import orjson

from gateway.common.contract.errors import BadPayload
from gateway.read.loose_json import loads, place_of

BOM = b"\xef\xbb\xbf"


class Unreadable:
    """Stands for a line that is no JSON, among others that are:
    one torn line must not cost them.
    """


UNREADABLE = Unreadable()


class Item(NamedTuple):
    content: Any
    line: int | None
    """Of NDJSON, from 1."""


def json_items(body: bytes, under: str) -> list[Item]:
    """The items of *body*; `{"<under>": […]}` is unpacked. A line of NDJSON may be UNREADABLE.
    Raises BadPayload when no item can be read.
    """
    text = body.removeprefix(BOM)
    try:
        value: Any = loads(text)
    except orjson.JSONDecodeError as error:
        return _lines(text, place_of(error))
    if isinstance(value, dict) and isinstance(value.get(under), list):
        value = value[under]
    elif isinstance(value, dict) and value.keys() == {under}:
        raise BadPayload(f"{under}: it must be a list")
    return [Item(content, None) for content in (value if isinstance(value, list) else [value])]


def _lines(text: bytes, bad_at: str) -> list[Item]:
    """*bad_at*: where the body as a whole stops being JSON."""
    items = {number: _line(line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()}
    if not items:
        raise BadPayload("the body is empty: send a JSON object, an array of them, or one a line")
    if not any(isinstance(item, dict) for item in items.values()):
        bad = next((number for number, item in items.items() if item is UNREADABLE), None)
        if bad is not None:
            raise BadPayload(f"the body is not valid JSON ({bad_at}), and its line {bad} by itself is not either")
    return [Item(content, number) for number, content in items.items()]


def _line(line: bytes) -> Any:
    try:
        return loads(line)
    except orjson.JSONDecodeError:
        return UNREADABLE
