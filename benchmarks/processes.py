"""Child processes of the benchmarks and of the tests that need real ones: start, wait until
ready, measure, end by pid.
"""

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

PROJECT_ROOT = Path(__file__).resolve().parent.parent
HANGS_S: Final = 120.0
"""How long to wait for what must come, where nothing is concluded from the time: only what hangs
takes as long, also on a machine whose cores others keep busy."""
_POLL_S = 0.02

T = TypeVar("T")


class ProcessFailed(Exception):
    """A child ended, or did not do in time what it had to."""


class Process:
    """One child process; its standard error goes to a file, so that a failure can be reported."""

    def __init__(self, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("ab") as stderr:
            self._popen = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=PROJECT_ROOT,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def returncode(self) -> int | None:
        """None while it runs."""
        return self._popen.poll()

    def read_line(self) -> str:
        """The next line of its standard output. Raises ProcessFailed when it ended without one."""
        assert self._popen.stdout is not None  # noqa: S101 - opened above
        line = self._popen.stdout.readline()
        if not line:
            raise ProcessFailed(f"ended with {self._popen.wait()} and no line:\n{self.log_tail()}")
        return line

    def write_line(self, line: str) -> None:
        """Write to its standard input."""
        assert self._popen.stdin is not None  # noqa: S101 - opened above
        self._popen.stdin.write(line + "\n")
        self._popen.stdin.flush()

    def wait_until(self, condition: Callable[[], T | None], *, timeout_s: float = HANGS_S, what: str) -> T:
        """Poll until *condition* gives something.

        Raises ProcessFailed when the process ends first, or at the deadline.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if value is not None:
                return value
            if self._popen.poll() is not None:
                raise ProcessFailed(f"ended with {self._popen.returncode} before {what}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"not {what} after {timeout_s} s:\n{self.log_tail()}")
            time.sleep(_POLL_S)

    def wait(self, timeout_s: float = HANGS_S) -> int:
        """Its exit code, once it ended by itself.

        Killed, and ProcessFailed raised, when it does not in time.
        """
        try:
            return self._reap(timeout_s)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ProcessFailed(f"still running after {timeout_s} s:\n{self.log_tail()}") from error

    def kill(self) -> None:
        """SIGKILL, unless it ended already, and reap it."""
        self._popen.kill()
        self._reap(HANGS_S)

    def terminate(self, *, timeout_s: float = HANGS_S) -> int:
        """SIGTERM; its exit code. Killed, and ProcessFailed raised, when it is not gone in time."""
        self._popen.terminate()
        return self.wait(timeout_s)

    def _reap(self, timeout_s: float) -> int:
        code = self._popen.wait(timeout_s)
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                pipe.close()
        return code

    def log_tail(self, max_bytes: int = 4000) -> str:
        """The end of what it wrote to standard error."""
        return self._log.read_bytes()[-max_bytes:].decode(errors="replace")

    def cpu_s(self) -> float:
        """User and system time so far of all its threads and its children's (proc(5),
        fields 14 and 15 of stat).
        """
        return cpu_s(self.pid)

    def cpu_ns(self) -> int:
        """The same from schedstat, to the nanosecond, of threads that still run."""
        return sum(_scheduled_ns(pid) for pid in (self.pid, *_children(self.pid)))

    def rss_bytes(self, field: str = "VmHWM") -> int:
        """Peak resident memory so far, its children's added (more than ever was at one time);
        `VmRSS` for the present one.
        """
        return sum(_rss_bytes(pid, field) for pid in (self.pid, *_children(self.pid)))

    def written_bytes(self) -> int:
        """Bytes that it and its children caused to be sent to the block layer (proc(5), io)."""
        return sum(_written_bytes(pid) for pid in (self.pid, *_children(self.pid)))

    def pin(self, cores: set[int]) -> None:
        """Let it run on these cores only, its threads to come too."""
        os.sched_setaffinity(self.pid, cores)


def read_json_file(path: Path) -> dict[str, int | None] | None:
    """The object in *path*; None while there is no such file."""
    try:
        loaded: dict[str, int | None] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return loaded


def raise_file_limit(wanted: int = 4096) -> None:
    """Allow *wanted* open files, where the hard limit does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))


def cpu_s(pid: int) -> float:
    """As `Process.cpu_s`, of any process."""
    return sum(_cpu_s(each) for each in (pid, *_children(pid)))


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _scheduled_ns(pid: int) -> int:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def _written_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise ProcessFailed(f"no write_bytes of pid {pid}")


def _rss_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise ProcessFailed(f"no {field} of pid {pid}")
