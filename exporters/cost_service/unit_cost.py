"""The exporter of the `unit_cost` lane: totals of one stream and operation a request
(`replace`, `delete`, `sum`), and the one read before.

A record of the lane is `{"stream","kind","operation","record"}`; a batch has one stream and
operation. `replace` and `delete` may be sent any number of times. A `sum` may not: after an
answer that leaves open whether it was carried out, it is set aside for the operator. A stream
that nothing was sent of begins with a `read`: what the upstream holds goes to `learn`, which
must be idempotent and on disk when it returns; it gets None where this cannot be known.
A stream is made and deleted by batches of one item, `create_stream` and `delete_stream`; either may
be sent any number of times.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final, get_args
from urllib.parse import quote

import orjson
import structlog

from exporters.accounting import Sent
from exporters.answer_body import AnswerNotUnderstood, UnreadableAnswer, answer_bytes, whole_json
from exporters.base import Delivered, Hold, NotUnderstood, Outcome, Refused, Retry
from exporters.clock import Clock
from exporters.cost_service.answers import fault, leaves_open, wish_s
from exporters.cost_service.client import JSON, CostServiceClient
from exporters.cost_service.doubts import Doubts
from exporters.cost_service.encode import idempotency_key
from exporters.cost_service.lanes import KEY_REFUSALS, batch_outcome, key_refused, next_key, no_key
from exporters.http_client import HttpAnswer
from exporters.rate import TokenBucket
from spool.record import Batch
from spool.unit_cost import CREATE_STREAM, DELETE_STREAM, BaseRecord, Granularity, Shape, place_in

MANAGE_SCOPE = "unit-cost_v1:manage_telemetry_records"
READ_SCOPE = "unit-cost_v1:read_telemetry"
CREATE_SCOPE = "unit-cost_v1:create_telemetry_stream"
DELETE_SCOPE = "unit-cost_v1:delete_telemetry_stream"
RECORDS_BURST = 10_000
MAX_BASE_RECORDS = 200_000
"""A stream that holds more than this is not read: its buckets that began go by `sum`."""
PAGE_BYTES = 4 * 1024 * 1024
PAGE_OBJECTS = 8 * 32_768
"""What is read of one page: 32 000 records of 128 bytes."""
BLOCKED_S = 60.0
"""How long a stream waits whose name is blocked, where the answer does not state it."""
NOT_OFFERED = frozenset({404, 405, 501})
"""Of an upstream that has no request by which a stream is made."""
STREAM: Final = Sent(1, is_one_thing=True)
GONE_CODES = frozenset({"stream_unknown", "stream_not_found"})

log = structlog.get_logger("exporters.unit_cost")

Learn = Callable[[str, Sequence[BaseRecord] | None], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class UnitCostSettings:
    learn: Learn
    block: Callable[[str, float], Awaitable[None]]
    """(stream, seconds): its name is blocked at the upstream for so long; on disk when it
    returns."""
    suffix: str = ""
    """After each stream's name, at the upstream."""
    records_per_s: float = 100.0
    repeatable_sums: bool = False
    """Send a `sum` again after an answer that leaves open whether it was carried out."""


