"""The exporters of the service's record lanes: AI telemetry and usage events. Each is
an encoder and one `post`.
"""

from collections.abc import Callable, Mapping

from exporters.accounting import Sent, sent_in
from exporters.answer_body import answer_bytes
from exporters.base import Hold, Outcome, Retry
from exporters.cost_service.answers import fault, outcome
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.doubts import Doubts
from exporters.cost_service.encode import encode_event, encode_records, idempotency_key
from exporters.http_client import HttpAnswer
from exporters.keyring import OutboundKey
from exporters.otlp.exporter import SpanEncoder, headers_of
from spool.record import Batch, Lane

AI_TELEMETRY_SCOPE = "ai-telemetry-ingest:ingest-ai-telemetry"
EVENTS_SCOPE = "events_v1:create_event"
KEY_REFUSALS = frozenset({401, 403})


class AiTelemetryExporter:
    """Batches of canonical records, to the native JSON endpoint."""

    def __init__(self, client: CostServiceClient) -> None:
        self._client = client

    async def send(self, batch: Batch) -> Outcome:
        body = encode_records(batch, self._client.gateway_id)
        return await post_batch(self._client, self._client.preset.ai_telemetry_records, body, batch, AI_TELEMETRY_SCOPE)

    async def close(self) -> None:
        """The client is shared; its owner closes it."""


class UsageEventsExporter:
    """One usage event a request: freeze with `max_records=1`.

    *repeatable* states that the upstream knows a repeated event by its `event_id`; without it
    an event whose answer was an ambiguous 5xx is set aside for the operator, since a second
    try might count it twice.
    """

    def __init__(self, client: CostServiceClient, *, repeatable: bool) -> None:
        self._client = client
        self._repeatable = repeatable
        self._doubts = Doubts()

    async def send(self, batch: Batch) -> Outcome:
        if not self._repeatable:
            self._doubts.begin(batch)
        (record,) = batch.records
        body = encode_event(record, batch, self._client.gateway_id)
        path = self._client.preset.create_event
        found = await post_batch(self._client, path, body, batch, EVENTS_SCOPE, repeatable=self._repeatable)
        return found if self._repeatable else self._doubts.settled(batch, found)

    async def close(self) -> None:
        """The client is shared; its owner closes it."""


class OtlpTelemetryExporter:
    """Batches of canonical records as OTLP spans, to the service's OTLP endpoint; what the answer
    means is `exporters.otlp.answers`'.
    """

    def __init__(self, client: CostServiceClient) -> None:
        self._client = client
        self._encoder = SpanEncoder(packs=True)

    async def send(self, batch: Batch) -> Outcome:
        client = self._client
        encoded = await self._encoder.encode(batch)
        return await post_batch(
            client,
            client.preset.ai_telemetry_otlp,
            encoded.body,
            batch,
            AI_TELEMETRY_SCOPE,
            headers=headers_of(encoded),
            judge=lambda answer: self._encoder.outcome(answer, batch, encoded, now_unix_s=client.now_unix_s()),
        )

    async def close(self) -> None:
        """The client is shared; its owner closes it."""


async def post_batch(
    client: CostServiceClient,
    path: str,
    body: bytes,
    batch: Batch,
    scope: str,
    *,
    repeatable: bool = True,
    headers: Mapping[str, str] | None = None,
    judge: Callable[[HttpAnswer], Outcome] | None = None,
) -> Outcome:
    """Post the batch under the first key that grants *scope*; a refused key
    gives way to the next one at once.

    *judge* states what an answer means, where the service's own table does not.
    """
    key = client.keyring.key_for(scope)
    if key is None:
        return no_key(scope)
    answer = await client.post(
        path,
        body,
        key,
        idempotency_key=idempotency_key(batch, client.gateway_id),
        headers=headers,
        answer_bytes=answer_bytes(len(batch.records), len(body)),
    )
    if isinstance(answer, Retry | Hold):
        return answer
    if answer.status in KEY_REFUSALS:
        return key_refused(client, key, scope, batch.lane, answer)
    if judge is not None:
        return judge(answer)
    return batch_outcome(client, answer, batch, sent_in(batch), repeatable=repeatable)


def batch_outcome(
    client: CostServiceClient, answer: HttpAnswer, batch: Batch, sent: Sent, *, repeatable: bool = True
) -> Outcome:
    """What the answer to the whole batch means for it."""
    return outcome(
        answer.status,
        answer.headers,
        answer.body,
        batch.lane,
        sent=sent,
        now_unix_s=client.now_unix_s(),
        repeatable=repeatable,
        cut=answer.cut,
    )


def no_key(scope: str) -> Hold:
    return Hold(f"no configured key that can be read grants {scope}", answered=False)


def key_refused(
    client: CostServiceClient, key: OutboundKey, scope: str, lane: Lane, answer: HttpAnswer
) -> Retry | Hold:
    """The turn of the next key for *scope*; without one, a hold that names key and scope."""
    said = fault(answer.body)
    why = f"{lane}: HTTP {answer.status}: the key {key.name!r} is refused or lacks the scope {scope}: {said}"
    return next_key(client, key, scope, answer.status) or Hold(why)


def next_key(client: CostServiceClient, key: OutboundKey, scope: str, status: int) -> Retry | None:
    """A retry at once when the ring has another secret for *scope*; as an answered failure, so
    under a new idempotency key.
    """
    if client.keyring.refuse(key, scope):
        return Retry(f"HTTP {status}: key {key.name!r} is refused; the next one is tried", answered=True, after_s=0.0)
    return None
