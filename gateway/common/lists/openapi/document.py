"""An OpenAPI 3.1 document out of YAML files: read, merged, scopes written out.

An operation may hold `x-scope: name`; it becomes `security`: any of the ways in that the listener
takes, each with that scope. The name stays beside it.
"""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import yaml
from pydantic import BaseModel

from gateway.common.body import body_schema

Json = dict[str, Any]

OPENAPI = "3.1.0"
DISTRIBUTION = "ai-telemetry-gateway"
METHODS = ("get", "put", "post", "patch", "delete")

Secure = Callable[[Json], list[dict[str, list[str]]]]
"""An operation -> its `security`."""


def read_folder(package: str, folder: str) -> Json:
    """All YAML files in *folder* of *package*, as one part: `paths`, `tags`, `components`, and
    what else stands at the top of one.
    """
    names = sorted(entry.name for entry in (files(package) / folder).iterdir() if entry.name.endswith(".yaml"))
    return merged(yaml.safe_load((files(package) / folder / name).read_text("utf-8")) for name in names)


def merged(parts: Iterable[Json]) -> Json:
    """Objects are laid into each other, lists one behind the other. Raises ValueError for
    a name that is defined twice.
    """
    whole: Json = {}
    for part in parts:
        for name, value in part.items():
            before = whole.get(name)
            if before is None:
                whole[name] = value
            elif isinstance(before, dict) and isinstance(value, dict):
                whole[name] = merged([before, value])
            elif isinstance(before, list) and isinstance(value, list):
                whole[name] = before + value
            else:
                raise ValueError(f"{name} is defined twice")
    return whole


def model_schemas(models: Iterable[type[BaseModel]]) -> Json:
    """Name of a body's model -> its JSON Schema."""
    return {model.__name__: body_schema(model) for model in models}


def written_out(part: Json, secure: Secure, servers: list[Json]) -> Json:
    """*part* with `security` of each operation, each of its paths with *servers*."""
    paths = {
        path: {"servers": servers, **{key: {**each, "security": secure(each)} for key, each in item.items()}}
        for path, item in part["paths"].items()
    }
    return {**part, "paths": paths}


def with_answers_to_bodies(part: Json, answers: Json) -> Json:
    """*part*, whose operations that take a body have *answers* too, unless they state their own."""
    paths = {
        path: {
            key: {**each, "responses": answers | each["responses"]} if "requestBody" in each else each
            for key, each in item.items()
        }
        for path, item in part["paths"].items()
    }
    return {**part, "paths": paths}


def document(title: str, text: str, parts: Iterable[Json]) -> Json:
    """The whole document of *parts*, which hold `paths`, `tags` and `components`."""
    whole = merged(parts)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": title,
            "version": version(DISTRIBUTION),
            "description": text,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": whole["tags"],
        "paths": whole["paths"],
        "components": whole["components"],
    }


def operations(whole: Json) -> Iterator[tuple[str, str, Json]]:
    """(method in capitals, path, operation) of all that a document describes."""
    for path, item in whole["paths"].items():
        for method in METHODS:
            if method in item:
                yield method.upper(), path, item[method]
