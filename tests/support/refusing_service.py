"""An upstream that refuses some records by index while it is asked to, and counts the others once
by their id, as the service does.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.support.upstream import Reply, Seen


class RefusingService:
    """Its `respond` goes into `tests.support.upstream.Upstream`."""

    def __init__(self, refuses: Callable[[dict[str, Any]], str | None]) -> None:
        """*refuses* gives the code under which a record is refused; None takes it."""
        self.refuses = refuses
        self.taken: dict[str, dict[str, Any]] = {}
        """By record id."""
        self.arrivals: Counter[str] = Counter()
        """How often each taken record came."""
        self.batches: list[tuple[str, tuple[str, ...]]] = []
        """(idempotency key, record ids) of each request."""

    def respond(self, seen: Seen) -> Reply:
        if b'"ai-telemetry/1"' not in seen.body[:64]:
            return Reply(202)
        records = json.loads(seen.body)["records"]
        self.batches.append((seen.headers["Idempotency-Key"], tuple(record["record_id"] for record in records)))
        rejected = []
        for index, record in enumerate(records):
            code = self.refuses(record)
            if code is not None:
                rejected.append({"index": index, "code": code, "message": f"refused: {code}"})
            else:
                self.taken[record["record_id"]] = record
                self.arrivals[record["record_id"]] += 1
        answer = {"accepted": len(records) - len(rejected), "rejected": rejected}
        return Reply(202, {"Content-Type": "application/json"}, json.dumps(answer).encode())
