"""The gateway's side of the processes that read bodies: hands them over, and unpacks the answers.

There are two. One reads bodies of ordinary size, the other the large ones, with less of the
machine's time, so that no one waits for seconds behind a large body. While it has none, the other
helps the first. In each, senders take turns (`gateway.pipeline.parsing.turns`).

Small payloads that arrive in one iteration of the event loop go together, since handing over costs
more than parsing one of them; with fewer than `MIN_TOGETHER` it is not worth it. The iteration
before states how many will arrive: at a moderate load nothing is prepared that is not handed over.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from gateway.common.contract.errors import Overloaded, TooLarge
from gateway.common.in_thread import HERE_BYTES, in_thread
from gateway.pipeline.metrics import POINTS_HERE
from gateway.pipeline.parsing.frames import BEHIND, ERRORS, UNFORESEEN, Answer, Job, Setup, job_of, points_in, unpack
from gateway.pipeline.parsing.parse import Parsed, Payload
from gateway.pipeline.parsing.process import Worker, WorkerDied, WorkerGone
from gateway.pipeline.parsing.turns import Turns
from gateway.rules.context import Context

log = structlog.get_logger()

QUICK_BYTES: Final = 192 * 1024
"""A larger body is for the process that reads large ones."""
SLOW_S: Final = 0.1
"""While a body takes longer, the other process starts, to help."""
LARGE_AT_ONCE_BYTES: Final = 1024 * 1024
LARGE_NICENESS: Final = 10
IDLE_S: Final = 60.0
"""After so long without a large body its process ends: it takes 60 MB."""
BEHIND_BYTES: Final = 256 * 1024
"""The body of such a payload follows its frame as it is: in the frame it would be copied three
times, on the loop."""
FIRST_WORK_BYTES: Final = 1024 * 1024
"""A worker that starts later starts after so many bytes of small payloads that Python reads."""
MODULE: Final = "gateway.pipeline.parsing.worker"
TRIES: Final = 3
DIED: Final = "the process that reads bodies ended over this one: send it again later, or less in one request"
DIED_RETRY_S: Final = 10
GONE: Final = "the process that reads bodies ended several times: send this one again later"
TOO_LONG: Final = "reading the body takes more CPU than one body may take: send less in one request"
MIN_TOGETHER: Final = 4
MAX_TOGETHER: Final = 16


class ReaderFault(Exception):
    """An error that no one foresaw, in the process that read a body; it is in the log."""


class _Lane(NamedTuple):
    """A process, and whose turn it is there."""

    worker: Worker
    turns: Turns

    @property
    def is_idle(self) -> bool:
        """Whether its process runs, and is at nothing."""
        return self.worker.is_ready and self.turns.is_idle

    async def ask(self, sender: str, n_bytes: int, value: object, body: bytes = b"") -> Any:
        """What the process makes of *value* and *body* when it is the turn of *sender*. Raises
        WorkerGone, WorkerDied.
        """
        await self.turns.begin(sender, n_bytes)
        ended = partial(self.turns.end, n_bytes)
        try:
            coming = self.worker.ask(value, body, ended)
        except WorkerGone:
            ended()
            raise
        return await coming


class WorkerClient:
    """Start it in a running loop."""

    def __init__(self, setup: Setup) -> None:
        large: Setup = {**setup, "niceness": LARGE_NICENESS}
        self._quick = _Lane(Worker(MODULE, lambda: setup), Turns(QUICK_BYTES))
        self._large = _Lane(Worker(MODULE, lambda: large, idle_s=IDLE_S), Turns(LARGE_AT_ONCE_BYTES))
        self._waits_for_bytes = 0
        self._small: list[tuple[Job, asyncio.Future[Answer]]] = []
        self._handing: set[asyncio.Task[None]] = set()
        self._arrived = 0
        """Small payloads in this iteration of the loop."""
        self._arrived_before = 0
        """The same in the last iteration that brought any."""

    def start(self) -> None:
        self.start_later()
        self._waits_for_bytes = 0
        self._quick.worker.want()

    def start_later(self) -> None:
        """Start them once there is work for them: with the native reader there may be none."""
        self._waits_for_bytes = FIRST_WORK_BYTES
        for lane in (self._quick, self._large):
            lane.worker.start()

    async def stop(self) -> None:
        await asyncio.gather(*(lane.worker.stop() for lane in (self._quick, self._large)))

    @property
    def worker(self) -> Worker:
        """Of bodies of ordinary size."""
        return self._quick.worker

    @property
    def large_worker(self) -> Worker:
        return self._large.worker

    @property
    def is_free(self) -> bool:
        """Whether a payload of ordinary size is read at once."""
        return self._quick.worker.is_ready and self._quick.turns.is_free(HERE_BYTES)

    def takes(self, payload: Payload) -> bool:
        """Whether it must be handed over, or that is likely to pay; ask once a payload.

        No one waits for the first start, which takes some tenths of a second.
        """
        n_bytes = len(payload.body)
        if n_bytes > HERE_BYTES:
            self._quick.worker.want()
            return n_bytes > QUICK_BYTES or not self._quick.worker.is_first_start
        self._note_work(n_bytes)
        if not self.is_free:
            return False
        self._arrived += 1
        if self._arrived == 1:
            asyncio.get_running_loop().call_soon(self._end_iteration)
        return self._arrived_before >= MIN_TOGETHER

    def _note_work(self, n_bytes: int) -> None:
        """A payload of that size is for Python to read."""
        if self._waits_for_bytes > 0:
            self._waits_for_bytes -= n_bytes
            if self._waits_for_bytes <= 0:
                self._quick.worker.want()

    def _end_iteration(self) -> None:
        self._arrived_before, self._arrived = self._arrived, 0

    async def parse(self, payload: Payload, context: Context) -> tuple[Parsed, Mapping[str, int]]:
        """The payload, parsed, and model -> calls without a price. Raises as `read`."""
        job = job_of(payload, context)
        fields, unpriced = await self.read(job, context.key or context.peer)
        return await in_thread(partial(unpack, fields), is_long=points_in(fields) > POINTS_HERE), unpriced

    async def read(self, job: Job, sender: str) -> tuple[Any, Any]:
        """What *job* came to, packed, and model -> calls without a price.

        Raises BadPayload, TooLarge, ReaderFault; Overloaded where the process died over it;
        WorkerGone where the caller is to read it: no process can be started, or it is small.
        """
        answer = await (self._by_itself(job, sender) if len(job.body) > HERE_BYTES else self._together(job))
        packed, rest = answer
        if packed is not None:
            return packed, rest
        name, text, *where = rest
        if name == UNFORESEEN:
            log.error("unforeseen error in the process that reads bodies", error=text, at=where[0])
            raise ReaderFault
        raise ERRORS[name](text)

    async def _by_itself(self, job: Job, sender: str) -> Answer:
        n_bytes = len(job.body)
        lane = self._lane_of(n_bytes)
        value, body = ([tuple(job)], b"") if n_bytes < BEHIND_BYTES else ([(job.kind, b"", job.rest), BEHIND], job.body)
        for _ in range(TRIES):
            await lane.worker.until_ready()
            try:
                (answer,) = await lane.ask(sender, n_bytes, value, body)
            except WorkerGone:
                continue
            except WorkerDied as died:
                raise _refusal(died) from None
            found: Answer = answer
            return found
        raise Overloaded(GONE, retry_after_s=DIED_RETRY_S)

    def _lane_of(self, n_bytes: int) -> _Lane:
        if n_bytes > QUICK_BYTES:
            return self._large
        if self._quick.is_idle:
            return self._quick
        if self._quick.worker.is_slow(SLOW_S):
            self._large.worker.want()
        return self._large if self._large.is_idle else self._quick

    def _together(self, job: Job) -> "asyncio.Future[Answer]":
        """The answer to *job*, which waits for this iteration of the loop to
        end, or for `MAX_TOGETHER`.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._small.append((job, answer))
        if len(self._small) == MAX_TOGETHER:
            self._hand_over()
        elif len(self._small) == 1:
            loop.call_soon(self._hand_over)
        return answer

    def _hand_over(self) -> None:
        small, self._small = self._small, []
        if not small:
            return
        if len(small) < MIN_TOGETHER or not self.is_free:
            for _, answer in small:
                answer.set_exception(WorkerGone())
            return
        task = asyncio.create_task(self._ask(small))
        self._handing.add(task)
        task.add_done_callback(self._handing.discard)

    async def _ask(self, small: list[tuple[Job, "asyncio.Future[Answer]"]]) -> None:
        n_bytes = sum(len(job.body) for job, _ in small)
        answers: list[Any]
        try:
            answers = await self._quick.ask("", n_bytes, [tuple(job) for job, _ in small])
        except (WorkerGone, WorkerDied):  # none of them is of a size that could kill anything
            answers = []
        for i, (_, waiting) in enumerate(small):
            if waiting.done():
                continue
            if answers:
                waiting.set_result(answers[i])
            else:
                waiting.set_exception(WorkerGone())


def _refusal(died: WorkerDied) -> TooLarge | Overloaded:
    return TooLarge(TOO_LONG) if died.took_too_long else Overloaded(DIED, retry_after_s=DIED_RETRY_S)
