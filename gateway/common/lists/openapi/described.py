"""An operation's row as OpenAPI, for the paths of senders and those of the local service. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gateway.common.lists.conventions import ListShape
from gateway.common.lists.openapi.lists import list_answer, list_parameters

Json = dict[str, Any]


class Listed(NamedTuple):
    """The answer of a list."""

    shape: ListShape
    item: str
    """Component of one item."""


Answers = Mapping[int, tuple[str, str]]
"""Status of a success -> what it means, and the component of its body; "" where it has none."""


@dataclass(frozen=True, kw_only=True)
class Described:
    method: str
    path: str
    scope: str
    id: str
    """`operationId`."""
    tag: str
    summary: str
    text: str = ""
    body: str = ""
    """Component of the request's body; "" where it has none."""
    answers: Answers | Listed
    is_deprecated: bool = False

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def takes_otlp(self) -> bool:
        """Whether it speaks protobuf too."""
        return False


def described(row: Described, parameters: Iterable[Json], errors: Mapping[int, str]) -> Json:
    """*row*, before security and servers are written out. *errors*: status -> component of the
    answer.
    """
    item: Json = {"operationId": row.id, "summary": row.summary, "x-scope": row.scope, "tags": [row.tag]}
    if row.text:
        item["description"] = row.text
    if row.is_deprecated:
        item["deprecated"] = True
    listing = list_parameters(row.answers.shape) if isinstance(row.answers, Listed) else ()
    if taken := [*parameters, *listing]:
        item["parameters"] = taken
    if row.body:
        item["requestBody"] = {"required": True, "content": _content(row, row.body)}
    refusals = {str(status): ref("responses", errors[status]) for status in sorted(errors)}
    return {**item, "responses": {**dict(_successes(row)), **refusals}}


def _successes(row: Described) -> Iterator[tuple[str, Json]]:
    if isinstance(row.answers, Listed):
        yield "200", list_answer(*row.answers)
        return
    for status, (text, body) in row.answers.items():
        yield str(status), {"description": text, **({"content": _content(row, body)} if body else {})}


def _content(row: Described, component: str) -> Json:
    content: Json = {"application/json": {"schema": ref("schemas", component)}}
    return {**content, "application/x-protobuf": {"schema": {}}} if row.takes_otlp else content


def ref(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def names_in(path: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", path)
