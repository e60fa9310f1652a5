"""The tools of MCP: every operation that a viewer may read, and those that change something and
have a scope of their own; described as the admin port describes them. Pure.

A new operation of either kind is a tool by itself. Keys of senders are none: no scope opens them.
What deletes is none either: an assistant's mistake should be mendable.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gateway.common.contract.errors import BadPayload
from gateway.operate.mcp.descriptions import description_of
from gateway.operate.openapi.operations import names_in
from gateway.operate.operation import AnyOperation, Json
from gateway.operate.role import Role

MAX_VALUES: Final = 1000
"""Of one argument: the characters that a list takes of all its filters hold no more."""

WRITING: Final = frozenset({"POST", "PATCH"})

_COMPONENT: Final = "#/components/"
_SCHEMA: Final = f"{_COMPONENT}schemas/"


class ToolRequest(NamedTuple):
    """A call of a tool, as a request to its operation."""

    path: dict[str, str]
    query: list[tuple[str, str]]
    fields: dict[str, Any] | None
    """Of the body; None where it has none."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    """`show_usage`."""
    operation: AnyOperation
    store: Any
    description: str
    input_schema: Json
    output_schema: Json

    def request(self, arguments: Mapping[str, Any]) -> ToolRequest:
        """Raises BadPayload for an argument that is unknown, missing, or of another type."""
        known, in_path = self.input_schema["properties"], names_in(self.operation.path)
        for name in arguments:
            if name not in known:
                raise BadPayload(
                    f"{name[:100]} is not an argument of {self.name}: {', '.join(known) or 'it takes none'}"
                )
        path = {name: _path_text(name, arguments.get(name)) for name in in_path}
        rest = {name: value for name, value in arguments.items() if name not in in_path}
        if self.operation.body is not None:
            return ToolRequest(path, [], _without_nulls(rest, known))
        given = ((name, value) for name, value in rest.items() if value is not None)
        query = [(name, text) for name, value in given for text in _texts(name, value, known[name])]
        return ToolRequest(path, query, None)


def tools_of(bound: Iterable[tuple[AnyOperation, Any]], document: Json) -> Iterator[Tool]:
    """A tool for each of *bound* that is one; *document* describes the admin port."""
    for operation, store in bound:
        if is_tool(operation):
            described = document["paths"][operation.path][operation.method.lower()]
            yield Tool(
                name=re.sub(r"(?<!^)(?=[A-Z])", "_", operation.id).lower(),
                operation=operation,
                store=store,
                description=description_of(operation),
                input_schema=_input_schema(operation, described, document),
                output_schema=_output_schema(operation, described, document),
            )


def is_tool(operation: AnyOperation) -> bool:
    if operation.only_reads:
        return operation.role <= Role.VIEWER
    return operation.method in WRITING and operation.scope is not None


def _input_schema(operation: AnyOperation, described: Json, document: Json) -> Json:
    properties: Json = {}
    required = []
    for stated in described.get("parameters", ()):
        parameter = _component(stated["$ref"], document) if "$ref" in stated else stated
        properties[parameter["name"]] = _argument_schema(parameter)
        if parameter.get("required"):
            required.append(parameter["name"])
    defs: Json = {}
    if operation.body is not None:
        body = _inlined(_component(f"{_SCHEMA}{operation.body.__name__}", document), document, defs)
        properties |= body["properties"]
        required += body.get("required", ())
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
        **({"$defs": defs} if defs else {}),
    }


def _argument_schema(parameter: Json) -> Json:
    """A list that the query has as one text may be given as either."""
    schema: Json = parameter["schema"]
    text = parameter.get("description", "")
    if parameter.get("explode") is False:
        return {"anyOf": [schema, {"type": "string"}], "description": f"{text} A list, or that text."}
    return {**schema, "description": text} if text else schema


def _output_schema(operation: AnyOperation, described: Json, document: Json) -> Json:
    """The schema of the answer, by itself: what it refers to stands in its `$defs`."""
    schema = described["responses"][str(operation.status)]["content"]["application/json"]["schema"]
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


def _without_nulls(fields: Mapping[str, Any], known: Json) -> dict[str, Any]:
    """*fields* without those that are null and may not be: models fill in null for what they leave
    out.
    """
    return {name: value for name, value in fields.items() if value is not None or _may_be_null(known[name])}


def _may_be_null(schema: Json) -> bool:
    return "null" in schema.get("type", ()) or any(map(_may_be_null, schema.get("anyOf", ())))


def _texts(name: str, value: object, schema: Json) -> list[str]:
    """The values of one parameter of the query: one, or one for each entry of a list. Where the
    query has a list as one text, that. A model may give `true` of JSON for the word.
    """
    is_joined = "anyOf" in schema
    is_list = isinstance(value, list) and (is_joined or schema.get("type") == "array")
    values = value if is_list and isinstance(value, list) else [value]
    if isinstance(value, bool) and "true" in schema.get("enum", ()):
        return [str(value).lower()]
    if len(values) > MAX_VALUES:
        raise BadPayload(f"{name}: {MAX_VALUES} values at most")
    if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in values):
        takes_list = is_joined or schema.get("type") == "array"
        raise BadPayload(f"{name}: {'a list of texts' if takes_list else 'text or a whole number'} is needed")
    return [",".join(map(str, values))] if is_joined and values else [str(each) for each in values]
