"""Cost and its dimensions for keys: the question about usage, under the scopes of billing data.

A key asks here what the admin token asks of `GET /v2/usage`.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypedDict

from gateway.common.contract.json_types import Count, Schema
from gateway.common.contract.scopes import READ_COSTS_SCOPE, READ_DIMENSIONS_SCOPE, READ_TAGS_SCOPE
from gateway.common.contract.tags import PREFIX
from gateway.common.lists.conventions import Filterable, ListShape, Sort, envelope, read_request
from gateway.common.lists.memory import page_of
from gateway.operate.operation import Listed, Operation, OperationAnswer, OperationCall
from gateway.operate.usage import ANSWER_KEYS, PARAMETERS, WITH_COMPARE, object_schema, show
from gateway.usage.sums.grains import DIMENSIONS, Dimension
from gateway.usage.sums.names import Absent
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.request import DEFAULT_DAYS, GROUPS
from gateway.usage.sums.timespan import TimeRange

MAX_NAMES: Final = 100
"""Of one dimension."""
ROOT: Final = "costs"
DIMENSION_LIST: Final = ListShape(
    root="dimensions",
    sort_keys=("name",),
    default_sort=Sort("name", "asc"),
    filters=(Filterable("name", DIMENSIONS),),
)


TAG_LIST: Final = ListShape(
    root="resource_tags",
    sort_keys=("name",),
    default_sort=Sort("name", "asc"),
    filters=(Filterable("name", (), is_open=True),),
)


class BillingDimension(TypedDict):
    name: str
    values: Annotated[list[str], Schema(maxItems=MAX_NAMES)]
    """Those that cost most."""
    value_count: Count
    """Of all that are known, also beyond the first 100."""
    has_unknown: bool
    """Some calls have no name of this dimension."""


async def costs(queries: UsageQueries, call: OperationCall[None]) -> dict[str, Any]:
    """As `GET /v2/usage`, the rows as `costs`. Raises BadListRequest, Overloaded."""
    found = await show(queries, call)
    return {ROOT if name == GROUPS.root else name: value for name, value in found.items()}


async def dimensions(queries: UsageQueries, call: OperationCall[None]) -> dict[str, Any]:
    """A page of the dimensions, each with its names. Raises BadListRequest, Overloaded."""
    return await listed(queries, call, DIMENSION_LIST, DIMENSIONS)


async def resource_tags(queries: UsageQueries, call: OperationCall[None]) -> dict[str, Any]:
    """A page of the tags, each with its values. Raises BadListRequest, Overloaded."""
    return await listed(queries, call, TAG_LIST, sorted(queries.tags), PREFIX)


async def listed(
    queries: UsageQueries, call: OperationCall[None], shape: ListShape, names: Sequence[str], prefix: str = ""
) -> dict[str, Any]:
    """A page of *names*; with *prefix* each is a dimension."""
    request = read_request(shape, call.query)
    page = page_of(request, names, field_of=lambda each, _: each, id_of=names.index, item_of=lambda each: each)
    await queries.refresh()
    async with queries.apart() as apart:
        items = [{**await names_of(apart, f"{prefix}{each}"), "name": each} for each in page.items]
    return envelope(shape, request, page._replace(items=items))


async def names_of(queries: UsageQueries, dimension: Dimension) -> BillingDimension:
    within = TimeRange.last_days(DEFAULT_DAYS, queries.now_ms())
    found = await queries.by(dimension, within=within, limit=MAX_NAMES)
    unknown = await unknown_of(queries, dimension, within)
    return {
        "name": dimension,
        "values": [group.names[0] for group in found.groups if isinstance(group.names[0], str)],
        "value_count": found.count - unknown,
        "has_unknown": unknown > 0,
    }


async def unknown_of(queries: UsageQueries, dimension: Any, within: TimeRange) -> int:
    """1 where some calls have no name of *dimension*, else 0."""
    if queries.is_limited_by(dimension):
        return 0
    return (await queries.by(dimension, within=within, where={dimension: (Absent.UNKNOWN,)}, limit=1)).count


# ---- the table

COSTS: Final = "/v2/billing/costs"
_TAG: Final = "Usage"
_KEYS: Final = {ROOT if name == GROUPS.root else name: schema for name, schema in ANSWER_KEYS.items()}

LIST_COSTS: Final = Operation(
    method="GET", path=COSTS, id="listCosts", tag=_TAG,
    summary="Calls, tokens and cost by dimensions, or by hour or day, for keys",
    text="As GET /v2/usage: billed calls by the start of the call, from the gateway's own sums.",
    scope=READ_COSTS_SCOPE, handler=costs, query=PARAMETERS, errors=(400, 503), limited=UsageQueries.limited,
    answer=OperationAnswer("A page, with the totals.", object_schema(_KEYS | WITH_COMPARE, _KEYS)),
)  # fmt: skip
LIST_DIMENSIONS: Final = Operation(
    method="GET", path="/v2/billing/dimensions", id="listDimensions", tag=_TAG,
    summary=f"Dimensions of cost, each with its names of the last {DEFAULT_DAYS} days, by cost",
    scope=READ_DIMENSIONS_SCOPE, handler=dimensions, answer=Listed(DIMENSION_LIST, BillingDimension),
    limited=UsageQueries.limited,
)  # fmt: skip
LIST_TAGS: Final = Operation(
    method="GET", path="/v2/billing/resource-tags", id="listResourceTags", tag=_TAG,
    summary=f"Tags, each with its values of the last {DEFAULT_DAYS} days, by cost",
    text="A tag is a dimension of usage and cost as tag:NAME. The option `tags` of the configuration has them.",
    scope=READ_TAGS_SCOPE, handler=resource_tags, answer=Listed(TAG_LIST, BillingDimension),
    limited=UsageQueries.limited,
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[UsageQueries, Any], ...]] = (LIST_COSTS, LIST_DIMENSIONS, LIST_TAGS)
