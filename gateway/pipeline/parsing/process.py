"""A process that reads bodies beside the gateway's own, which is the only one that counts, spools
and answers.

It is a child of the gateway: frames go to its standard input and come back in the same order from
its standard output. What it computes is pure, so what waited for a process that ended is read by
the next one. Only the frame that it was at is not read again: it may be what ended it. Frames are
`marshal`, which only ever passes between these two.
"""

import asyncio
import marshal
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from gateway.pipeline.parsing.cpu_limit import CPU_SIGNAL
from gateway.pipeline.parsing.pipe import HEADER, frame

log = structlog.get_logger()

PASSED_ON = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
    | {"SYSTEMROOT", "TEMP", "TMP"}  # without the first, Python does not start on Windows
)
"""All that a worker gets of the environment: keys of the gateway may stand in the rest."""
STREAM_BYTES = 1 << 20
RESTART_S = 1.0
STOP_S = 5.0
ENDED_S = 1.0
"""Within this a process whose output ended is gone."""
PATIENCE_S = 60.0
"""A process that is at one frame for longer than this is stuck. What it computes ends it earlier
(`gateway.pipeline.parsing.cpu_limit`)."""
PATIENCE_S_PER_BYTE = 2e-6
START_S = 30.0
"""A process that takes longer to start is not waited for."""
MAX_FAILED_STARTS = 3


class _Waiting(NamedTuple):
    """Who waits for a frame's answer."""

    answer: "asyncio.Future[Any]"
    ended: Callable[[], None]
    asked_s: float
    """By the loop's clock."""
    patience_s: float


class WorkerGone(Exception):
    """The process ended before it began, or there is none."""


class WorkerDied(Exception):
    """The process ended over this very frame: it is never read again."""

    def __init__(self, *, took_too_long: bool = False) -> None:
        super().__init__()
        self.took_too_long = took_too_long
        """Whether it used more CPU than a frame may."""


