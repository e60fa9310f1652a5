"""The description of the admin operations, from their registry. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from gateway.common.lists.openapi.lists import list_answer, list_parameters
from gateway.common.lists.openapi.types import component_name, component_schemas, schema_of
from gateway.operate.operation import NAMED, AnyOperation, Json, Listed

ERRORS: Final = {
    400: "AdminBadRequest",
    401: "AdminNoToken",
    403: "AdminForbidden",
    404: "AdminNotFound",
    409: "AdminConflict",
    413: "AdminTooLarge",
    503: "AdminUnavailable",
}
"""Status -> component of the answer."""


def operation_paths(operations: Sequence[AnyOperation]) -> Json:
    """The path items of *operations*, before security and servers are written out."""
    paths: Json = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = described(operation)
    return paths


def described(operation: AnyOperation) -> Json:
    """The OpenAPI operation of one row of the registry."""
    item: Json = {"operationId": operation.id, "summary": operation.summary, "tags": [operation.tag]}
    if operation.text:
        item["description"] = operation.text
    if operation.scope is not None:
        item["x-scope"] = operation.scope
    if operation.open is not None:
        item["x-open"] = operation.open
    parameters = list(parameters_of(operation))
    if parameters:
        item["parameters"] = parameters
    if operation.body is not None:
        schema = {"$ref": f"#/components/schemas/{operation.body.__name__}"}
        item["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        if operation.is_body_needed:
            item["requestBody"]["required"] = True
    return {**item, "responses": responses_of(operation)}


def parameters_of(operation: AnyOperation) -> Iterator[Json]:
    for name in names_in(operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": operation.parameters.get(name, NAMED)}
    yield from operation.query
    if isinstance(operation.answer, Listed):
        yield from list_parameters(operation.answer.shape)


def responses_of(operation: AnyOperation) -> Json:
    """The success, and the errors that follow from the row: of the guard, the
    path, the query, the body.
    """
    has_names, is_list, has_body = names_in(operation.path), isinstance(operation.answer, Listed), operation.body
    errors = {401, 403, *operation.errors}
    errors |= {400} if has_names or is_list or has_body else set()
    errors |= {404} if has_names else set()
    errors |= {413} if has_body else set()
    responses = {str(status): {"$ref": f"#/components/responses/{ERRORS[status]}"} for status in sorted(errors)}
    if operation.conflict is not None:
        responses["409"] = {"$ref": f"#/components/responses/{operation.conflict}"}
    return {str(operation.status): success_of(operation), **responses}


def success_of(operation: AnyOperation) -> Json:
    answer = operation.answer
    if isinstance(answer, Listed):
        return list_answer(answer.shape, component_name(answer.item))
    if answer.kind is None:
        return {"description": answer.text}
    schema = answer.kind if isinstance(answer.kind, dict) else schema_of(answer.kind, {})
    return {"description": answer.text, "content": {"application/json": {"schema": schema}}}


def answer_schemas(operations: Sequence[AnyOperation]) -> Json:
    """The components of their answers."""
    answers = [each.answer.item if isinstance(each.answer, Listed) else each.answer.kind for each in operations]
    return component_schemas(kind for kind in answers if kind is not None and not isinstance(kind, dict))


def names_in(path: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", path)
