"""Recommendations as answers hold them, and their list. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, TypedDict

from gateway.common.contract.json_types import Count, Money, Time
from gateway.common.lists.conventions import Filterable, ListRequest, ListShape, Page, Sort, SortValue
from gateway.common.lists.memory import page_of
from gateway.usage.recommendations.recommendation import STATES, Recommendation, State
from gateway.usage.recommendations.waste import FORMULAS, KINDS, Kind
from gateway.usage.sums.figures import money_text
from spool.clock import rfc3339_ms

RECOMMENDATION_LIST: Final = ListShape(
    root="recommendations",
    sort_keys=("saving", "found_at"),
    default_sort=Sort("saving", "desc"),
    filters=(Filterable("state", STATES), Filterable("kind", KINDS)),
)
_MICRO: Final = 6


class RecommendationJson(TypedDict):
    id: str
    kind: Kind
    title: str
    service_name: str | None
    """Null for calls without one."""
    provider: str
    model: str
    instead: str | None
    """The smaller model; null for other kinds."""
    currency: str
    saving: Money
    """Of the calls of the last 30 whole UTC days: `cost` less `cost_instead`."""
    cost: Money
    cost_instead: Money
    formula: str
    calls: Count
    evidence: Mapping[str, int]
    state: State
    state_set_by: str | None
    """Null while nobody set it."""
    state_set_at: Time | None
    found: bool
    """Whether the latest look still found it."""
    realised: Money | None
    """Saved since the day after it was accepted. Null before a whole day has passed, for one that
    is not accepted, and where it is not known what the calls since then cost."""
    found_at: Time
    updated_at: Time


def recommendation_item(kept: Recommendation) -> RecommendationJson:
    return {
        "id": kept.recommendation_id,
        "kind": kept.kind,
        "title": title_of(kept),
        "service_name": kept.service,
        "provider": kept.provider,
        "model": kept.model,
        "instead": kept.instead,
        "currency": kept.currency,
        "saving": money_text(kept.saving),
        "cost": money_text(kept.cost),
        "cost_instead": money_text(kept.cost_instead),
        "formula": FORMULAS[kept.kind],
        "calls": kept.calls,
        "evidence": kept.evidence,
        "state": kept.state,
        "state_set_by": kept.state_by,
        "state_set_at": None if kept.state_ms is None else rfc3339_ms(kept.state_ms),
        "found": kept.is_found,
        "realised": None if kept.realised is None else money_text(kept.realised),
        "found_at": rfc3339_ms(kept.found_ms),
        "updated_at": rfc3339_ms(kept.updated_ms),
    }


def title_of(kept: Recommendation) -> str:
    service = kept.service or "calls without a service"
    match kept.kind:
        case "cheaper_model":
            return f"{service}: {kept.model} gives short answers; {kept.instead} gives them for less"
        case "cache_unread":
            return f"{service}: {kept.model} writes a cache that is hardly read; without it the calls cost less"
        case "reasoning":
            return f"{service}: {kept.model} reasons longer than it answers; a lower reasoning effort costs less"
        case "batch_price":
            return f"{service}: {kept.model} is called in few hours of the day; as a batch the calls cost less"
        case "failed_calls":
            return f"{service}: {kept.model} is paid for calls that fail; without them the calls cost less"


def page_of_recommendations(kept: Iterable[Recommendation], request: ListRequest) -> Page:
    return page_of(request, kept, field_of=_field, id_of=lambda each: each.number, item_of=recommendation_item)


def _field(kept: Recommendation, name: str) -> SortValue:
    match name:
        case "saving":
            return int(kept.saving.scaleb(_MICRO))
        case "found_at":
            return kept.found_ms
        case "state":
            return kept.state
        case _:
            return kept.kind