class Worker:
    """One child process, which runs while it is wanted and is started again when it ends.

    *setup* is its first frame, asked for at each start. With *idle_s* it ends when nothing was
    asked of it for so long, and starts with the next frame.
    """

    def __init__(self, module: str, setup: Callable[[], object], *, idle_s: float | None = None) -> None:
        self._module = module
        self._setup = setup
        self._idle_s = idle_s
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: deque[_Waiting] = deque()
        """In the order of the frames; the process is at the first one's."""
        self._answered_s = 0.0
        """When it answered last, by the loop's clock."""
        self._running: asyncio.Task[None] | None = None
        self._writing: list[asyncio.Task[None]] = []
        """Frames that are not written whole yet, in their order; each waits for the one before."""
        self._wanted = asyncio.Event()
        self._ready = asyncio.Event()
        """Also while it cannot be started: no one waits for it then."""
        self._failed_starts = 0
        self._was_ready = self._is_resting = self._is_stopping = False
        self.done = 0
        """Frames answered."""
        self.restarts = 0

    @property
    def is_ready(self) -> bool:
        return self._process is not None

    @property
    def is_first_start(self) -> bool:
        """Whether no process was ready so far, and none ended."""
        return not self._was_ready and not self.restarts

    @property
    def pid(self) -> int | None:
        """Of the child; None while none runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin to run it whenever it is wanted."""
        self._running = asyncio.create_task(self._run(), name="worker")

    def want(self) -> None:
        """There is work for it, or will be."""
        self._wanted.set()

    async def until_ready(self) -> None:
        """Raises WorkerGone where it cannot be started."""
        self.want()
        if self._process is None:
            await asyncio.create_task(self._wait_until_ready(), name="worker-ready")  # the caller may be no task

    async def _wait_until_ready(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await self._ready.wait()
        if not self._ready.is_set() or self._failed_starts >= MAX_FAILED_STARTS:
            raise WorkerGone

    def ask(self, value: object, body: bytes, ended: Callable[[], None]) -> "asyncio.Future[Any]":
        """What the process makes of *value*, behind which *body* goes as it is, where there is one.

        *ended* is called when the process is done with it, even when no one waits for the answer.
        The future raises WorkerGone, WorkerDied. Raises WorkerGone, without a call of *ended*,
        where no process runs.
        """
        process = self._process
        if process is None or process.stdin is None:
            raise WorkerGone
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        asked = frame(value)
        n_bytes = len(asked) + len(body)
        if not body and not self._writing:
            try:
                process.stdin.write(asked)
            except (RuntimeError, OSError) as error:  # it ended just now, and no one was reported yet
                raise WorkerGone from error
        else:
            self._write_behind(process.stdin, asked, body)
        self._waiting.append(_Waiting(answer, ended, loop.time(), PATIENCE_S + n_bytes * PATIENCE_S_PER_BYTE))
        return answer

    def _write_behind(self, stdin: asyncio.StreamWriter, asked: bytes, body: bytes) -> None:
        """Write in a task of its own: a frame that is begun is written whole
        even when its caller is cancelled.
        """
        before = self._writing[-1] if self._writing else None
        task = asyncio.create_task(_write_in_turn(before, stdin, asked, body), name="worker-write")
        self._writing.append(task)
        task.add_done_callback(self._writing.remove)

    async def stop(self) -> None:
        self._is_stopping = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, *self._writing, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            try:
                await self._live()
            except OSError as error:
                log.warning("worker not started", error=type(error).__name__)
            if self._is_resting:
                self._is_resting = False
            else:
                self._note_end()
                await asyncio.sleep(RESTART_S)

    def _note_end(self) -> None:
        """It ended, or could not be started."""
        self.restarts += 1
        self._failed_starts += 1
        if self._failed_starts >= MAX_FAILED_STARTS:
            self._ready.set()
        log.warning(
            "worker ended; the payload it was at is refused, others are read by the next", restarts=self.restarts
        )

    async def _live(self) -> None:
        """Start the child and hand out its answers until it ends."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=STREAM_BYTES,
            env={name: value for name, value in os.environ.items() if name in PASSED_ON},
        )
        assert process.stdin is not None  # noqa: S101 a pipe, as asked for
        assert process.stdout is not None  # noqa: S101 as above
        watching = asyncio.create_task(self._watch(process), name="worker-watch")
        try:
            process.stdin.write(frame(self._setup()))
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await _answer_of(process.stdout)  # it is ready
                self._note_ready(process)
                while True:
                    answer = await _answer_of(process.stdout)
                    waiting = self._waiting.popleft()
                    self.done += 1
                    self._answered_s = asyncio.get_running_loop().time()
                    waiting.ended()
                    if not waiting.answer.done():
                        waiting.answer.set_result(answer)
        finally:
            self._process = None
            self._ready.clear()
            watching.cancel()
            await self._end(process)

    def _note_ready(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._was_ready = True
        self._answered_s = asyncio.get_running_loop().time()
        self._failed_starts = 0
        self._ready.set()

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """End a process that keeps someone waiting for too long, as if it had ended by itself; and
        one of which nothing was asked for long.
        """
        while True:
            await asyncio.sleep(min(PATIENCE_S, self._idle_s or PATIENCE_S) / 2)
            if self._waiting and self.is_slow(self._waiting[0].patience_s):
                log.warning("worker does not answer")
                with suppress(ProcessLookupError):
                    process.kill()
            elif self._is_idle(process):
                self._rest(process)

    def _rest(self, process: asyncio.subprocess.Process) -> None:
        """End *process* until something is asked again."""
        self._is_resting = True
        self._process = None
        self._wanted.clear()
        self._ready.clear()
        process.kill()

    def is_slow(self, seconds: float) -> bool:
        """Whether it is at one frame for longer than that; the time spent on those before is not
        this one's.
        """
        if not self._waiting:
            return False
        begun_s = max(self._waiting[0].asked_s, self._answered_s)
        return asyncio.get_running_loop().time() - begun_s > seconds

    def _is_idle(self, process: asyncio.subprocess.Process) -> bool:
        if self._idle_s is None or self._waiting or self._process is not process:
            return False
        return asyncio.get_running_loop().time() - self._answered_s > self._idle_s

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Make an end of the child, and let everybody who waits for it know."""
        waiting, self._waiting = self._waiting, deque()
        with suppress(TimeoutError):  # why it ended by itself, if it did
            async with asyncio.timeout(0 if self._is_stopping else ENDED_S):
                await process.wait()
        with suppress(ProcessLookupError):
            process.kill()
        died = WorkerDied(took_too_long=bool(CPU_SIGNAL) and process.returncode == -CPU_SIGNAL)
        for number, one in enumerate(waiting):
            one.ended()
            if not one.answer.done():
                is_culprit = number == 0 and not self._is_stopping
                one.answer.set_exception(died if is_culprit else WorkerGone())
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await process.wait()


async def _write_in_turn(
    before: "asyncio.Task[None] | None", stdin: asyncio.StreamWriter, asked: bytes, body: bytes
) -> None:
    """Write a frame and the *body* behind it, without a copy of that, when *before* is done."""
    if before is not None:
        await asyncio.wait([before])
    with suppress(RuntimeError, OSError):  # it ended, and so does the wait for its answer
        stdin.write(asked)
        if body:
            stdin.write(HEADER.pack(len(body)))
            view = memoryview(body)
            for start in range(0, len(body), STREAM_BYTES):
                stdin.write(view[start : start + STREAM_BYTES])
                await stdin.drain()


async def _answer_of(stream: asyncio.StreamReader) -> Any:
    (size,) = HEADER.unpack(await stream.readexactly(HEADER.size))
    return marshal.loads(await stream.readexactly(size))  # noqa: S302 our own child wrote it
