"""The counts behind the two identities, as plain data that changes in the same commit as the records do. Pure.

Edge: `received = kept + duplicate + suppressed + rejected + ignored`.
Lane: `kept = delivered + pending + dead_lettered + expired`. Every number is counted on its own, none is derived,
so that the identities are checks.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from spool.record import Lane
from spool.store import ItemCounts

EDGE_FATES = ("received", "kept", "duplicate", "suppressed", "rejected", "ignored")


@dataclass(slots=True)
class LaneFigures:
    kept: int = 0
    delivered: int = 0
    pending: int = 0
    dead_lettered: int = 0
    expired: int = 0

    def is_balanced(self) -> bool:
        return self.kept == self.delivered + self.pending + self.dead_lettered + self.expired


@dataclass(slots=True)
class Figures:
    edge: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EDGE_FATES, 0))
    reasons: dict[str, int] = field(default_factory=dict)
    """`<fate>.<reason>` -> items."""
    lanes: dict[Lane, LaneFigures] = field(default_factory=dict)

    def copy(self) -> "Figures":
        lanes = {
            name: LaneFigures(x.kept, x.delivered, x.pending, x.dead_lettered, x.expired)
            for name, x in self.lanes.items()
        }
        return Figures(dict(self.edge), dict(self.reasons), lanes)

    def lane(self, name: Lane) -> LaneFigures:
        return self.lanes.setdefault(name, LaneFigures())

    def keep(self, lane: Lane, n: int) -> None:
        """*n* records came into *lane*."""
        figures = self.lane(lane)
        figures.kept += n
        figures.pending += n

    def add(self, tally: ItemCounts) -> None:
        """Count an append's items at the edge."""
        edge = self.edge
        edge["received"] += tally.received
        edge["kept"] += tally.kept
        edge["duplicate"] += tally.duplicate
        edge["suppressed"] += tally.suppressed
        edge["rejected"] += tally.rejected
        edge["ignored"] += tally.ignored
        for reason, n in tally.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + n

    def drop(self, lanes: list[Lane], fate: str) -> None:
        """A kept record that waited in *lanes* turned out to be a duplicate or suppressed: `<fate>.<reason>`."""
        self.edge["kept"] -= 1
        self.edge[fate.partition(".")[0]] += 1
        self.reasons[fate] = self.reasons.get(fate, 0) + 1
        for name in lanes:
            figures = self.lane(name)
            figures.kept -= 1
            figures.pending -= 1

    def is_balanced(self) -> bool:
        edge = self.edge
        return edge["received"] == sum(edge[fate] for fate in EDGE_FATES[1:]) and all(
            lane.is_balanced() for lane in self.lanes.values()
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Figures":
        lanes = {name: LaneFigures(**figures) for name, figures in value["lanes"].items()}
        return cls(dict(value["edge"]), dict(value["reasons"]), lanes)
