"""Runs a module as macOS or Windows would: the calls that Linux alone has are taken away first.

`python -m tests.support.other_system win32 gateway.cli.main run …`. The libraries are imported
before, since theirs are built for this system; what the gateway's own code finds is the other
system's: `sys.platform`, no uvloop, fewer names in `os`, `signal`, `socket` and `time`, missing
modules. In the place of Windows' `msvcrt` stand locks of byte ranges that belong to an open
file, as there. `FULL_SYNCS` counts the bytes `f` that each F_FULLFSYNC appends to that file.
"""

import os
import runpy
import sys
from types import ModuleType
from typing import Any

MACOS_HAS_NO = {
    "os": ("sched_getaffinity", "posix_fallocate", "fdatasync"),
    "socket": ("TCP_INFO",),
    "time": ("CLOCK_BOOTTIME",),
}
WINDOWS_HAS_NO = {
    "os": (
        *("sched_getaffinity", "posix_fallocate", "posix_fadvise", "fdatasync", "statvfs", "fstatvfs", "ST_RDONLY"),
        *("fchmod", "fchown", "chown", "getuid", "geteuid", "getgid", "getegid", "pread", "pwrite", "umask"),
        *("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"),
    ),
    "signal": ("SIGHUP",),
    "socket": ("AF_UNIX", "TCP_INFO"),
    "time": ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "clock_gettime", "clock_gettime_ns"),
}
WINDOWS_HAS_NO_MODULE = ("fcntl", "resource", "pwd", "grp", "uvloop")
F_FULLFSYNC = 51
F_OFD_SETLK = 37
LIBRARIES = (
    *("aiohttp.web", "aiosqlite", "click", "genai_prices", "grpc.aio", "grpc_health.v1.health_pb2_grpc"),
    *("grpc_reflection.v1alpha.reflection_pb2_grpc", "orjson", "platformdirs", "prometheus_client", "pydantic"),
    *("rich.console", "structlog", "yaml", "asyncio.unix_events", "multiprocessing", "subprocess", "tempfile"),
    *("shutil", "getpass", "socket", "ssl", "ctypes", "resource", "getpass", "backports.zstd", "jinja2"),
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)


def become(system: str) -> None:
    """Change this process for good. *system*: `darwin` or `win32`."""
    for name in LIBRARIES:
        _import(name)
    if system == "darwin":
        _take_away(MACOS_HAS_NO)
        _add_full_sync()
    else:
        _add_msvcrt()
        _keep_socketpair()
        _keep_disk_usage()
        sys.modules["ssl"].enum_certificates = lambda _: []  # type: ignore[attr-defined]
        _take_away(WINDOWS_HAS_NO)
        _take_signal_handlers()
        for name in WINDOWS_HAS_NO_MODULE:
            sys.modules[name] = None  # type: ignore[assignment]  # as the import system has it
    _hide_proc()
    sys.platform = system


def _import(name: str) -> None:
    try:
        __import__(name)
    except ModuleNotFoundError:  # of another version of the gateway
        return


def _take_away(missing: dict[str, tuple[str, ...]]) -> None:
    for module, names in missing.items():
        for name in names:
            if hasattr(sys.modules[module], name):
                delattr(sys.modules[module], name)


def _hide_proc() -> None:
    """Neither system has /proc."""
    from pathlib import Path  # noqa: PLC0415

    read_text, readlink = Path.read_text, Path.readlink

    def refused(path: Path) -> None:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(2, "no such file", str(path))

    def read(self: Path, *arguments: Any, **options: Any) -> str:
        refused(self)
        return read_text(self, *arguments, **options)

    def link(self: Path) -> Path:
        refused(self)
        return readlink(self)

    Path.read_text, Path.readlink = read, link  # type: ignore[method-assign]


def _add_full_sync() -> None:
    import fcntl  # noqa: PLC0415

    really, counted = fcntl.fcntl, os.environ["FULL_SYNCS"]

    def call(descriptor: int, command: int, *rest: Any) -> Any:
        if command != F_FULLFSYNC:
            return really(descriptor, command, *rest)
        os.fsync(descriptor)
        with open(counted, "ab") as file:  # noqa: PTH123
            file.write(b"f")
        return 0

    fcntl.fcntl = call  # type: ignore[assignment]
    fcntl.F_FULLFSYNC = F_FULLFSYNC  # type: ignore[attr-defined]


def _add_msvcrt() -> None:
    import fcntl  # noqa: PLC0415
    import struct  # noqa: PLC0415

    made: Any = ModuleType("msvcrt")
    made.LK_NBLCK, made.LK_UNLCK = 2, 0

    def locking(descriptor: int, mode: int, n_bytes: int) -> None:
        is_writable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        kind = fcntl.F_UNLCK if mode == made.LK_UNLCK else fcntl.F_WRLCK if is_writable else fcntl.F_RDLCK
        wanted = struct.pack("hhqqi4x", kind, os.SEEK_SET, os.lseek(descriptor, 0, os.SEEK_CUR), n_bytes, 0)
        try:
            fcntl.fcntl(descriptor, F_OFD_SETLK, wanted)
        except BlockingIOError as error:
            raise PermissionError(13, "Permission denied") from error

    made.locking = locking
    sys.modules["msvcrt"] = made


def _keep_socketpair() -> None:
    """asyncio's own wake-up on this system; on Windows it is a pair of TCP sockets."""
    import _socket  # noqa: PLC0415
    import socket  # noqa: PLC0415

    def pair(family: int = _socket.AF_UNIX, type: int = _socket.SOCK_STREAM, proto: int = 0) -> Any:  # noqa: A002
        first, second = _socket.socketpair(family, type, proto)
        return tuple(socket.socket(family, type, proto, one.detach()) for one in (first, second))

    socket.socketpair = pair  # type: ignore[assignment]


def _keep_disk_usage() -> None:
    """Its own on Windows; here it asks `os.statvfs`."""
    import shutil  # noqa: PLC0415

    statvfs, usage = os.statvfs, shutil._ntuple_diskusage  # type: ignore[attr-defined]

    def disk_usage(path: Any) -> Any:
        disk = statvfs(path)
        return usage(disk.f_blocks * disk.f_frsize, 0, disk.f_bavail * disk.f_frsize)

    shutil.disk_usage = disk_usage  # type: ignore[assignment]


def _take_signal_handlers() -> None:
    import asyncio.unix_events as events  # noqa: PLC0415

    def none(*_: object) -> None:
        raise NotImplementedError

    events._UnixSelectorEventLoop.add_signal_handler = none  # type: ignore[attr-defined]


if __name__ == "__main__":
    _, chosen, module, *arguments = sys.argv
    sys.argv = [module, *arguments]
    become(chosen)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
