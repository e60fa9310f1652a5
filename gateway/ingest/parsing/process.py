"""A second process that reads large payloads, so that decoding and normalising use another core
than counting and the disk do.

The loop's process stays the only one that counts, spools and answers. A worker is a child of it:
frames go to its standard input and come back in the same order from its standard output. What it
computes is pure, so when it is gone, or busy, the same work is done here; nothing depends on it but
speed. Only the frame that it was at when it died stays undone: it may be what killed it. Frames
are `marshal`, which only ever passes between these two.
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

from gateway.ingest.parsing.pipe import HEADER, frame

log = structlog.get_logger()

MAX_BACKLOG = 12
"""Frames that may wait at one worker; with more the loop's process does its share.
Measured: fewer leave a core idle."""
PASSED_ON = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
    | {"SYSTEMROOT", "TEMP", "TMP"}  # without the first, Python does not start on Windows
)
"""All that a worker gets of the environment: keys of the gateway may stand in the rest."""
STREAM_BYTES = 1 << 20
RESTART_S = 1.0
STOP_S = 5.0
PATIENCE_S = 5.0
"""Reading a payload takes milliseconds: a worker that needs longer than this is stuck."""
PATIENCE_S_PER_BYTE = 0.5e-6
"""More for a larger frame; measured: 26 MB of metrics take 1.5 s on a core of their own."""


class _Waiting(NamedTuple):
    """Who waits for a frame's answer."""

    answer: "asyncio.Future[Any]"
    asked_s: float
    """By the loop's clock."""
    patience_s: float


class WorkerGone(Exception):
    """The worker ended before it began: do the work here."""


class WorkerDied(Exception):
    """The worker ended over this very frame: never do its work here."""


class Worker:
    """One child process, started again when it ends.

    *setup* is its first frame, asked for anew at each start.
    """

    def __init__(self, module: str, setup: Callable[[], object]) -> None:
        self._module = module
        self._setup = setup
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: deque[_Waiting] = deque()
        """In the order of the frames; the worker is at the first one's."""
        self._answered_s = 0.0
        """When it answered last, by the loop's clock."""
        self._running: asyncio.Task[None] | None = None
        self._writing: list[asyncio.Task[None]] = []
        """Frames that are not written whole yet, in their order; each waits for the one before."""
        self._is_stopping = False
        self.done = 0
        """Frames answered."""
        self.restarts = 0

    @property
    def is_free(self) -> bool:
        return self._process is not None and len(self._waiting) < MAX_BACKLOG

    @property
    def pid(self) -> int | None:
        """Of the child; None while none runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._running = asyncio.create_task(self._run(), name="worker")

    async def ask(self, value: object, body: bytes = b"") -> Any:
        """What the worker makes of *value*, behind which *body* goes as it is, where there is one.

        Raises WorkerGone, WorkerDied; ask only when it `is_free`.
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
        self._waiting.append(_Waiting(answer, loop.time(), PATIENCE_S + n_bytes * PATIENCE_S_PER_BYTE))
        return await answer

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
            try:
                await self._live()
            except OSError as error:
                log.warning("worker not started", error=type(error).__name__)
            self.restarts += 1
            log.warning(
                "worker ended; the payload it was at is answered 503, others are read here", restarts=self.restarts
            )
            await asyncio.sleep(RESTART_S)

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
                self._process = process
                while True:
                    answer = await _answer_of(process.stdout)
                    waiting = self._waiting.popleft().answer
                    self.done += 1
                    self._answered_s = asyncio.get_running_loop().time()
                    if not waiting.done():
                        waiting.set_result(answer)
        finally:
            self._process = None
            watching.cancel()
            await self._end(process)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """End a worker that keeps someone waiting for too long; then it is as
        if it had ended by itself.
        """
        while True:
            await asyncio.sleep(PATIENCE_S / 2)
            if self._waiting and self._is_stuck(self._waiting[0]):
                log.warning("worker does not answer")
                with suppress(ProcessLookupError):
                    process.kill()

    def _is_stuck(self, first: _Waiting) -> bool:
        """Whether the frame that it is at takes too long; the time spent on those
        before is not this one's.
        """
        begun_s = max(first.asked_s, self._answered_s)
        return asyncio.get_running_loop().time() - begun_s > first.patience_s

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Make an end of the child, and let everybody who waits for it know."""
        waiting, self._waiting = self._waiting, deque()
        for number, one in enumerate(waiting):
            if not one.answer.done():
                is_culprit = number == 0 and not self._is_stopping
                one.answer.set_exception(WorkerDied() if is_culprit else WorkerGone())
        with suppress(ProcessLookupError):
            process.kill()
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
