"""Recommendations in memory: `gateway.usage.recommendations.home` with a plain dictionary."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from gateway.usage.recommendations.recommendation import Recommendation


@dataclass
class MemoryRecommendationRows:
    kept: dict[str, Recommendation] = field(default_factory=dict)

    def every(self) -> list[Recommendation]:
        return sorted(self.kept.values(), key=lambda each: each.number)

    def put(self, rows: Iterable[Recommendation]) -> None:
        self.kept |= {each.recommendation_id: each for each in rows}

    def delete(self, recommendation_ids: Collection[str]) -> None:
        self.kept = {id_: each for id_, each in self.kept.items() if id_ not in recommendation_ids}
