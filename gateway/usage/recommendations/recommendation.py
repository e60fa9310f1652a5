"""A recommendation: what it says, its state, and how both change. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Literal, get_args

from gateway.usage.recommendations.waste import Kind, Waste
from gateway.usage.sums.figures import EXACT

State = Literal["open", "accepted", "dismissed"]
STATES: Final[tuple[State, ...]] = get_args(State)
MAX_KEPT: Final = 500
"""Open ones beyond it, of the smallest saving, are left out."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    recommendation_id: str
    number: int
    """In the order in which they were found."""
    kind: Kind
    service: str | None
    provider: str
    model: str
    instead: str | None
    currency: str
    cost: Decimal
    cost_instead: Decimal
    calls: int
    evidence: Mapping[str, int]
    found_ms: int
    updated_ms: int
    is_found: bool = True
    """Whether the latest look still found it."""
    state: State = "open"
    state_by: str | None = None
    state_ms: int | None = None
    accepted_saving: Decimal | None = None
    """In a month, when it was accepted."""
    accepted_calls: int | None = None
    """Of the service in that month, of all models."""
    realised: Decimal | None = None
    """Since it was accepted; None before a whole day has passed."""

    @property
    def saving(self) -> Decimal:
        return EXACT.subtract(self.cost, self.cost_instead)


def id_of(found: Waste) -> str:
    """The same use is the same recommendation, whatever its figures."""
    parts = (found.kind, found.service or "", found.provider, found.model)
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:32]


def looked(kept: Sequence[Recommendation], found: Iterable[Waste], now_ms: int) -> list[Recommendation]:
    """*kept* after a look that found *found*. One that is open and not found again goes; one that
    was accepted or dismissed stays as it is.
    """
    before = {each.recommendation_id: each for each in kept}
    number = max((each.number for each in kept), default=0)
    after: dict[str, Recommendation] = {}
    for waste in sorted(found, key=lambda each: -each.saving)[:MAX_KEPT]:
        known = before.get(id_of(waste))
        number += known is None
        after[id_of(waste)] = _of(waste, number, now_ms) if known is None else _updated(known, waste, now_ms)
    settled = [replace(each, is_found=False) for each in kept if each.state != "open"]
    return [*after.values(), *(each for each in settled if each.recommendation_id not in after)]


def _of(waste: Waste, number: int, now_ms: int) -> Recommendation:
    return Recommendation(id_of(waste), number, *waste, found_ms=now_ms, updated_ms=now_ms)


def _updated(known: Recommendation, waste: Waste, now_ms: int) -> Recommendation:
    """With the figures of *waste*; those of one that was accepted stay, as its promise."""
    if known.state == "accepted":
        return replace(known, is_found=True)
    changed = replace(
        known,
        is_found=True,
        instead=waste.instead,
        currency=waste.currency,
        cost=waste.cost,
        cost_instead=waste.cost_instead,
        calls=waste.calls,
        evidence=waste.evidence,
    )
    return known if changed == known else replace(changed, updated_ms=now_ms)


def with_state(
    kept: Recommendation, state: State, *, by: str, now_ms: int, service_calls: int | None
) -> Recommendation:
    """*service_calls*: of its service in the month, where it is accepted."""
    if state == kept.state:
        return kept
    is_accepted = state == "accepted"
    return replace(
        kept,
        state=state,
        state_by=by,
        state_ms=now_ms,
        accepted_saving=kept.saving if is_accepted else None,
        accepted_calls=service_calls if is_accepted else None,
        realised=None,
    )


def realised(accepted: Recommendation, calls: int, waste: Decimal) -> Decimal:
    """What was saved since: the saving of the month for as many *calls* of the service as since
    then, less the *waste* that is still there; never below 0.
    """
    if not accepted.accepted_calls or accepted.accepted_saving is None:
        return Decimal(0)
    expected = EXACT.divide(EXACT.multiply(accepted.accepted_saving, Decimal(calls)), Decimal(accepted.accepted_calls))
    return max(Decimal(0), EXACT.subtract(expected, waste))
