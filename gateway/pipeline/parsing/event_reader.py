"""Bodies of usage events and unit cost are read where payloads of telemetry are."""

from functools import partial
from typing import Any

from gateway.common.contract.event_form import EventForm
from gateway.common.contract.unit_cost import Target
from gateway.common.in_thread import HERE_BYTES, in_thread
from gateway.pipeline.parsing.event_frames import events_job, records_job, unpack_events, unpack_records
from gateway.pipeline.parsing.frames import Job
from gateway.pipeline.parsing.process import WorkerGone
from gateway.pipeline.parsing.worker_client import WorkerClient
from gateway.usage.events.checks import EventRules
from gateway.usage.events.events import Events
from gateway.usage.events.reading import ReadHere
from spool.unit_cost import Metered


class ReadApart:
    """`gateway.usage.events.reading.BodyReader`: larger bodies go to the processes of *worker*."""

    def __init__(self, worker: WorkerClient) -> None:
        self._worker = worker
        self._here = ReadHere()

    async def events(
        self, body: bytes, form: EventForm, now_ms: int, rules: EventRules, nonce: bytes, sender: str
    ) -> Events:
        packed = await self._packed(events_job(body, form, now_ms, rules, nonce), sender)
        if packed is None:
            return await self._here.events(body, form, now_ms, rules, nonce, sender)
        return await in_thread(partial(unpack_events, packed), is_long=True)

    async def records(
        self, body: bytes, target: Target | None, now_ms: int, rules: EventRules, sender: str
    ) -> list[Metered]:
        packed = await self._packed(records_job(body, target, now_ms), sender)
        if packed is None:
            return await self._here.records(body, target, now_ms, rules, sender)
        return await in_thread(partial(unpack_records, packed), is_long=True)

    async def _packed(self, job: Job, sender: str) -> Any:
        """None where it is to be read here."""
        if len(job.body) <= HERE_BYTES:
            return None
        try:
            packed, _ = await self._worker.read(job, sender)
        except WorkerGone:
            return None
        return packed
