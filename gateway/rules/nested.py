"""Usage that arrives as a map inside one attribute (`gen_ai.usage` =
{input_tokens: …}). Pure and bounded.

Only numbers are taken out of such a map, so no content can come along, whatever stands beside them.
"""

import orjson

from gateway.read.view import AnyValue

_MAX_DEPTH = 3
_MAX_ENTRIES = 256
"""Of a map with more nothing is taken: it has no order, so no part of it is its beginning."""
_MAX_KEY_CHARS = 64
_MAX_DIGITS = 20

Numbers = dict[str, "int | float | Numbers"]


def numbers_json(value: AnyValue) -> str:
    """The numbers of a map as a JSON object, also those of maps in it; "" where there are none."""
    found = _numbers(value, 0)
    return orjson.dumps(found).decode() if found else ""


def _numbers(value: AnyValue, depth: int) -> Numbers:
    found: Numbers = {}
    entries = value.kvlist_value.values
    if len(entries) > _MAX_ENTRIES:
        return found
    for key, entry in entries.items():
        if len(key) > _MAX_KEY_CHARS:
            continue
        number = _number(entry)
        if number is not None:
            found[key] = number
        elif depth < _MAX_DEPTH and entry.HasField("kvlist_value"):
            found[key] = _numbers(entry, depth + 1)
    return found


def _number(value: AnyValue) -> int | float | None:
    if value.HasField("int_value"):
        return value.int_value
    if value.HasField("double_value"):
        return value.double_value
    text = value.string_value
    return int(text) if len(text) <= _MAX_DIGITS and text.isascii() and text.isdecimal() else None
