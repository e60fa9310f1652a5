"""JSON Schemas follow from the types of answers."""

import gc
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

import gateway.operate.budgets
import gateway.operate.keys
import gateway.operate.usage
from gateway.common.contract.json_types import Count, Schema, Time
from gateway.common.lists.openapi import types
from gateway.common.lists.openapi.types import component_schemas, schema_of

MODULES = [module.__name__ for module in (gateway.operate.budgets, gateway.operate.keys, gateway.operate.usage)] * 2


class Part(TypedDict):
    at: Time
    """When, in
    UTC."""


class BaseJson(TypedDict):
    """What all of
    them have."""

    id: str
    """Its name."""
    calls: Count


class WholeJson(BaseJson):
    parts: Sequence[Part]
    part: Part | None
    """The last one."""
    by_name: NotRequired[Mapping[str, Any]]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (bool, {"type": "boolean"}),
        (str | None, {"type": ["string", "null"]}),
        (str | int, {"type": ["string", "integer"]}),
        (Any, {}),
        (Time | None, {"type": ["string", "null"], "format": "date-time"}),
        (Annotated[float | None, Schema(minimum=0)], {"type": ["number", "null"], "minimum": 0}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", "b"] | None, {"type": ["string", "null"], "enum": ["a", "b", None]}),
        (Literal["a"], {"type": "string", "const": "a"}),
        (Time | Literal["never"], {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "const": "never"}]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Mapping[str, Count], {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}),
        (Mapping[str, Any], {"type": "object", "additionalProperties": True}),
        (Part | None, {"oneOf": [{"$ref": "#/components/schemas/Part"}, {"type": "null"}]}),
        (Annotated[Mapping[str, int], Part], {"$ref": "#/components/schemas/Part"}),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_has_a_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint, {}) == schema


def test_a_component_has_the_fields_of_its_bases_with_their_texts_and_brings_what_it_refers_to() -> None:
    schemas = component_schemas([WholeJson])
    assert schemas == {
        "Whole": {
            "type": "object",
            "required": ["id", "calls", "parts", "part"],
            "properties": {
                "id": {"type": "string", "description": "Its name."},
                "calls": {"type": "integer", "minimum": 0},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}},
                "part": {
                    "oneOf": [{"$ref": "#/components/schemas/Part"}, {"type": "null"}],
                    "description": "The last one.",
                },
                "by_name": {"type": "object", "additionalProperties": True},
            },
        },
        "Part": {
            "type": "object",
            "required": ["at"],
            "properties": {"at": {"type": "string", "format": "date-time", "description": "When, in UTC."}},
        },
    }
    assert component_schemas([BaseJson])["Base"]["description"] == "What all of them have."


def test_two_types_of_one_name_are_an_error() -> None:
    other = TypedDict("Part", {"at": int})  # noqa: UP013 - a second class of this name
    with pytest.raises(ValueError, match="two types are the component Part"):
        component_schemas([Part, other])


def test_two_threads_may_describe_types_at_once() -> None:
    """The collector of garbage gives way to the other thread in the middle of a parse."""

    def give_way(*_: object) -> None:
        time.sleep(0)

    gc.callbacks.append(give_way)
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(200)
    sys.setswitchinterval(1e-9)
    types._classes_of.cache_clear()
    try:
        with ThreadPoolExecutor(len(MODULES)) as threads:
            assert len(list(threads.map(types._classes_of, MODULES))) == len(MODULES)
    finally:
        gc.callbacks.remove(give_way)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
