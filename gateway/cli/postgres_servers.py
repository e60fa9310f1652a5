"""Postgres on loopback for a demo: a primary with two synchronous standbys, by the programs of the
system. It shows what a cell does when the primary dies.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import psycopg

from gateway.common.free_port import free_port

USER: Final = "postgres"
NODES: Final = (0, 1, 2)
SYNCHRONOUS: Final = "ANY 1 (node1, node2, node3)"
NEEDED: Final = "demo --cluster needs Postgres: apt install postgresql"


def is_root() -> bool:
    """Postgres refuses to run as root."""
    return sys.platform != "win32" and os.getuid() == 0


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`; None where there is none."""
    found = shutil.which("initdb")
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return Path(found).resolve().parent if found else newest[-1].parent if newest else None


class Cluster:
    """Three servers; the first is the primary until it is killed."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self._folder, self._binaries = folder, binaries
        self._ports = [free_port() for _ in NODES]
        self._primary = 0
        self._running: set[int] = set()

    @property
    def dsn(self) -> str:
        """Of whichever is the primary."""
        ports = ",".join(map(str, self._ports))
        return f"host=127.0.0.1,127.0.0.1,127.0.0.1 port={ports} user={USER} dbname=postgres target_session_attrs=read-write"

    async def start(self) -> None:
        """Raises ClickException."""
        self._folder.chmod(0o755)  # the servers run as another user below it
        home = self._home(0)
        await self._run("initdb", "-D", home / "data", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", home=0)
        self._write_settings(0)
        await self._control(0, "start")
        for node in self.standbys():
            await self.join(node)

    def standbys(self) -> list[int]:
        return [node for node in NODES if node != self._primary]

    async def join(self, node: int) -> None:
        """Make *node*, which does not run, a standby, whatever it was before."""
        data = self._home(node) / "data"
        await asyncio.to_thread(shutil.rmtree, data, ignore_errors=True)
        source = ("-h", "127.0.0.1", "-p", str(self._ports[self._primary]), "-U", USER, "-c", "fast")
        await self._run("pg_basebackup", *source, "-D", data, "-R", "-X", "stream", home=node)
        self._write_settings(node)
        await self.start_node(node)

    async def start_node(self, node: int) -> None:
        await self._control(node, "start")

    async def stop_node(self, node: int) -> None:
        """As if its machine lost power."""
        await self._control(node, "stop", "-m", "immediate")

    async def fail_over(self) -> int:
        """The primary dies, and the standby that has most of it becomes the primary: it has every
        commit that was answered. The number of the node that died.
        """
        died = self._primary
        await self.stop_node(died)
        received = {node: await asyncio.to_thread(self._received, node) for node in self.standbys()}
        self._primary = max(received, key=received.__getitem__)
        await self._run("pg_ctl", "-D", self._home(self._primary) / "data", "-w", "promote", home=self._primary)
        return died

    def _received(self, node: int) -> int:
        """How far a standby has the log, in bytes."""
        at = f"host=127.0.0.1 port={self._ports[node]} user={USER} dbname=postgres"
        with psycopg.connect(at, autocommit=True) as connection:
            row = connection.execute("SELECT pg_last_wal_receive_lsn() - '0/0'").fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    async def stop(self) -> None:
        for node in tuple(self._running):
            await self.stop_node(node)

    def _home(self, node: int) -> Path:
        home = self._folder / f"node{node + 1}"
        if not home.exists():
            home.mkdir(mode=0o700)
            if is_root():
                shutil.chown(home, USER, USER)
        return home

    def _write_settings(self, node: int) -> None:
        """`primary_conninfo` names all: a standby follows whichever is the primary."""
        home, ports = self._home(node), ",".join(map(str, self._ports))
        follows = (
            f"host=127.0.0.1,127.0.0.1,127.0.0.1 port={ports} user={USER} application_name=node{node + 1}"
            " target_session_attrs=read-write"
        )
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self._ports[node],
            "unix_socket_directories": home,
            "cluster_name": f"node{node + 1}",
            "synchronous_standby_names": SYNCHRONOUS,
            "primary_conninfo": follows,
            "wal_retrieve_retry_interval": "500ms",
            "max_connections": 200,
        }
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        with (home / "data" / "postgresql.auto.conf").open("a") as file:
            file.writelines(lines)

    async def _control(self, node: int, *command: str) -> None:
        home = self._home(node)
        await self._run("pg_ctl", "-D", home / "data", "-w", "-l", home / "log", *command, home=node)
        (self._running.add if command[0] == "start" else self._running.discard)(node)

    async def _run(self, program: str, *arguments: object, home: int) -> None:
        folder = self._home(home)
        as_user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups") if is_root() else ()
        command: Sequence[str] = (*as_user, str(self._binaries / program), *map(str, arguments))
        path = folder.parent / f"{folder.name}.out"
        with path.open("ab") as out:
            process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=out, stderr=out)
            if await process.wait():
                raise click.ClickException(f"{program} failed:\n{path.read_text()[-2000:]}")
