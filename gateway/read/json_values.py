"""The values of OTLP/JSON: documents, texts, numbers, bytes, and AnyValue into the wire view. Pure.

Wrong types raise BadPayload with the place they stand at, never with what they are.
"""

import binascii
import math
import re
from base64 import b64decode
from collections.abc import Callable
from typing import cast

import orjson
from google.protobuf.message import Message

from gateway.common.contract.errors import BadPayload
from gateway.read.loose_json import place_of, whole_escapes
from gateway.read.view import AnyValue

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_BOM = b"\xef\xbb\xbf"
_MAX_DEPTH = 100
"""Levels of AnyValue inside AnyValue; protobuf's own limit is of this size."""
INT64 = (-(2**63), 2**63 - 1)
_INT_TEXT = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_DOUBLE_TEXT = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|NaN|-?Infinity", re.ASCII)


def load(body: bytes) -> Json:
    """The parsed document.

    Lone surrogates, which orjson refuses, are replaced and the body is read again.
    """
    text = body.removeprefix(_BOM)
    try:
        return cast("Json", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        if "surrogate" not in str(error):
            raise BadPayload(f"the body is not valid JSON ({place_of(error)})") from None
    try:
        return cast("Json", orjson.loads(whole_escapes(text)))
    except orjson.JSONDecodeError as error:
        raise BadPayload(f"the body is not valid JSON ({place_of(error)})") from None


def read_attribute(attributes: dict[str, AnyValue], entry: Json, at: str, depth: int) -> None:
    """One KeyValue into the map; a key without a value has an empty one."""
    if not isinstance(entry, dict):
        raise BadPayload(f"{at}: an object is expected")
    key = entry.get("key")
    value = entry.get("value")
    target = cast("Message", attributes[text_of("" if key is None else key, f"{at}.key")])
    target.Clear()
    if value is not None:
        read_any(target, value, f"{at}.value", depth)


def read_any(target: Message, value: Json, at: str, depth: int) -> None:
    """Write the JSON AnyValue *value* into *target*. Raises BadPayload, which names *at*."""
    if not isinstance(value, dict):
        raise BadPayload(f"{at}: an object is expected")
    if depth > _MAX_DEPTH:
        raise BadPayload("a value is nested too deep")
    member: str | None = None
    for key, inner in value.items():
        if inner is None or key not in _MEMBERS:
            continue
        if member is not None:
            raise BadPayload(f"{at}: more than one kind of value")
        member = key
        _MEMBERS[key](target, inner, at, depth)


def _any_array(target: Message, inner: Json, at: str, depth: int) -> None:
    array = target.array_value  # type: ignore[attr-defined]  # made from a schema
    array.SetInParent()
    values = object_of(inner, at).get("values")
    for index, entry in enumerate([] if values is None else entries_of(values, at)):
        child = array.values.add()
        if entry is not None:
            read_any(child, entry, f"{at}[{index}]", depth + 1)


def _any_kvlist(target: Message, inner: Json, at: str, depth: int) -> None:
    kvlist = target.kvlist_value  # type: ignore[attr-defined]  # made from a schema
    kvlist.SetInParent()
    values = object_of(inner, at).get("values")
    for index, entry in enumerate([] if values is None else entries_of(values, at)):
        read_attribute(kvlist.values, entry, f"{at}[{index}]", depth + 1)


_MEMBERS: dict[str, Callable[[Message, Json, str, int], None]] = {
    "stringValue": lambda target, inner, at, _: setattr(target, "string_value", text_of(inner, at)),
    "boolValue": lambda target, inner, at, _: setattr(target, "bool_value", boolean_of(inner, at)),
    "intValue": lambda target, inner, at, _: setattr(target, "int_value", integer_of(inner, *INT64, at)),
    "doubleValue": lambda target, inner, at, _: setattr(target, "double_value", double_of(inner, at)),
    "bytesValue": lambda target, inner, at, _: setattr(target, "bytes_value", _bytes_of(inner, at)),
    "arrayValue": _any_array,
    "kvlistValue": _any_kvlist,
}


def entries_of(value: Json, at: str) -> list[Json]:
    if not isinstance(value, list):
        raise BadPayload(f"{at}: an array is expected")
    return value


def object_of(value: Json, at: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise BadPayload(f"{at}: an object is expected")
    return value


def text_of(value: Json, at: str) -> str:
    if not isinstance(value, str):
        raise BadPayload(f"{at}: a text is expected")
    return value


def boolean_of(value: Json, at: str) -> bool:
    if not isinstance(value, bool):
        raise BadPayload(f"{at}: true or false is expected")
    return value


def integer_of(value: Json, low: int, high: int, at: str) -> int:
    """A whole number within the limits, as number or decimal text;
    3.0 is one, 3.5 and true are not.
    """
    number: int | None = None
    if isinstance(value, str):
        number = int(value) if _INT_TEXT.fullmatch(value) else None
    elif isinstance(value, float):
        number = int(value) if value.is_integer() else None
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    if number is None or not low <= number <= high:
        raise BadPayload(f"{at}: a whole number in range is expected")
    return number


def double_of(value: Json, at: str) -> float:
    if isinstance(value, str) and _DOUBLE_TEXT.fullmatch(value):
        return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value) or float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise BadPayload(f"{at}: a number is expected")


def _bytes_of(value: Json, at: str) -> bytes:
    """Standard or URL-safe alphabet, with or without padding."""
    try:
        text = text_of(value, at).rstrip("=").translate({ord("-"): "+", ord("_"): "/"})
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadPayload(f"{at}: base64 is expected") from None
