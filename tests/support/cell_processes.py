"""Gateways of one cell, each a process of its own, on Debian's Postgres and before the real local
service.
"""

import json
import os
import signal
import threading
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psycopg

from benchmarks.scenario import fetch
from spool.postgres.migrating import ONE_AT_A_TIME
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import wait_until_true
from tests.support.postgres import Server, shared_server
from tests.support.service_process import UNIT_COST_SCOPES, ServiceProcess
from tests.support.spans import call_span

PROTOBUF = {"Content-Type": "application/x-protobuf"}
SECRET = "the secret of a cell of the tests, long enough"


class Cell:
    """Made by `running_cell`."""

    def __init__(self, folder: Path, service: ServiceProcess, gateways: list[GatewayProcess], name: str) -> None:
        self.folder, self.service, self.gateways, self.name = folder, service, gateways, name

    def change(self, sql: str) -> None:
        """In its schema."""
        with psycopg.connect(shared_server().dsn(f"cell_{self.name}"), autocommit=True) as connection:
            connection.execute(sql)

    @contextmanager
    def migrations_held(self) -> Iterator[None]:
        """Nobody can make or look for tables, so that a new owner does not come to its end."""
        with psycopg.connect(shared_server().dsn(f"cell_{self.name}")) as connection:
            connection.execute(ONE_AT_A_TIME)
            yield

    def internal_address(self) -> str:
        """Where the owner listens for the other gateways."""
        with psycopg.connect(shared_server().dsn(f"cell_{self.name}")) as connection:
            found = connection.execute("SELECT http FROM member WHERE id = (SELECT owner FROM cell)").fetchone()
        assert found is not None
        return str(found[0])

    def take_away(self) -> None:
        """From now on a gateway that is not there owns it, for a minute."""
        self.change("UPDATE cell SET owner = 'nobody', epoch = epoch + 1, until = now() + interval '1 min'")
        wait_until_true(lambda: not any(owns(each) for each in self.gateways), what="an owner that noticed")

    def owner(self) -> GatewayProcess:
        """Waits until there is one."""
        found: list[GatewayProcess] = []

        def is_owned() -> bool:
            found[:] = [each for each in self.gateways if each.is_running() and owns(each)]
            return bool(found)

        wait_until_true(is_owned, what="a gateway that owns the cell")
        return found[0]

    def wait_until_owned(self) -> None:
        """And each gateway knows by whom."""

        def passes_on(gateway: GatewayProcess) -> bool:
            try:
                return bool(self.ask(gateway, "/v2/status"))
            except OSError:
                return False

        wait_until_true(lambda: all(passes_on(each) for each in self.gateways), what="gateways that know the owner")

    def others(self) -> list[GatewayProcess]:
        owner = self.owner()
        return [each for each in self.gateways if each is not owner and each.is_running()]

    def ask(self, gateway: GatewayProcess, path: str, method: str = "GET", body: Any = None) -> Any:
        """The admin API of *gateway*, as its operator."""
        return ask(gateway, path, method, body)

    def wait_until_delivered(self, calls: int) -> None:
        """Wait until the service has so many records, and nothing waits any more."""

        def is_there() -> bool:
            return len(self.service.records()) >= calls

        wait_until_true(is_there, what=f"{calls} records at the service")


def send(gateway: GatewayProcess, name: str) -> int:
    """One call; the status, 0 where the gateway did not answer."""
    try:
        fetch(f"{gateway.intake_url}/v1/traces", method="POST", headers=PROTOBUF, body=call_span(name, (100, 20)))
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
    return 200


class Traffic:
    """Sends calls round robin until it is ended; a call that is not acknowledged goes to the next
    gateway, so some are sent twice.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._ends = threading.Event()
        self.acknowledged: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def wait_for(self, more: int) -> None:
        wanted = len(self.acknowledged) + more
        wait_until_true(lambda: len(self.acknowledged) >= wanted, what=f"{more} more calls")

    def _run(self) -> None:
        number = 0
        while not self._ends.is_set():
            name = f"call {number}"
            if (
                send(self._cell.gateways[number % 3], name) == 200
                or send(self._cell.gateways[(number + 1) % 3], name) == 200
            ):
                self.acknowledged.append(name)
            number += 1


def check_all_is_there_once(cell: Cell, traffic: Traffic) -> None:
    cell.wait_until_delivered(len(traffic.acknowledged))
    cell.wait_until_owned()
    status = cell.ask(cell.gateways[0], "/v2/status")
    assert broken_identities(status) == []
    records = cell.service.records()
    names = [record["trace"]["span_id"] for record in records]
    assert len(names) == len(set(names)) >= len(traffic.acknowledged)
    assert {record["usage"]["input_tokens"] for record in records} == {100}


def ask(gateway: GatewayProcess, path: str, method: str = "GET", body: Any = None) -> Any:
    """As `Cell.ask`."""
    token = (gateway.data_dir / "admin-token").read_text().strip()
    headers = {"Authorization": token, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    answer = fetch(gateway.admin_url + path, method=method, headers=headers, body=data)
    return json.loads(answer) if answer else None


def owns(gateway: GatewayProcess) -> bool:
    try:
        return "telemetry_gateway_cell_owner 1.0" in fetch(f"{gateway.admin_url}/metrics").decode()
    except OSError:
        return False


@contextmanager
def running_cell(
    folder: Path,
    gateways: int = 3,
    server: Server | None = None,
    environ: Callable[[int], Mapping[str, str]] = lambda _: {},
    **config: Any,
) -> Iterator[Cell]:
    """*server*: of its own, where it dies; *environ*, of the gateway of a number, and *config*, of
    each: as of `GatewayProcess`.
    """
    service = ServiceProcess(folder)
    service.start()
    assert service.port is not None
    dsn, name = (server or shared_server()).dsn(), f"t{os.urandom(6).hex()}"
    store = {
        "type": "postgres",
        "dsn": dsn,
        "cell": name,
        "durability": "storage",
        "lease": "1s",
        "connections": 2,
        "secret": f"${{file:{folder / 'cell-secret'}}}",
    }
    (folder / "cell-secret").write_text(SECRET)
    upstream = service.upstream(service.port, UNIT_COST_SCOPES)
    made = []
    for number in range(gateways):
        home = folder / f"gateway-{number}"
        home.mkdir()
        settings = {"store": store, "upstream": upstream, **config}
        made.append(GatewayProcess(home, config=settings, environ=environ(number)))
    try:
        for gateway in made:
            gateway.start()
        yield Cell(folder, service, made, name)
    finally:
        for gateway in made:
            if gateway.was_started:
                gateway.kill()
        service.kill()


@contextmanager
def stopped(process: GatewayProcess | ServiceProcess) -> Iterator[None]:
    """SIGSTOP, and SIGCONT when the block ends."""
    os.kill(process.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.process.pid, signal.SIGCONT)