class UnitCostExporter:
    def __init__(self, client: CostServiceClient, settings: UnitCostSettings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._rate = TokenBucket(per_s=settings.records_per_s, burst=RECORDS_BURST)
        self._never = asyncio.Event()
        self._doubts = Doubts()

    async def send(self, batch: Batch) -> Outcome:
        """Send *batch*: totals of one stream by one operation, or a read of that stream."""
        items = read_items(batch)
        if items is None:
            return Refused("not_unit_cost", "the batch is no records of one stream and operation")
        of_stream = {"read": self._read, CREATE_STREAM: self._create, DELETE_STREAM: self._delete}
        if of_stream_alone := of_stream.get(items[0]["operation"]):
            return await of_stream_alone(items[0], batch)
        if delay_s := self._rate.take(self._clock.monotonic_s(), len(items)):
            await self._clock.wait(self._never, delay_s)
        is_sum = items[0]["operation"] == "sum"
        repeatable = not is_sum or self._settings.repeatable_sums
        if not repeatable:
            self._doubts.begin(batch)
        found = await self._post(items, batch, repeatable=repeatable)
        if not repeatable:
            return self._doubts.settled(batch, found)
        return whole(found) if is_sum else found

    async def close(self) -> None:
        """The client is shared; its owner closes it."""

    async def _post(self, items: Sequence[dict[str, Any]], batch: Batch, *, repeatable: bool) -> Outcome:
        key = self._client.keyring.key_for(MANAGE_SCOPE)
        if key is None:
            return no_key(MANAGE_SCOPE)
        body = encode_unit_cost(items, self._client.preset.unit_cost_element)
        answer = await self._client.post(
            self._path(items[0]),
            body,
            key,
            idempotency_key=idempotency_key(batch, self._client.gateway_id),
            batch_id=batch.batch_id,
            answer_bytes=answer_bytes(len(items), len(body)),
        )
        if isinstance(answer, Retry | Hold):
            return answer
        if answer.status in KEY_REFUSALS:
            return key_refused(self._client, key, MANAGE_SCOPE, batch.lane, answer)
        if items[0]["operation"] == "delete" and is_gone(answer):
            return Delivered()
        if is_blocked(answer):
            return await self._blocked(items[0]["stream"], answer)
        return batch_outcome(self._client, answer, batch, Sent(len(items)), repeatable=repeatable)

    async def _create(self, item: dict[str, Any], batch: Batch) -> Outcome:
        path = self._with_stream(self._client.preset.unit_cost_create, item["stream"])
        answer = await self._change("PUT", path, orjson.dumps(item["record"]), CREATE_SCOPE, batch)
        if not isinstance(answer, HttpAnswer):
            return answer
        if is_blocked(answer):
            return await self._blocked(item["stream"], answer)
        if answer.status in NOT_OFFERED:
            log.info("the upstream makes streams by their first records alone", stream=item["stream"])
            return Delivered()
        return batch_outcome(self._client, answer, batch, STREAM)

    async def _delete(self, item: dict[str, Any], batch: Batch) -> Outcome:
        """A stream that is not there is deleted."""
        force = "?force=true" if item["record"]["force"] else ""
        path = self._with_stream(self._client.preset.unit_cost_delete, item["stream"]) + force
        answer = await self._change("DELETE", path, None, DELETE_SCOPE, batch)
        if not isinstance(answer, HttpAnswer):
            return answer
        return Delivered() if is_gone(answer) else batch_outcome(self._client, answer, batch, STREAM)

    async def _change(
        self, method: str, path: str, body: bytes | None, scope: str, batch: Batch
    ) -> HttpAnswer | Retry | Hold:
        """Ask once for a change of a stream, under the first key that grants *scope*."""
        client = self._client
        key = client.keyring.key_for(scope)
        if key is None:
            return no_key(scope)
        headers = {
            client.preset.idempotency_header: idempotency_key(batch, client.gateway_id),
            client.preset.batch_id_header: batch.batch_id,
        } | ({} if body is None else {"Content-Type": JSON})
        answer = await client.request(method, path, key, headers=headers, body=body)
        if isinstance(answer, HttpAnswer) and answer.status in KEY_REFUSALS:
            return key_refused(client, key, scope, batch.lane, answer)
        return answer

    async def _blocked(self, stream: str, answer: HttpAnswer) -> Retry:
        """Another stream may go meanwhile, so the lane does not pause."""
        for_s = wish_s(answer.headers, self._client.now_unix_s()) or BLOCKED_S
        await self._settings.block(stream, for_s)
        return Retry(f"HTTP {answer.status}: the stream's name is blocked", answered=True, after_s=0.0)

    def _path(self, item: dict[str, Any]) -> str:
        template = self._client.preset.unit_cost_records
        return self._with_stream(template.replace("{kind}", item["kind"]), item["stream"]).replace(
            "{operation}", item["operation"]
        )

    def _with_stream(self, template: str, stream: str) -> str:
        return template.replace("{stream}", quote(stream + self._settings.suffix, safe=""))

    async def _read(self, item: dict[str, Any], batch: Batch) -> Outcome:
        """Ask what the upstream holds of the item's stream, all pages, and pass it on."""
        stream, kind = item["stream"], item["kind"]
        base: list[BaseRecord] = []
        cursor: str | None = None
        cursors: set[str] = set()
        while True:
            answer = await self._page(stream, cursor)
            if isinstance(answer, Retry | Hold):
                return answer
            if is_unknown_stream(answer):
                break
            try:
                page = base_page(answer, kind)
            except (UnreadableAnswer, AnswerNotUnderstood) as error:
                return leaves_open(answer.status, error)
            if page is None or len(base) + len(page[0]) > MAX_BASE_RECORDS or page[1] in cursors:
                return await self._unknown(stream, answer, batch)
            records, cursor = page
            cursors.add(cursor or "")
            base += records
            if cursor is None:
                break
        await self._settings.learn(stream, base)
        return Delivered()

    async def _page(self, stream: str, cursor: str | None) -> HttpAnswer | Retry | Hold:
        key = self._client.keyring.key_for(READ_SCOPE)
        if key is None:
            return HttpAnswer(403, {}, b"")
        path = self._with_stream(self._client.preset.unit_cost_read, stream)
        query = "" if cursor is None else f"?cursor={quote(cursor, safe='')}"
        answer = await self._client.request("GET", path + query, key, headers={}, answer_bytes=PAGE_BYTES)
        if (
            isinstance(answer, HttpAnswer)
            and answer.status in KEY_REFUSALS
            and (turn := next_key(self._client, key, READ_SCOPE, answer.status))
        ):
            return turn
        return answer

    async def _unknown(self, stream: str, answer: HttpAnswer, batch: Batch) -> Outcome:
        """No answer to build upon: wait where it may come, else begin with sums."""
        if not is_success(answer):
            general = batch_outcome(self._client, answer, batch, STREAM)
            if isinstance(general, Retry):
                return general
        log.warning("a stream cannot be read; its buckets that began go by sum", stream=stream, status=answer.status)
        await self._settings.learn(stream, None)
        return Delivered()


def whole(found: Outcome) -> Outcome:
    """*found* for a batch that is known as a repeat by its own id alone, and so is never halved."""
    match found:
        case Retry():
            return replace(found, unreadable=False)
        case NotUnderstood():
            return replace(found, is_divisible=False)
        case _:
            return found


def read_items(batch: Batch) -> list[dict[str, Any]] | None:
    """The batch's items; None when they are not of one stream and operation."""
    try:
        items: list[dict[str, Any]] = [orjson.loads(record) for record in batch.records]
        kinds = {(item["stream"], item["kind"], item["operation"]) for item in items}
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return items if len(kinds) == 1 else None


def encode_unit_cost(items: Sequence[dict[str, Any]], element_name: str) -> bytes:
    """The request's body; the same bytes on every try."""
    records = [item["record"] for item in items]
    if element_name != "element_name":
        records = [
            {element_name if name == "element_name" else name: value for name, value in record.items()}
            for record in records
        ]
    return orjson.dumps({"records": records})


def is_gone(answer: HttpAnswer) -> bool:
    """Whether a delete was refused because there is nothing to delete from."""
    return answer.status in {400, 404, 422} and names_no_stream(answer.body)


def is_blocked(answer: HttpAnswer) -> bool:
    """Whether the name of the stream is blocked, since one of that name was deleted just now."""
    if answer.status not in {400, 409, 422, 423}:
        return False
    said = fault(answer.body)
    message = said.message.lower()
    words = ("blocked", "recently deleted", "being deleted")
    return said.code == "stream_blocked" or ("stream" in message and any(word in message for word in words))


def is_unknown_stream(answer: HttpAnswer) -> bool:
    """Whether no one sent to the stream yet.

    A bare 404 may as well be a wrong path, behind which there are totals.
    """
    return answer.status == 404 and names_no_stream(answer.body)  # noqa: PLR2004 - as it states


def names_no_stream(body: bytes) -> bool:
    """Whether the answer's own words are that there is no such stream."""
    said = fault(body)
    message = said.message.lower()
    return said.code in GONE_CODES or ("stream" in message and ("exist" in message or "not found" in message))


def is_success(answer: HttpAnswer) -> bool:
    return 200 <= answer.status < 300  # noqa: PLR2004 - the 2xx class


def base_page(answer: HttpAnswer, kind: str) -> tuple[list[BaseRecord], str | None] | None:
    """The records of one page of a stream, and the cursor of the next; None when the answer is no
    page, or one beyond `PAGE_BYTES`.

    Raises UnreadableAnswer when it was cut or damaged on its way: the next one may be whole;
    AnswerNotUnderstood when it is text: someone else answers.
    """
    if not is_success(answer) or answer.cut == "is longer than its bound":
        return None
    content_type = answer.headers.get("Content-Type", "")
    page: Any = whole_json(answer.body, answer.cut, content_type=content_type, most_objects=PAGE_OBJECTS)
    try:
        records = [base_record(record, kind) for record in page["records"]]
        cursor = (page.get("pagination") or {}).get("cursor") or {}
        following = cursor.get("next_cursor")
    except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation):
        return None
    return records, following if isinstance(following, str) else None


def base_record(record: dict[str, Any], kind: str) -> BaseRecord:
    """Raises ValueError and others for what names no single place: it must not
    be taken for another one.
    """
    granularities: dict[object, Granularity] = {known: known for known in get_args(Granularity)}
    granularity = granularities[record.get("granularity") or "DAILY"]
    shape = Shape("metric" if kind == "metric" else "allocation", granularity, ())
    place, value = place_in(shape, record), Decimal(str(record["value"]))
    if place.is_wide(shape.kind) or not value.is_finite():
        raise ValueError("not the record of one place")
    return BaseRecord(place, value)
