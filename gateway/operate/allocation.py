"""The operations on allocation: rules that give a team, project or tag to calls that bring none.

Beside the admin token and a session, an inbound key with the operation's own scope may call them.
"""

from typing import Any, Final, NamedTuple, TypedDict

from gateway.common.contract.errors import NotFound
from gateway.common.contract.scopes import (
    CREATE_ALLOCATION_SCOPE,
    CREATE_ALLOCATION_VERSION_SCOPE,
    READ_ALLOCATION_VERSION_SCOPE,
    READ_ALLOCATION_VERSIONS_SCOPE,
)
from gateway.common.lists.conventions import ListShape, Sort, envelope, read_request
from gateway.common.lists.memory import page_of
from gateway.operate.operation import Json, Listed, Operation, OperationAnswer, OperationCall
from gateway.operate.usage import SUMS_SCHEMA
from gateway.usage.allocation.body import NewDefinition, NewVersion, Preview
from gateway.usage.allocation.book import NO_SUCH_VERSION, Allocations, moved
from gateway.usage.allocation.rules_json import DefinitionJson, definition_json
from gateway.usage.sums.allocation import Definition
from gateway.usage.sums.answer_json import names_json, range_json, sums_json
from gateway.usage.sums.figures import UsageSums
from gateway.usage.sums.query import UsageQueries

DEFINITION_LIST: Final = ListShape(root="definitions", sort_keys=("target",), default_sort=Sort("target", "asc"))
VERSION_LIST: Final = ListShape(root="versions", sort_keys=("version",), default_sort=Sort("version", "desc"))
MAX_ROWS: Final = 100
"""Of a preview."""


class AllocationRequests(NamedTuple):
    book: Allocations
    queries: UsageQueries


class DefinitionAnswer(TypedDict):
    definition: DefinitionJson


