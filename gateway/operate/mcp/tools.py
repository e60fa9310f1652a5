"""The tools of MCP: every operation that a viewer may read, described as the admin port describes
it. Pure.

A new operation that reads is a tool by itself. Keys are none: a viewer reads no keys.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.common.contract.errors import BadPayload
from gateway.operate.openapi.operations import names_in
from gateway.operate.operation import AnyOperation, Json
from gateway.operate.role import Role

MAX_VALUES: Final = 1000
"""Of one argument: the characters that a list takes of all its filters hold no more."""

_COMPONENT: Final = "#/components/"
_SCHEMA: Final = f"{_COMPONENT}schemas/"


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    """`show_usage`."""
    operation: AnyOperation
    store: Any
    description: str
    input_schema: Json
    output_schema: Json

    def request(self, arguments: Mapping[str, Any]) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """The parameters of the path, and of the query. Raises BadPayload for an argument that is
        unknown, missing, or of another type.
        """
        known, in_path = self.input_schema["properties"], names_in(self.operation.path)
        for name in arguments:
            if name not in known:
                raise BadPayload(
                    f"{name[:100]} is not an argument of {self.name}: {', '.join(known) or 'it takes none'}"
                )
        path = {name: _path_text(name, arguments.get(name)) for name in in_path}
        query = [
            (name, text)
            for name, value in arguments.items()
            if name not in in_path and value is not None
            for text in _texts(name, value, is_list=known[name].get("type") == "array")
        ]
        return path, query


def tools_of(bound: Iterable[tuple[AnyOperation, Any]], document: Json) -> Iterator[Tool]:
    """A tool for each of *bound* that reads; *document* describes the admin port."""
    for operation, store in bound:
        if operation.method == "GET" and operation.role <= Role.VIEWER:
            described = document["paths"][operation.path]["get"]
            yield Tool(
                name=re.sub(r"(?<!^)(?=[A-Z])", "_", operation.id).lower(),
                operation=operation,
                store=store,
                description=". ".join(filter(None, (operation.summary, operation.text))),
                input_schema=_input_schema(described.get("parameters", ()), document),
                output_schema=_output_schema(described, document),
            )


def _input_schema(parameters: Iterable[Json], document: Json) -> Json:
    properties: Json = {}
    required = []
    for stated in parameters:
        parameter = _component(stated["$ref"], document) if "$ref" in stated else stated
        text = {"description": parameter["description"]} if "description" in parameter else {}
        properties[parameter["name"]] = {**parameter["schema"], **text}
        if parameter.get("required"):
            required.append(parameter["name"])
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _output_schema(described: Json, document: Json) -> Json:
    """The schema of the answer, by itself: what it refers to stands in its `$defs`."""
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    defs: Json = {}
    root = _inlined(_component(schema["$ref"], document) if "$ref" in schema else schema, document, defs)
    return {**root, **({"$defs": defs} if defs else {})}


def _inlined(value: Any, document: Json, defs: Json) -> Any:
    """*value* with references into *defs*, which is filled."""
    if isinstance(value, list):
        return [_inlined(each, document, defs) for each in value]
    if not isinstance(value, dict):
        return value
    ref = value.get("$ref")
    if not isinstance(ref, str):
        return {name: _inlined(each, document, defs) for name, each in value.items()}
    name = ref.removeprefix(_SCHEMA)
    if name not in defs:
        defs[name] = {}  # it may refer to itself
        defs[name] = _inlined(_component(ref, document), document, defs)
    return {**value, "$ref": f"#/$defs/{name}"}


def _component(ref: str, document: Json) -> Json:
    kind, _, name = ref.removeprefix(_COMPONENT).partition("/")
    found: Json = document["components"][kind][name]
    return found


def _path_text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise BadPayload(f"{name}: text is needed")
    return value


def _texts(name: str, value: object, *, is_list: bool) -> list[str]:
    """The values of one parameter of the query: one, or one for each entry of a list."""
    values = value if is_list and isinstance(value, list) else [value]
    if len(values) > MAX_VALUES:
        raise BadPayload(f"{name}: {MAX_VALUES} values at most")
    if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in values):
        raise BadPayload(f"{name}: {'a list of texts' if is_list else 'text or a whole number'} is needed")
    return [str(each) for each in values]
