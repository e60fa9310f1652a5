"""Bodies that create and change views. Pure."""

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import ConfigDict, Field

from gateway.common.body import Body
from gateway.common.contract.errors import BadPayload
from gateway.common.contract.tags import PREFIX
from gateway.common.lists.conventions import MAX_FILTER_CHARS, ORDERS
from gateway.common.one_line import OneLine
from gateway.usage.sums.grains import DIMENSIONS
from gateway.usage.sums.ranges import MAX_ZONE_CHARS, RANGES
from gateway.usage.sums.request import (
    GROUP_BY,
    INTERVALS,
    MAX_GROUPED,
    MAX_SEARCH_CHARS,
    PREVIOUS,
    Compare,
    OrderBy,
)
from gateway.usage.sums.saved_filter import DimensionWord, SavedFilter
from gateway.usage.sums.timespan import Interval

GroupBy = Annotated[
    list[DimensionWord],
    Field(
        min_length=1,
        max_length=MAX_GROUPED,
        description=f"a list of 1 to {MAX_GROUPED} of {', '.join(DIMENSIONS)} and {PREFIX}NAME",
    ),
]
IntervalWord = Annotated[
    Interval | None, Field(description=f"{' or '.join(INTERVALS)} in place of groups, or null for groups,")
]
SortKey = Annotated[OrderBy, Field(description=f"one of {', '.join(get_args(OrderBy))}")]
SortOrder = Annotated[Literal["asc", "desc"], Field(description=f"one of {', '.join(ORDERS)}")]
_TIME: Final = r"\d{4}-\d\d-\d\d(T\d\d:\d\d)?"
RangeWord = Annotated[
    str,
    Field(
        pattern=f"^({'|'.join(RANGES)}|{_TIME}/{_TIME})$",
        description=f"one of {', '.join(RANGES)}, or two times such as 2026-11-02/2026-11-09,",
    ),
]
ZoneWord = Annotated[
    str, Field(min_length=1, max_length=MAX_ZONE_CHARS, description="a name of the IANA list, such as Europe/Berlin,")
]
CompareWord = Annotated[Compare | None, Field(description=f"{PREVIOUS}, or null for no comparison,")]
SearchText = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=MAX_SEARCH_CHARS,
        description=f"1 to {MAX_SEARCH_CHARS} characters, or null for any name,",
    ),
]
EXAMPLE: Final[dict[str, Any]] = {
    "name": "Core by model",
    "filter": {"team": ["core"]},
    "group_by": ["model"],
    "range": "this_month",
}


class NewView(Body):
    """Without more than a name: provider and model in the last 30 days, by cost."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    name: OneLine
    filter: SavedFilter = Field(default_factory=dict)
    group_by: GroupBy = Field(default_factory=lambda: list(GROUP_BY))
    interval: IntervalWord = None
    sort_key: SortKey = "cost"
    sort_order: SortOrder = "desc"
    range: RangeWord = "last_30_days"
    time_zone: ZoneWord = "UTC"
    compare: CompareWord = None
    search: SearchText = None


class ViewChange(NewView):
    """Absent fields stay."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "example": {"range": "last_month"}})

    name: OneLine = ""


def fields_of(body: NewView) -> dict[str, Any]:
    """The fields that *body* states, of a new view with the defaults. Raises BadPayload."""
    fields = body.model_dump(exclude_unset=isinstance(body, ViewChange))
    if not fields:
        raise BadPayload(f"body: one of {', '.join(ViewChange.model_fields)} is needed")
    if sum(len(name or "") for names in fields.get("filter", {}).values() for name in names) > MAX_FILTER_CHARS:
        raise BadPayload(f"filter: at most {MAX_FILTER_CHARS} characters of names can be kept")
    return fields
