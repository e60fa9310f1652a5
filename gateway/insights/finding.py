"""What a detector finds, and the list of insights as service-interface parts 2.2 and 4.1 have it. Pure."""

import json
from hashlib import sha256
from typing import Final, Literal, NamedTuple, TypedDict, get_args

from gateway.lists.conventions import Filterable, ListShape, Sort

Status = Literal["new", "in_progress", "on_hold", "addressed", "ignored"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
UNSETTLED: Final[frozenset[Status]] = frozenset({"new", "in_progress", "on_hold"})

Effort = Literal["low", "medium", "high"]
Category = Literal["spend", "pricing", "data quality", "reliability", "delivery", "devices"]
"""Of what is found; one that a person makes may have any."""

INSIGHT_LIST: Final = ListShape(
    root="insights",
    sort_keys=("category", "cost_impact", "effort", "last_updated", "status", "title"),
    default_sort=Sort("status", "asc"),
    filters=(Filterable("status", STATUSES),),
)

_ID_HEX = 32


class Insight(TypedDict):
    """An item of the list: the six published fields, and the id by which it is read and changed."""

    id: str
    status: Status
    category: str
    cost_impact: str | None
    """Decimal string; None when nobody knows."""
    effort: str
    title: str
    last_updated: str


class InsightDetail(Insight):
    """One insight as it is read by its id."""

    cause: str | None
    """Which detector found it; None when it was made by hand."""
    status_set_by: str | None
    """Name of the key; None when no person set the status."""
    status_set_at: str | None


class Finding(NamedTuple):
    """One thing that an operator should know of."""

    cause: str
    """Which detector found it: `calls_lost`, `no_price`."""
    source: str
    """Whose it is; "" when it is no one's."""
    model: str
    """"" when it is of no model."""
    title: str
    """Names of services and models, numbers, and our own words; never anything else of a payload."""
    category: Category
    effort: Effort
    cost_impact: str | None = None
    """Decimal string; None when nobody knows."""

    @property
    def insight_id(self) -> str:
        """The same for the same cause, whatever its text says: never two insights of one cause."""
        whose = json.dumps([self.cause, self.source, self.model])
        return sha256(whose.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_HEX]
