"""Checks of decoded JSON: a field's value with its type, or Invalid with `missing_<field>` or
`invalid_<field>`. Pure.
"""

from collections.abc import Mapping

import orjson

from gateway.local_service.errors import Invalid
from gateway.local_service.times import parse_ms

Fields = Mapping[str, object]

NAME_MAX_CHARS = 256
WHOLE_MAX = 10**15
"""Nothing counted here comes near; above it sums could leave 64 bits."""


def decoded_object(body: bytes) -> Fields:
    """The JSON object in *body*."""
    try:
        content: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Invalid("invalid_json", "the body is not JSON") from error
    return as_object(content, "body")


def as_object(value: object, name: str) -> Fields:
    if not isinstance(value, dict):
        raise Invalid(f"invalid_{name}", f"{name}: an object is needed")
    return value


def as_list(value: object, name: str) -> list[object]:
    if not isinstance(value, list):
        raise Invalid(f"invalid_{name}", f"{name}: a list is needed")
    return value


def present(fields: Fields, name: str) -> object:
    value = fields.get(name)
    if value is None:
        raise Invalid(f"missing_{name}", f"{name}: it is needed")
    return value


def text(fields: Fields, name: str, *, max_chars: int = NAME_MAX_CHARS) -> str:
    """1 to *max_chars* characters."""
    value = fields.get(name)
    if isinstance(value, str) and 0 < len(value) <= max_chars:
        return value
    present(fields, name)
    raise Invalid(f"invalid_{name}", f"{name}: text of 1 to {max_chars} characters is needed")


def optional_text(fields: Fields, name: str, *, max_chars: int = NAME_MAX_CHARS) -> str | None:
    return None if fields.get(name) is None else text(fields, name, max_chars=max_chars)


def optional_texts(fields: Fields, names: tuple[str, ...], *, max_chars: int) -> list[str | None]:
    """`optional_text` of many fields; one call for all, since every record has them."""
    found: list[str | None] = []
    for name in names:
        value = fields.get(name)
        if value is None or (isinstance(value, str) and 0 < len(value) <= max_chars):
            found.append(value)
        else:
            found.append(text(fields, name, max_chars=max_chars))
    return found


def choice(fields: Fields, name: str, values: tuple[str, ...]) -> str:
    value = present(fields, name)
    if not isinstance(value, str) or value not in values:
        raise Invalid(f"invalid_{name}", f"{name}: one of {', '.join(values)} is needed")
    return value


def whole(fields: Fields, name: str) -> int:
    """An integer from 0 on; true and 1.0 are none."""
    value = fields.get(name)
    if type(value) is int and 0 <= value <= WHOLE_MAX:
        return value
    present(fields, name)
    raise Invalid(f"invalid_{name}", f"{name}: a whole number from 0 on is needed")


def optional_whole(fields: Fields, name: str) -> int | None:
    return None if fields.get(name) is None else whole(fields, name)


def optional_wholes(fields: Fields, names: tuple[str, ...]) -> list[int | None]:
    """`optional_whole` of many fields."""
    found: list[int | None] = []
    for name in names:
        value = fields.get(name)
        if value is None or (type(value) is int and 0 <= value <= WHOLE_MAX):
            found.append(value)
        else:
            found.append(whole(fields, name))
    return found


def time_ms(fields: Fields, name: str) -> int:
    """An ISO 8601 time, as milliseconds since 1970."""
    value = present(fields, name)
    time = parse_ms(value) if isinstance(value, str) else None
    if time is None:
        raise Invalid(f"invalid_{name}", f"{name}: an ISO 8601 time is needed")
    return time