async def definitions(store: AllocationRequests, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest."""
    return _listed(DEFINITION_LIST, store.book.current(), call)


async def versions(store: AllocationRequests, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest, NotFound."""
    return _listed(VERSION_LIST, store.book.versions(call.path["target"]), call)


async def show(store: AllocationRequests, call: OperationCall[None]) -> DefinitionAnswer:
    """Raises NotFound."""
    text = call.path["version"]
    if not (text.isascii() and text.isdecimal()):
        raise NotFound(NO_SUCH_VERSION)
    return {"definition": definition_json(store.book.version(call.path["target"], int(text)))}


async def create(store: AllocationRequests, call: OperationCall[NewDefinition]) -> DefinitionAnswer:
    """Raises NameInUse."""
    return {"definition": definition_json(await store.book.create(call.body, by=call.by))}


async def add_version(store: AllocationRequests, call: OperationCall[NewVersion]) -> DefinitionAnswer:
    """Raises BadPayload, NotFound."""
    made = await store.book.add_version(call.path["target"], call.body, by=call.by)
    return {"definition": definition_json(made)}


async def preview(store: AllocationRequests, call: OperationCall[Preview]) -> dict[str, Any]:
    """Raises BadListRequest, Overloaded."""
    found = await moved(store.queries, call.body)
    rows = [
        {
            **names_json((call.body.target,), (each.name,)),
            "before": _sums(each.before),
            "applied": _sums(each.applied),
            "after": _sums(each.after),
        }
        for each in found.rows()[:MAX_ROWS]
    ]
    return {
        "preview": {
            "target": call.body.target,
            **range_json(found.within),
            "rules": [sums_json(each) for each in found.of_rules],
            "names": rows,
            "totals": sums_json(found.after.total),
        }
    }


def _sums(sums: UsageSums | None) -> Json | None:
    return None if sums is None else sums_json(sums)


def _listed(shape: ListShape, found: list[Definition], call: OperationCall[None]) -> dict[str, Any]:
    request = read_request(shape, call.query)
    page = page_of(
        request,
        found,
        field_of=lambda each, name: each.target if name == "target" else each.version,
        id_of=lambda each: each.version,
        item_of=definition_json,
    )
    return envelope(shape, request, page)


# ---- the table

DEFINITIONS: Final = "/v2/allocation/definitions"
_TAG: Final = "Allocation"
_VERSIONS: Final = DEFINITIONS + "/{target}/versions"
_NULL_OR_SUMS: Final[Json] = {"oneOf": [SUMS_SCHEMA, {"type": "null"}]}
_SIDES: Final = ("before", "applied", "after")
_PREVIEW: Final[Json] = {
    "target": {"type": "string"},
    "from": {"type": "string", "format": "date-time"},
    "to": {"type": "string", "format": "date-time"},
    "rules": {"type": "array", "items": SUMS_SCHEMA, "description": "What each rule gives away, in their order."},
    "names": {
        "type": "array",
        "maxItems": MAX_ROWS,
        "description": (
            "Names of the target whose sums change, the highest cost first; null for calls without one. `before`: as"
            " calls bring it; `applied`: by the rules that are applied now; `after`: by the rules of the body."
        ),
        "items": {
            "type": "object",
            "required": [*_SIDES],
            "properties": {**dict.fromkeys(_SIDES, _NULL_OR_SUMS), "absent": {"type": "object"}},
        },
    },
    "totals": {**SUMS_SCHEMA, "description": "Of all calls: the same before and after."},
}
_PREVIEW_ANSWER: Final[Json] = {
    "type": "object",
    "required": ["preview"],
    "properties": {"preview": {"type": "object", "required": list(_PREVIEW), "properties": _PREVIEW}},
}

LIST: Final = Operation(
    method="GET", path=DEFINITIONS, id="listAllocationDefinitions", tag=_TAG,
    summary="Rules that give a team, a project or a tag to calls without one: the version of each target that is applied",
    scope=READ_ALLOCATION_VERSIONS_SCOPE, handler=definitions, answer=Listed(DEFINITION_LIST, DefinitionJson),
)  # fmt: skip
CREATE: Final = Operation(
    method="POST", path=DEFINITIONS, id="createAllocationDefinition", tag=_TAG,
    summary="Make the first version of a target's rules", text="It is applied at once, to every day that is kept.",
    scope=CREATE_ALLOCATION_SCOPE, handler=create, body=NewDefinition, errors=(409, 503),
    answer=OperationAnswer("The version, which is applied.", DefinitionAnswer, 201),
)  # fmt: skip
LIST_VERSIONS: Final = Operation(
    method="GET", path=_VERSIONS, id="listAllocationVersions", tag=_TAG,
    summary="All versions of a target's rules, the latest first",
    scope=READ_ALLOCATION_VERSIONS_SCOPE, handler=versions, answer=Listed(VERSION_LIST, DefinitionJson),
)  # fmt: skip
ADD_VERSION: Final = Operation(
    method="POST", path=_VERSIONS, id="createAllocationVersion", tag=_TAG,
    summary="Make the next version of a target's rules",
    text="It is applied at once, to every day that is kept. Without rules nothing is allocated.",
    scope=CREATE_ALLOCATION_VERSION_SCOPE, handler=add_version, body=NewVersion,
    answer=OperationAnswer("The version, which is applied.", DefinitionAnswer, 201),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=_VERSIONS + "/{version}", id="readAllocationVersion", tag=_TAG,
    summary="One version of a target's rules", scope=READ_ALLOCATION_VERSION_SCOPE, handler=show,
    answer=OperationAnswer("The version.", DefinitionAnswer),
)  # fmt: skip
PREVIEW: Final = Operation(
    method="POST", path="/v2/allocation/preview", id="previewAllocation", tag=_TAG,
    summary="What rules would move, before they are made", text="Nothing is changed. The rules are previewed in place of those that are applied.",
    scope=CREATE_ALLOCATION_SCOPE, handler=preview, body=Preview,
    answer=OperationAnswer("What each rule gives away, and each name before and after.", _PREVIEW_ANSWER),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[AllocationRequests, Any], ...]] = (
    LIST, CREATE, LIST_VERSIONS, ADD_VERSION, SHOW, PREVIEW,
)  # fmt: skip
