"""An OpenAPI document, asked whether real answers are what it states: status,
content type, headers and body.

Answers are held to more than the document asks of clients: a field that it does not name is a fault
too, unless the schema states `additionalProperties`. So no answer can grow without its description.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from gateway.common.lists.openapi.document import METHODS

Json = dict[str, Any]
WHOLE = "urn:document"


class Answered(NamedTuple):
    """One answer as it came."""

    method: str
    path: str
    """Without query."""
    status: int
    headers: Mapping[str, str]
    """Look-up without regard to case."""
    body: bytes


class Described:
    def __init__(self, document: Json) -> None:
        self._document = closed(document)
        self._registry: Registry[Any] = Registry().with_resource(WHOLE, Resource(self._document, DRAFT202012))
        self._patterns = [(pattern_of(path), path) for path in sorted(document["paths"], key=lambda path: "{" in path)]
        self.met: set[tuple[str, str, int]] = set()
        """(method, path of the document, status) of every answer that was checked."""

    def check(self, answered: Answered) -> None:
        """Raises AssertionError with what differs."""
        path = self.path_of(answered)
        method = "GET" if answered.method == "HEAD" else answered.method
        where = f"{method} {path} {answered.status}"
        operation = self._document["paths"][path].get(method.lower())
        assert operation is not None, f"{where}: no such operation is described"
        assert str(answered.status) in operation["responses"], f"{where} is not described: {answered.body[:300]!r}"
        response = self._resolved(operation["responses"][str(answered.status)])
        for name in response.get("headers", {}):
            # What is described may be left out where a condition stands in the words, but not where
            # there is no other way.
            assert name in answered.headers or answered.status in {429, 503}, f"{where}: header {name} is missing"
        if answered.method != "HEAD":
            self._check_body(where, response.get("content", {}), answered)
        self.met.add((method, path, answered.status))

    def path_of(self, answered: Answered) -> str:
        """The document's path, one without parameters first."""
        for pattern, path in self._patterns:
            if pattern.fullmatch(answered.path) and answered.method.lower().replace("head", "get") in self._methods(
                path
            ):
                return path
        raise AssertionError(f"{answered.method} {answered.path} is not described")

    def _methods(self, path: str) -> set[str]:
        return self._document["paths"][path].keys() & set(METHODS)

    def _check_body(self, where: str, content: Json, answered: Answered) -> None:
        if not content:
            assert not answered.body, f"{where}: a body is not described"
            return
        media = answered.headers.get("Content-Type", "").partition(";")[0]
        assert media in content, f"{where}: {media!r} is not described"
        if media == "application/json":
            faults = list(self._faults(content[media]["schema"], orjson.loads(answered.body)))
            assert not faults, f"{where}: {faults}"

    def _faults(self, schema: Json, value: object) -> Iterator[str]:
        validator = Draft202012Validator(
            absolute(schema), registry=self._registry, format_checker=Draft202012Validator.FORMAT_CHECKER
        )
        for error in validator.iter_errors(value):
            yield f"{error.json_path}: {error.message[:300]}"

    def schema_faults(self, name: str, value: object) -> list[str]:
        """What is wrong with *value* as a `components.schemas` of that name."""
        return list(self._faults({"$ref": f"#/components/schemas/{name}"}, value))

    def _resolved(self, found: Json) -> Json:
        if "$ref" not in found:
            return found
        target: Json = self._document
        for part in found["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return target


def closed(value: Any) -> Any:
    """A copy in which objects with named properties allow no others, and every
    reference is to the whole document.
    """
    if isinstance(value, dict):
        copy = {name: closed(each) for name, each in value.items()}
        is_schema = isinstance(copy.get("properties"), dict) and "type" in copy
        return {**copy, "additionalProperties": False} if is_schema and "additionalProperties" not in copy else copy
    return [closed(each) for each in value] if isinstance(value, list) else value


def absolute(value: Any) -> Any:
    """A copy whose references are to the whole document, wherever it is read."""
    if isinstance(value, dict):
        return {
            name: WHOLE + each if name == "$ref" and isinstance(each, str) else absolute(each)
            for name, each in value.items()
        }
    return [absolute(each) for each in value] if isinstance(value, list) else value


def pattern_of(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{\w+\}", path)
    return re.compile("[^/]+".join(map(re.escape, parts)))
