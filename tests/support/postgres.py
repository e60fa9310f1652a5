"""Debian's Postgres on a socket of its own, for the tests of stores; a schema a test."""

import atexit
import os
import pwd
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import psycopg
import pytest

from tests.support.ports import free_port

_USER: Final = "postgres"


@cache
def server_programs() -> Path | None:
    """The folder of `initdb` and `postgres`; None where there is none."""
    found = shutil.which("initdb")
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return Path(found).parent if found else newest[-1].parent if newest else None


needs_postgres: Final = pytest.mark.skipif(
    server_programs() is None and "postgres" not in os.environ.get("REQUIRED_PROGRAMS", "").split(),
    reason="needs Postgres: apt install postgresql",
)


class Server:
    """A running server."""

    def __init__(self, folder: Path, port: int, control: Sequence[str], options: str) -> None:
        """*control*: pg_ctl with what it is always given."""
        self.folder = folder
        self._port = port
        self._control, self._options = control, options

    def start(self) -> None:
        log = str(self.folder / "log")
        self._run("-l", log, "-o", self._options, "start")

    def crash(self) -> None:
        """All of its processes end at once, and it is started again."""
        self.stop()
        self.start()

    def stop(self) -> None:
        self._run("-m", "immediate", "stop")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """None of its processes does anything until the block ends; its connections stay open."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        of_first = Path(f"/proc/{first}/task/{first}/children")
        os.kill(first, signal.SIGSTOP)  # it begins no more of them
        paused = [first, *map(int, of_first.read_text().split())]
        for pid in paused[1:]:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in reversed(paused):
                os.kill(pid, signal.SIGCONT)

    def _run(self, *arguments: str) -> None:
        subprocess.run([*self._control, *arguments], check=True, cwd=self.folder, stdout=subprocess.DEVNULL)

    def program(self, name: str, *arguments: str) -> None:
        """Run one of Postgres' own, as the user that the server has."""
        *as_user, pg_ctl, _, _, _ = self._control
        command = [*as_user, str(Path(pg_ctl).resolve().with_name(name)), *arguments]
        subprocess.run(command, check=True, cwd=self.folder, capture_output=True)

    def dsn(self, schema: str = "public", **settings: str) -> str:
        """Of *schema*, with *settings* of the session."""
        options = " ".join(f"-c {name}={value}" for name, value in {"search_path": schema, **settings}.items())
        return psycopg.conninfo.make_conninfo(
            host=str(self.folder), port=self._port, user=_USER, dbname="postgres", options=options
        )

    def new_schema(self) -> str:
        """The DSN of an empty schema."""
        schema = f"t{secrets.token_hex(6)}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        return self.dsn(schema)


@cache
def shared_server() -> Server:
    """One for all tests of this process."""
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(running_server(["max_connections=200"]))


@contextmanager
def running_server(settings: Sequence[str] = ()) -> Iterator[Server]:
    """Ends with the block. *settings*: as `name=value`."""
    programs = server_programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    as_user: list[str] = []
    if os.getuid() == 0:  # which the server refuses
        user = pwd.getpwnam(_USER)
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
    data, port = folder / "data", free_port()
    subprocess.run(
        [
            *as_user,
            str(programs / "initdb"),
            "-D",
            str(data),
            "-U",
            _USER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--locale-provider=icu",  # it orders texts as people do, so that a column without COLLATE "C" is found
            "--icu-locale=en",
            "-N",
        ],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    chosen = [f"unix_socket_directories={folder}", "listen_addresses=", f"port={port}", *settings]
    options = [part for setting in chosen for part in ("-c", setting)]
    control = [*as_user, str(programs / "pg_ctl"), "-D", str(data), "-w"]
    server = Server(folder, port, control, shlex.join(options))
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
