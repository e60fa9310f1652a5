"""A detector's finding, and the list of insights of service-interface parts 2.2 and 4.1. Pure."""

import json
from hashlib import sha256
from typing import Annotated, Final, Literal, NamedTuple, TypedDict, get_args

from gateway.common.contract.json_types import Money, Schema, Time
from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.common.lists.conventions import Filterable, ListShape, Sort

Status = Literal["new", "in_progress", "on_hold", "addressed", "ignored"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
UNSETTLED: Final[frozenset[Status]] = frozenset({"new", "in_progress", "on_hold"})

Effort = Literal["low", "medium", "high"]
Category = Literal["spend", "pricing", "data quality", "reliability", "delivery", "devices"]
"""Of found insights; a manual one may have any."""

INSIGHT_LIST: Final = ListShape(
    root="insights",
    sort_keys=("category", "cost_impact", "effort", "last_updated", "status", "title"),
    default_sort=Sort("status", "asc"),
    filters=(Filterable("status", STATUSES),),
)

COMMENT_LIST: Final = ListShape(root="comments", sort_keys=("created_at",), default_sort=Sort("created_at", "asc"))
"""Of one insight: `COMMENT_LIST.of(insight_id)`, whose cursors are of that insight only."""

_ID_HEX = 32


class Insight(TypedDict):
    """An item of the list: the six published fields, and the id by which it is read and changed."""

    id: str
    status: Status
    category: str
    cost_impact: Money | None
    """A decimal number in US dollars; null when nobody knows."""
    effort: str
    title: str
    last_updated: Time


class StatusChange(TypedDict):
    """One entry of an insight's history."""

    status: Status
    at: Time
    by: str | None
    """Name of the key; null where the rules set it."""


class InsightDetail(Insight):
    """One insight as it is read by its id."""

    cause: str | None
    """Which detector found it; null when it was made by hand."""
    status_set_by: str | None
    """Null when no person set the status."""
    status_set_at: Time | None
    history: Annotated[list[StatusChange], Schema(maxItems=50)]
    """The statuses that it had since this is kept, the oldest first."""


class InsightAnswer(TypedDict):
    insight: InsightDetail


class Finding(NamedTuple):
    """One condition that an operator should know."""

    cause: str
    """The detector that found it: `calls_lost`, `no_price`."""
    source: str
    """The service, lane or device it belongs to; "" for none."""
    model: str
    """"" when it belongs to no model."""
    title: str
    """Names of services and models, numbers, and our own words; never anything else of a
    payload.
    """
    category: Category
    effort: Effort
    cost_impact: str | None = None
    """Decimal string; None when unknown."""
    reach: Reach = EVERYTHING
    """Whose calls it is about."""

    @property
    def insight_id(self) -> str:
        """Equal for equal causes, whatever the text: one cause has one insight."""
        whose = json.dumps([self.cause, self.source, self.model])
        return sha256(whose.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_HEX]
