"""One or many JSON objects in a body: an object, an array, an object with the items under a name, or NDJSON. Pure."""

from typing import Any

import orjson

from gateway.decode.loose_json import loads
from gateway.errors import BadPayload

BOM = b"\xef\xbb\xbf"


def json_items(body: bytes, under: str) -> list[Any]:
    """The items of *body*; `{"<under>": […]}` is unpacked. Raises BadPayload."""
    text = body.removeprefix(BOM)
    try:
        value: Any = loads(text)
    except orjson.JSONDecodeError:
        return _lines(text)
    if isinstance(value, dict) and isinstance(value.get(under), list):
        return list(value[under])
    return value if isinstance(value, list) else [value]


def _lines(text: bytes) -> list[Any]:
    items: list[Any] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                items.append(loads(line))
            except orjson.JSONDecodeError as error:
                raise BadPayload(f"line {number} is not JSON, and the body as a whole is not either") from error
    if not items:
        raise BadPayload("the body is empty: send a JSON object, an array of them, or one a line")
    return items
