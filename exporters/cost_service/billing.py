"""Billing drops to an established connection of the cost management service, one body a request.

What a body holds, and which comes next, is the caller's matter.
"""

from typing import Any, Final, NamedTuple
from urllib.parse import quote

from exporters.accounting import Sent
from exporters.answer_body import answer_bytes
from exporters.base import Delivered, Hold, Outcome, Retry
from exporters.cost_service.answers import whole_document
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.encode import idempotency_key
from exporters.cost_service.lanes import KEY_REFUSALS, batch_outcome, key_refused, no_key
from exporters.http_client import HttpAnswer
from spool.record import Batch

DROP_SCOPE = "connections:create_billing_external_billing_drop"
VALIDATE_SCOPE = "connections:create_billing_external_validate_billing_drop"
BODY: Final = Sent(1, is_one_thing=True)


class Dropped(NamedTuple):
    """What became of one body."""

    outcome: Outcome
    is_partial: bool = False
    """The service states that it lacks other parts of the day."""


class BillingCalls:
    """Drops to *connection* under the first key that grants the scope."""

    def __init__(self, client: CostServiceClient, connection: str) -> None:
        self.client = client
        self.connection = connection

    @property
    def is_granted(self) -> bool:
        return self.client.keyring.grants(DROP_SCOPE)

    @property
    def can_validate(self) -> bool:
        return self.client.keyring.grants(VALIDATE_SCOPE)

    async def drop(self, batch: Batch, *, repeatable: bool = True) -> Dropped:
        """Post the batch's one record, which is the body. *repeatable*: to carry it out twice is
        to carry it out once.
        """
        path = self.client.preset.billing_drops.format(connection_id=quote(self.connection, safe=""))
        answer = await self._post(path, batch, DROP_SCOPE, idempotency_key(batch, self.client.gateway_id))
        if not isinstance(answer, HttpAnswer):
            return Dropped(answer)
        outcome = batch_outcome(self.client, answer, batch, BODY, repeatable=repeatable)
        return Dropped(outcome, isinstance(outcome, Delivered) and _is_partial(answer))

    async def validate(self, batch: Batch) -> Outcome:
        """Have the body checked, with nothing stored."""
        answer = await self._post(self.client.preset.validate_billing_drop, batch, VALIDATE_SCOPE, None)
        if not isinstance(answer, HttpAnswer):
            return answer
        return batch_outcome(self.client, answer, batch, BODY)

    async def _post(self, path: str, batch: Batch, scope: str, repeat_key: str | None) -> HttpAnswer | Retry | Hold:
        (body,) = batch.records
        key = self.client.keyring.key_for(scope)
        if key is None:
            return no_key(scope)
        answer = await self.client.post(path, body, key, idempotency_key=repeat_key, answer_bytes=answer_bytes(1, 0))
        if isinstance(answer, HttpAnswer) and answer.status in KEY_REFUSALS:
            return key_refused(self.client, key, scope, batch.lane, answer)
        return answer


def _is_partial(answer: HttpAnswer) -> bool:
    """Of an answer that was understood."""
    document: Any = whole_document(answer.headers, answer.body, answer.cut, 1)
    connection = document.get("connection")
    return isinstance(connection, dict) and connection.get("state") == "partial"
