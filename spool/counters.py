"""The counts behind the two identities, as plain data that changes in the same
commit as the records do. Pure.

Edge: `received = kept + duplicate + suppressed + rejected + ignored`. Lane: `kept = delivered
+ pending + dead_lettered + expired`. Every number is counted on its own, none is derived, so
that the identities are checks.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from spool.record import Lane
from spool.store import ItemCounts

EDGE_OUTCOMES = ("received", "kept", "duplicate", "suppressed", "rejected", "ignored")


@dataclass(slots=True)
class LaneCounters:
    kept: int = 0
    delivered: int = 0
    pending: int = 0
    dead_lettered: int = 0
    expired: int = 0

    def is_balanced(self) -> bool:
        return self.kept == self.delivered + self.pending + self.dead_lettered + self.expired


@dataclass(slots=True)
class Counters:
    edge: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EDGE_OUTCOMES, 0))
    reasons: dict[str, int] = field(default_factory=dict)
    """`<outcome>.<reason>` -> items."""
    lanes: dict[Lane, LaneCounters] = field(default_factory=dict)

    def copy(self) -> "Counters":
        lanes = {
            name: LaneCounters(x.kept, x.delivered, x.pending, x.dead_lettered, x.expired)
            for name, x in self.lanes.items()
        }
        return Counters(dict(self.edge), dict(self.reasons), lanes)

    def lane(self, name: Lane) -> LaneCounters:
        return self.lanes.setdefault(name, LaneCounters())

    def keep(self, lane: Lane, n: int) -> None:
        """*n* records came into *lane*."""
        counters = self.lane(lane)
        counters.kept += n
        counters.pending += n

    def add(self, counts: ItemCounts) -> None:
        """Count an append's items at the edge."""
        edge = self.edge
        edge["received"] += counts.received
        edge["kept"] += counts.kept
        edge["duplicate"] += counts.duplicate
        edge["suppressed"] += counts.suppressed
        edge["rejected"] += counts.rejected
        edge["ignored"] += counts.ignored
        for reason, n in counts.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + n

    def drop(self, lanes: list[Lane], outcome: str) -> None:
        """A kept record that waited in *lanes* turned out to be a duplicate or
        suppressed: `<outcome>.<reason>`.
        """
        self.edge["kept"] -= 1
        self.edge[outcome.partition(".")[0]] += 1
        self.reasons[outcome] = self.reasons.get(outcome, 0) + 1
        for name in lanes:
            counters = self.lane(name)
            counters.kept -= 1
            counters.pending -= 1

    def is_balanced(self) -> bool:
        edge = self.edge
        return edge["received"] == sum(edge[outcome] for outcome in EDGE_OUTCOMES[1:]) and all(
            lane.is_balanced() for lane in self.lanes.values()
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Counters":
        """What `as_json` gave. Raises KeyError, TypeError or ValueError for anything else."""
        lanes = {name: LaneCounters(**_whole_numbers(counters)) for name, counters in value["lanes"].items()}
        edge = _whole_numbers(value["edge"])
        return cls({outcome: edge[outcome] for outcome in EDGE_OUTCOMES}, _whole_numbers(value["reasons"]), lanes)


def _whole_numbers(counters: dict[str, Any]) -> dict[str, int]:
    if not all(type(n) is int for n in counters.values()):
        raise TypeError("a counter that is no whole number")
    return dict(counters)
