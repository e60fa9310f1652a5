"""JSON Schemas from the types of answers, which are TypedDicts of plain JSON types. Pure.

A TypedDict becomes a component with the name of its class, less `Json` at its end. Its docstring
and the texts behind its fields become descriptions, inherited fields included. Fields may be
annotated with `Schema`.

`pydantic.TypeAdapter` is used for bodies only: below Python 3.12 it refuses `typing.TypedDict`, and
it has no description for an inherited field.
"""

import ast
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from threading import Lock
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from gateway.common.contract.json_types import Schema

Json = dict[str, Any]

_PLAIN: Final[Mapping[Any, str]] = {
    str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null",
}  # fmt: skip


def component_schemas(kinds: Iterable[type]) -> Json:
    """Name -> schema of each of *kinds* and of all that they refer to. Raises ValueError where two
    types have one name.
    """
    found: dict[str, type] = {}
    schemas: Json = {}
    for kind in kinds:
        schema_of(kind, found)
    while missing := found.keys() - schemas.keys():
        for name in sorted(missing):
            schemas[name] = _object_schema(found[name], found)
    return schemas


def reference(kind: type) -> Json:
    return {"$ref": f"#/components/schemas/{component_name(kind)}"}


def component_name(kind: type) -> str:
    return kind.__name__.removesuffix("Json")


def schema_of(hint: Any, found: dict[str, type]) -> Json:
    """The schema of *hint*; TypedDicts that it refers to are added to *found*."""
    if is_typeddict(hint):
        if found.setdefault(component_name(hint), hint) is not hint:
            raise ValueError(f"two types are the component {component_name(hint)}")
        return reference(hint)
    if hint is Any:
        return {}
    origin = get_origin(hint)
    return {"type": _PLAIN[hint]} if origin is None else _composed(hint, origin, get_args(hint), found)


def _composed(hint: Any, origin: Any, args: tuple[Any, ...], found: dict[str, type]) -> Json:
    """Annotated with a TypedDict: what a mapping is described as."""
    if origin is Annotated:
        described = next(filter(is_typeddict, hint.__metadata__), args[0])
        return schema_of(described, found) | _keywords(hint.__metadata__)
    if origin is Literal:
        return {"type": _PLAIN[type(args[0])], **({"enum": list(args)} if args[1:] else {"const": args[0]})}
    if origin in (Union, UnionType):
        return _union_schema([schema_of(each, found) for each in args])
    inner = schema_of(args[-1] if issubclass(origin, Mapping) else args[0], found)
    return (
        {"type": "object", "additionalProperties": inner or True}
        if issubclass(origin, Mapping)
        else {"type": "array", "items": inner}
    )


def _keywords(metadata: Iterable[object]) -> Json:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for each in metadata
        if isinstance(each, Schema)
        for name, value in each._asdict().items()
        if value is not None
    }


def _union_schema(choices: list[Json]) -> Json:
    """`{type: [T, null], ...}` where one choice beside null is a plain type."""
    rest = [each for each in choices if each != {"type": "null"}]
    if all(each.keys() == {"type"} for each in choices):
        return {"type": [each["type"] for each in choices]}
    if all("$ref" in each for each in rest):
        return {"oneOf": choices}
    if len(rest) > 1:
        return {"anyOf": choices}
    return (
        rest[0]
        | {"type": [rest[0]["type"], "null"]}
        | ({"enum": [*rest[0]["enum"], None]} if "enum" in rest[0] else {})
    )


def _object_schema(kind: Any, found: dict[str, type]) -> Json:
    texts, needed = field_texts(kind), []
    hints = get_type_hints(kind, include_extras=True)
    for name, hint in hints.items():
        if get_origin(hint) is NotRequired:
            (hints[name],) = get_args(hint)
        elif name in kind.__required_keys__:
            needed.append(name)
    properties = {
        name: schema_of(hint, found) | ({"description": texts[name]} if name in texts else {})
        for name, hint in hints.items()
    }
    text = {"description": " ".join(kind.__doc__.split())} if kind.__doc__ else {}
    return {"type": "object", **text, **({"required": needed} if needed else {}), "properties": properties}


def field_texts(kind: type) -> dict[str, str]:
    """Field -> the text behind it in the source, on one line; those of bases included."""
    module = sys.modules[kind.__module__]
    node = _classes_of(module.__name__)[kind.__name__]
    texts: dict[str, str] = {}
    for base in node.bases:
        if isinstance(base, ast.Name) and is_typeddict(above := getattr(module, base.id)):
            texts |= field_texts(above)
    for field, behind in pairwise(node.body):
        match field, behind:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = " ".join(text.split())
            case _:
                pass
    return texts


_PARSING: Final = Lock()
"""CPython 3.11 keeps one depth for all threads that parse, and raises SystemError where two do at
once: gh-106905."""


@cache
def _classes_of(module: str) -> Mapping[str, ast.ClassDef]:
    source = inspect.getsource(sys.modules[module])
    with _PARSING:
        tree = ast.parse(source)
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
