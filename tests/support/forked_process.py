"""A process of the gateway's command that is forked off one which has done the imports: two
thirds of the CPU time of its start. For the rest it is as any other: its own memory, files and
signals, and kill -9 ends it.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from benchmarks.processes import PROJECT_ROOT, Process
from gateway.common.native import VARIABLE as READER

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.preloaded", "tests.support.commands"])

Environ = Mapping[str, str]


class ForkedProcess(Process):
    """Its standard input and output are closed; see `benchmarks.processes.Process`."""

    def __init__(self, module: str, arguments: Sequence[str], *, log: Path, env: Environ) -> None:
        """`python -m module arguments…`; *env* is laid over this process's own."""
        self._log = log
        log.touch()
        self._popen = _Popen(module, arguments, log, {**os.environ, **env})  # type: ignore[assignment]


class _Popen:
    """What `Process` uses of `subprocess.Popen`."""

    stdin = stdout = None

    def __init__(self, module: str, arguments: Sequence[str], log: Path, environ: Environ) -> None:
        self._process: ForkServerProcess = FORKS.Process(
            target=_run_module, args=(module, [*arguments], log, environ), daemon=True
        )
        self._process.start()
        self._lock = threading.Lock()  # the exit code is read from a pipe, once

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with self._lock:
            return self._process.exitcode

    def wait(self, timeout_s: float) -> int:
        """Raises subprocess.TimeoutExpired."""
        wait([self._process.sentinel], timeout_s)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("telemetry-gateway", timeout_s)
        return code

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()


def _run_module(module: str, arguments: Sequence[str], log: Path, environ: Environ) -> None:
    """In the forked process."""
    streams = [os.open(os.devnull, os.O_RDWR)] * 2 + [os.open(log, os.O_WRONLY | os.O_APPEND)]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in {*streams}:
        os.close(stream)
    if environ.get(READER) != os.environ.get(READER):
        _forget_imports()
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(PROJECT_ROOT)
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # else runpy warns on stderr, which is the log
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _forget_imports() -> None:
    """The gateway's modules are imported again: which reader they use is settled then."""
    for name in [name for name in sys.modules if name.partition(".")[0] in {"gateway", "spool"}]:
        del sys.modules[name]
