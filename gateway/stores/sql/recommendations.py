"""`RecommendationHome` in a database."""

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict
from decimal import Decimal
from typing import Any, Final

from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.database import SqlHome, make_tables
from gateway.usage.recommendations.home import RecommendationHome
from gateway.usage.recommendations.recommendation import Recommendation
from gateway.usage.sums.figures import money_text
from spool.sql.connection import Connection

_PUT: Final = (
    "INSERT INTO recommendations (recommendation_id, recommendation_no, body) VALUES (?, ?, ?)"
    " ON CONFLICT (recommendation_id) DO UPDATE SET body = excluded.body"
)
_AMOUNTS: Final = ("cost", "cost_instead", "accepted_saving", "realised")


async def open_recommendations(database: SqlDatabase[Connection]) -> RecommendationHome:
    """Those in *database*; missing tables are created. Raises DatabaseUnavailable."""
    await make_tables(database, "recommendations")
    return SqlHome(database, SqlRecommendationRows)


class SqlRecommendationRows:
    """`RecommendationRows` in the caller's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def every(self) -> list[Recommendation]:
        rows = self._connection.execute("SELECT body FROM recommendations ORDER BY recommendation_no").fetchall()
        return [_recommendation(body) for (body,) in rows]

    def put(self, rows: Iterable[Recommendation]) -> None:
        self._connection.executemany(_PUT, [(each.recommendation_id, each.number, _body(each)) for each in rows])

    def delete(self, recommendation_ids: Collection[str]) -> None:
        self._connection.executemany(
            "DELETE FROM recommendations WHERE recommendation_id = ?", [(each,) for each in recommendation_ids]
        )


def _body(kept: Recommendation) -> str:
    fields = asdict(kept)
    amounts = {name: None if fields[name] is None else money_text(fields[name]) for name in _AMOUNTS}
    return json.dumps({**fields, **amounts}, ensure_ascii=False)


def _recommendation(body: str) -> Recommendation:
    fields: dict[str, Any] = json.loads(body)
    return Recommendation(
        **fields | {name: None if fields[name] is None else Decimal(fields[name]) for name in _AMOUNTS}
    )
