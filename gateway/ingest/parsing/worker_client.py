"""The gateway's side of its parser process: hands payloads over, and unpacks the answers.

A large payload goes by itself. Small ones that arrive in one iteration of the event loop go
together, since handing over costs more than parsing one of them; with fewer than
`TOGETHER_LEAST` it is not worth it. The iteration before states how many will arrive: at a
moderate load nothing is prepared for the worker that does not go there.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from gateway.common.in_thread import in_thread
from gateway.contract.errors import Overloaded
from gateway.ingest.metrics import POINTS_HERE
from gateway.ingest.parsing.frames import BEHIND, ERRORS, Answer, Job, Setup, job_of, points_in, unpack
from gateway.ingest.parsing.parse import Parsed, Payload
from gateway.ingest.parsing.process import Worker, WorkerDied, WorkerGone
from gateway.normalise.context import Context

LARGE_BYTES: Final = 8 * 1024
"""Such a payload goes by itself."""
BEHIND_BYTES: Final = 256 * 1024
"""The body of such a payload follows its frame as it is: in the frame it would be copied three
times, on the loop."""
FIRST_WORK_BYTES: Final = 1024 * 1024
"""A worker that starts later starts after so many bytes of payloads that Python reads."""
DIED: Final = "the process that reads bodies ended over this one: send it again later, or less in one request"
DIED_RETRY_S: Final = 10
TOGETHER_LEAST: Final = 4
TOGETHER_MOST: Final = 16


class WorkerClient:
    """Start it in a running loop."""

    def __init__(self, setup: Setup) -> None:
        self.worker = Worker("gateway.ingest.parsing.worker", lambda: setup)
        self._waits_for_bytes = 0
        self._small: list[tuple[Job, asyncio.Future[Answer]]] = []
        self._handing: set[asyncio.Task[None]] = set()
        self._arrived = 0
        """Small payloads in this iteration of the loop."""
        self._arrived_before = 0
        """The same in the last iteration that brought any."""

    def start(self) -> None:
        self.worker.start()

    def start_later(self) -> None:
        """Start it once there is work for it: beside the native reader there may be none."""
        self._waits_for_bytes = FIRST_WORK_BYTES

    def _note_work(self, n_bytes: int) -> None:
        """A payload of that size is for Python to read."""
        if self._waits_for_bytes > 0:
            self._waits_for_bytes -= n_bytes
            if self._waits_for_bytes <= 0:
                self.start()

    async def stop(self) -> None:
        await self.worker.stop()

    @property
    def is_free(self) -> bool:
        """Whether the worker runs and its backlog is short."""
        return self.worker.is_free

    def takes(self, payload: Payload) -> bool:
        """Whether handing it over is likely to pay; ask once a payload."""
        self._note_work(len(payload.body))
        if not self.worker.is_free:
            return False
        if len(payload.body) >= LARGE_BYTES:
            return True
        self._arrived += 1
        if self._arrived == 1:
            asyncio.get_running_loop().call_soon(self._end_iteration)
        return self._arrived_before >= TOGETHER_LEAST

    def _end_iteration(self) -> None:
        self._arrived_before, self._arrived = self._arrived, 0

    async def parse(self, payload: Payload, context: Context) -> tuple[Parsed, Mapping[str, int]]:
        """The payload, parsed, and model -> calls without a price.

        Raises BadPayload, TooLarge; Overloaded where the worker died over it; WorkerGone when the
        caller must parse it itself. Ask only when it `is_free`.
        """
        job = job_of(payload, context)
        if len(payload.body) >= LARGE_BYTES:
            try:
                if len(payload.body) < BEHIND_BYTES:
                    (answer,) = await self.worker.ask([job])
                else:
                    apart = job_of(payload._replace(body=b""), context)
                    (answer,) = await self.worker.ask([apart, BEHIND], payload.body)
            except WorkerDied:
                raise Overloaded(DIED, retry_after_s=DIED_RETRY_S) from None
        else:
            answer = await self._together(job)
        fields, rest = answer
        if fields is None and rest is None:
            raise WorkerGone
        if fields is None:
            name, text = rest
            raise ERRORS[name](text)
        return await in_thread(partial(unpack, fields), is_long=points_in(fields) > POINTS_HERE), rest

    def _together(self, job: Job) -> "asyncio.Future[Answer]":
        """The answer to *job*, which waits for this iteration of the loop to
        end, or for `TOGETHER_MOST`.
        """
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
        except (WorkerGone, WorkerDied):  # none of them is of a size that could kill anything
            answers = []
        for i, (_, waiting) in enumerate(small):
            if waiting.done():
                continue
            if answers:
                waiting.set_result(answers[i])
            else:
                waiting.set_exception(WorkerGone())
