"""Where recommendations are kept, as this room uses it."""

from collections.abc import Collection, Iterable
from typing import Protocol

from gateway.common.storage.home import Home
from gateway.usage.recommendations.recommendation import Recommendation


class RecommendationRows(Protocol):
    """What is kept, inside one commit or snapshot."""

    def every(self) -> list[Recommendation]: ...

    def put(self, rows: Iterable[Recommendation]) -> None:
        """Store them, in place of those with their ids."""

    def delete(self, recommendation_ids: Collection[str]) -> None: ...


RecommendationHome = Home[RecommendationRows]
