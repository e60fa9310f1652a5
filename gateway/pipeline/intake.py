"""The intake of the gateway: telemetry goes to the front, everything else to what takes it.

It fills `gateway.common.contract.intake.Intake`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import orjson

from gateway.common.contract.errors import BadPayload, NotFound
from gateway.common.contract.event_form import OWN_FORM, EventForm
from gateway.common.contract.intake import Receipt, Sender, TakenTogether
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.parsed_payload import Reported
from gateway.common.contract.unit_cost import Target
from gateway.fleet.devices.intake import DeviceIntake
from gateway.fleet.senders.repeats import reported_once, sent_in
from gateway.pipeline.front import Front, Taken
from gateway.pipeline.parsing.parse import Payload
from gateway.products.records.envelope import positions_in
from gateway.usage.events.intake import Metering
from spool.store import IntakeStore
from spool.unit_cost import StreamState

OTLP_JSON: Final = re.compile(rb'\s*+\{\s*+"resource(Spans|Logs|Metrics)"')
"""OTLP/JSON, which a source path takes as well."""
LOOKED_AT_BYTES: Final = 64 * 1024
"""In which it must begin: a body may be blank to its end."""
KINDS: Final = {b"Spans": "traces", b"Logs": "logs", b"Metrics": "metrics"}


class GatewayIntake:
    """Telemetry, usage events, unit cost and devices."""

    def __init__(
        self,
        spool: IntakeStore,
        front: Front,
        metering: Metering | None,
        devices: DeviceIntake | None = None,
    ) -> None:
        """Without *metering* or *devices* none is kept here: their routes are not found."""
        self._spool = spool
        self.front = front
        self._metered = metering
        self._devices = devices

    async def traces(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        return await self._take("otlp.traces", Payload("traces", body, json), sender)

    @property
    def takes_together(self) -> bool:
        return self.front.parser.reader.reads_spans

    def traces_together(self, bodies: Sequence[bytes], *, sender: Sender) -> TakenTogether | None:
        return self.front.put_together(bodies, sender)

    async def logs(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        return await self._take("otlp.logs", Payload("logs", body, json), sender)

    async def metrics(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        return await self._take("otlp.metrics", Payload("metrics", body, json), sender)

    async def source(self, name: str, body: bytes, *, sender: Sender, first_line: int = 1) -> Receipt:
        otlp = OTLP_JSON.match(body, 0, LOOKED_AT_BYTES)
        if otlp is not None:
            with suppress(BadPayload):  # it may be several export requests, one a line
                return await self._take(name, Payload(KINDS[otlp[1]], body), sender)
        return await self._take(name, Payload(name, body, first_line=first_line), sender)

    async def forwarded(self, body: bytes, *, sender: Sender) -> Receipt:
        taken = await self.front.put(Payload("forwarded", body), sender)
        receipt = receipt_of("records", len(body), taken)
        parsed, admitted = taken.parsed, taken.admitted
        if parsed.calls is None or admitted.calls is parsed.calls:
            return receipt
        known = len(parsed.calls.rejected)
        rejected = receipt.rejected
        blocked = blocked_records(parsed.calls.records, body, rejected[known:])
        return receipt._replace(rejected=(*rejected[:known], *blocked))

    async def events(
        self, body: bytes, *, sender: Sender, form: EventForm = OWN_FORM, are_metered: bool = True
    ) -> Receipt:
        self._spool.admit(len(body))
        receipt = await self._metering.events(body, sender, form=form, are_metered=are_metered)
        return receipt.noted("usage_events", len(body))

    async def unit_cost(self, target: Target | None, body: bytes, *, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        return (await self._metering.unit_cost(target, body, sender)).noted("unit_cost", len(body))

    async def create_stream(self, stream: str, body: bytes, *, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        return (await self._metering.create_stream(stream, body)).noted("unit_cost", len(body))

    async def delete_stream(self, stream: str, *, forced: bool, sender: Sender) -> Receipt:
        self._spool.admit(0)
        return (await self._metering.delete_stream(stream, sender, forced=forced)).noted("unit_cost", 0)

    async def streams(self) -> list[StreamState]:
        return await self._metering.streams()

    async def heartbeat(self, device_id: str, body: bytes, *, sender: Sender, enrolls: bool = True) -> Receipt:
        receipt = await self._known_devices.heartbeat(device_id, body, sender, enrolls=enrolls)
        return receipt.noted("devices", len(body))

    async def ping(self, device_id: str, body: bytes, *, sender: Sender, enrolls: bool = True) -> Receipt:
        return (await self._known_devices.ping(device_id, sender, enrolls=enrolls)).noted("devices", len(body))

    async def enroll(self, body: bytes, *, sender: Sender) -> Receipt:
        return (await self._known_devices.enroll(body)).noted("devices", len(body))

    async def _take(self, format_: str, payload: Payload, sender: Sender) -> Receipt:
        taken = await self.front.put(payload, sender)
        return receipt_of(format_, len(payload.body), taken, is_new=payload.first_line == 1)

    @property
    def _metering(self) -> Metering:
        if self._metered is None:
            raise NotFound("usage events and unit cost are not kept here")
        return self._metered

    @property
    def _known_devices(self) -> DeviceIntake:
        if self._devices is None:
            raise NotFound("devices are not kept here")
        return self._devices


def receipt_of(format_: str, size_bytes: int, taken: Taken, *, is_new: bool = True) -> Receipt:
    """With what each service sent; unless it *is_new*, it is more of the request before."""
    calls, points, *_ = taken.parsed
    reported: Sequence[Reported] = [] if calls is None else reported_once(calls.reported, taken.repeats)
    if points is not None:
        reported = [*reported, *((service, n, 0, 0) for service, n in points.services.items())]
    items, rejected, warning, answer, ignored, *_ = taken.receipt
    sent = sent_in(reported, size_bytes, items, is_new=is_new)
    return Receipt(items, rejected, warning, answer, ignored, format_, sent)


def blocked_records(records: Sequence[bytes], body: bytes, blocked: Iterable[Rejection]) -> Iterator[Rejection]:
    """*blocked*, which names calls among *records*, with the place of each in
    the envelope *body* instead.
    """
    positions = positions_in(body)
    for rejection in blocked:
        number = int(rejection.position.removeprefix("calls[").removesuffix("]"))
        record_id = orjson.loads(records[number])["record_id"]
        yield rejection._replace(position=positions[record_id].pop(0))
