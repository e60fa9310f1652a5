"""Payloads read by a worker process: what goes there and what comes back, as types.

A large payload goes by itself. Small ones that the loop takes up in one turn go together, since handing over costs more than
reading one of them; a few are not worth it and are read here.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.contract.errors import BadPayload
from gateway.contract.parsed_payload import ParsedPayload
from gateway.ingest.parsing.points import ParsedMetrics
from gateway.ingest.parsing.process import Worker, WorkerGone
from gateway.ingest.parsing.sources import ParsedSource
from gateway.ingest.parsing.worker import Answer, Job, Setup
from gateway.normalise.context import Context

LARGE_BYTES = 8 * 1024
"""Such a payload goes by itself."""
TOGETHER_LEAST = 4
TOGETHER_MOST = 16


class Reader:
    """Start it in a running loop."""

    def __init__(
        self,
        *,
        users: str,
        user_secret: bytes,
        price_file: Path | None,
        prefer_metrics: frozenset[str],
        mapping: dict[str, Any] | None = None,
        machine_secret: bytes = b"",
        price_list: bool = True,
        own_device: str | None = None,
    ) -> None:
        setup = Setup(
            users=users,
            user_secret=user_secret,
            price_file=None if price_file is None else str(price_file),
            prefer_metrics=sorted(prefer_metrics),
            mapping=mapping,
            machine_secret=machine_secret,
            price_list=price_list,
            own_device=own_device,
        )
        self.worker = Worker("gateway.ingest.parsing.worker", lambda: setup)
        self._small: list[tuple[Job, asyncio.Future[Answer]]] = []
        self._handing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self.worker.start()

    async def stop(self) -> None:
        await self.worker.stop()

    @property
    def is_free(self) -> bool:
        """Whether it is worth asking."""
        return self.worker.is_free

    async def pack(
        self,
        kind: str,
        body: bytes,
        json: bool,  # noqa: FBT001 passed on
        context: Context,
    ) -> tuple[ParsedPayload, Mapping[str, int]]:
        """Calls read, and model -> calls without a price. Raises BadPayload; WorkerGone when it is to be read here."""
        fields, unpriced = await self._answer(kind, body, json, context)
        return ParsedPayload._make(fields), unpriced

    async def pack_metrics(self, body: bytes, json: bool, context: Context) -> ParsedMetrics:  # noqa: FBT001 passed on
        """Metrics read. Raises as `pack`."""
        fields, _ = await self._answer("metrics", body, json, context)
        return ParsedMetrics._make(fields)

    async def pack_source(self, kind: str, body: bytes, context: Context) -> tuple[ParsedSource, Mapping[str, int]]:
        """What an AI gateway pushed. Returns and raises as `pack`."""
        fields, unpriced = await self._answer(kind, body, True, context)  # noqa: FBT003 it is JSON
        return ParsedSource._make(fields), unpriced

    async def _answer(self, kind: str, body: bytes, json: bool, context: Context) -> Answer:  # noqa: FBT001 passed on
        fixes = tuple(context.key_fixes.items())
        who = (context.key, context.counted_as, context.peer, fixes)
        job: Job = (kind, json, body, context.received_at_ms, context.received_at, *who)
        if len(body) >= LARGE_BYTES:
            (answer,) = await self.worker.ask([job])
        else:
            answer = await self._together(job)
        fields, told = answer
        if fields is None and told is None:
            raise WorkerGone
        if fields is None:
            raise BadPayload(told)
        return fields, told

    def _together(self, job: Job) -> "asyncio.Future[Answer]":
        """The answer to *job*, which waits for the end of the loop's turn, or until there are enough."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._small.append((job, answer))
        if len(self._small) == TOGETHER_MOST:
            self._hand_over()
        elif len(self._small) == 1:
            loop.call_soon(self._hand_over)
        return answer

    def _hand_over(self) -> None:
        small, self._small = self._small, []
        if not small:
            return
        if len(small) < TOGETHER_LEAST or not self.worker.is_free:
            for _, answer in small:
                answer.set_exception(WorkerGone())
            return
        task = asyncio.create_task(self._ask(small))
        self._handing.add(task)
        task.add_done_callback(self._handing.discard)

    async def _ask(self, small: list[tuple[Job, "asyncio.Future[Answer]"]]) -> None:
        answers: list[Any]
        try:
            answers = await self.worker.ask([job for job, _ in small])
        except WorkerGone:
            answers = []
        for i, (_, waiting) in enumerate(small):
            if waiting.done():
                continue
            if answers:
                waiting.set_result(answers[i])
            else:
                waiting.set_exception(WorkerGone())
