"""The cell of deploy/compose/cell.yaml without containers: its gateways, by the commands and the
configuration that Compose gives them, and its nginx, each a process on loopback.
"""

import json
import os
import shlex
import sys
import urllib.error
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import pytest
import yaml

from benchmarks.processes import Process
from benchmarks.scenario import fetch
from tests.support.commands import run_telemetry_gateway
from tests.support.polling import wait_until_true
from tests.support.ports import free_port
from tests.support.postgres import needs_postgres, shared_server
from tests.support.programs import needs_program
from tests.support.service_process import ServiceProcess
from tests.support.spans import call_span

COMPOSE: Final = Path(__file__).parents[2] / "deploy/compose"
NUMBERS: Final = (1, 2, 3)
SENDER_KEY: Final = "the-key-of-all-senders-of-a-test"
CELL_KEY: Final = "what the gateways of a cell of a test have in common"

pytestmark = [needs_postgres, needs_program("nginx", get="Debian's package nginx-light")]


class Gateway:
    """One service `gateway-N`."""

    def __init__(self, folder: Path, service: dict[str, Any], number: int, config: Path, dsn: str) -> None:
        self.data_dir, self._log = folder / "data", folder / "log"
        folder.mkdir()
        self._named = service["environment"].keys()
        self.ports = {name: free_port() for name in ("HTTP", "GRPC", "ADMIN")}
        listen = {f"TELEMETRY_GATEWAY_LISTEN_{name}": f"127.0.0.1:{port}" for name, port in self.ports.items()}
        internal = {f"TELEMETRY_GATEWAY_STORE_INTERNAL_{name}": f"127.0.0.{number}:0" for name in ("HTTP", "ADMIN")}
        data = {"TELEMETRY_GATEWAY_DATA": str(self.data_dir), "TELEMETRY_GATEWAY_STORE_DSN": dsn}
        self._env = {**listen, **internal, **data, "TELEMETRY_GATEWAY_COUNTING_SETTLE": "200ms"}
        script = service["entrypoint"][2].replace("/etc/telemetry-gateway/cell-gateway.yaml", shlex.quote(str(config)))
        self._command = ["/bin/sh", "-ec", script.replace("/run/secrets", shlex.quote(str(config.parent)))]
        self.process: Process | None = None

    def start(self, upstream: str) -> Self:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {**self._env, "PATH": path, "UPSTREAM_URL": upstream}
        self.process = Process(self._command, log=self._log, env=env)
        return self

    def healthcheck(self) -> str:
        """What the image's HEALTHCHECK prints; it knows what Compose sets, and no file."""
        set_by_compose = dict.fromkeys(self._named, "https://service.example")
        environ = {**set_by_compose, "TELEMETRY_GATEWAY_DATA": str(self.data_dir)}
        ended = run_telemetry_gateway("healthcheck", environ=environ)
        return ended.out + ended.err

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def answers(self, path: str) -> str:
        """Of the admin listener; empty where there is none."""
        try:
            token = (self.data_dir / "admin-token").read_text().strip()
            return fetch(f"http://127.0.0.1:{self.ports['ADMIN']}{path}", headers={"Authorization": token}).decode()
        except OSError:
            return ""

    def owns(self) -> bool:
        return "telemetry_gateway_cell_owner 1.0" in self.answers("/metrics")


class Composed:
    """Made by `composed`."""

    def __init__(self, service: ServiceProcess, gateways: list[Gateway], http: int) -> None:
        self.service, self.gateways, self._url = service, gateways, f"http://127.0.0.1:{http}/v1/traces"

    def owner(self) -> Gateway:
        """Waits until there is one."""
        found: list[Gateway] = []

        def is_owned() -> bool:
            found[:] = [each for each in self.gateways if each.owns()]
            return bool(found)

        wait_until_true(is_owned, what="a gateway that owns the cell")
        return found[0]

    def send(self, name: str, key: str = SENDER_KEY) -> int:
        """One call over nginx; the status, 0 where the connection broke."""
        headers = {"Content-Type": "application/x-protobuf", "Authorization": f"Bearer {key}"}
        try:
            fetch(self._url, method="POST", headers=headers, body=call_span(name, (100, 20)))
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0
        return 200

    def send_until_taken(self, name: str) -> None:
        """As a sender does."""
        wait_until_true(lambda: self.send(name) == 200, what=f"an answer to {name}")

    def wait_until_delivered(self, calls: int) -> None:
        wait_until_true(lambda: len(self.service.records()) >= calls, what=f"{calls} records at the service")


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[Composed]:
    file = yaml.safe_load((COMPOSE / "cell.yaml").read_text())
    service = ServiceProcess(tmp_path)
    service.start()
    config = write_config(tmp_path, (service.data_dir / "service/telemetry.key").read_text())
    dsn = shared_server().dsn()
    made = [Gateway(tmp_path / f"gateway-{n}", file["services"][f"gateway-{n}"], n, config, dsn) for n in NUMBERS]
    with ExitStack() as stack:
        stack.callback(service.kill)
        for gateway in made:
            stack.callback(gateway.start(f"http://127.0.0.1:{service.port}").kill)
        for gateway in made:
            wait_until_true(lambda one=gateway: one.answers("/readyz") == "ready\n", what="a gateway that is ready")
        yield Composed(service, made, start_nginx(stack, tmp_path, made))


def write_config(folder: Path, upstream_key: str) -> Path:
    """Of the gateways, with Compose's secrets beside it."""
    keys = {"sender": SENDER_KEY, "cell": CELL_KEY, "database": "is not asked for", "upstream": upstream_key}
    for name, key in keys.items():
        (folder / f"{name}-key").write_text(key)
    text = (COMPOSE / "cell-gateway.yaml").read_text().replace("/run/secrets", str(folder))
    config = folder / "gateway.yaml"
    config.write_text(text.replace("type: postgres", f"type: postgres\n  cell: t{os.urandom(6).hex()}"))
    return config


def start_nginx(stack: ExitStack, folder: Path, gateways: list[Gateway]) -> int:
    """Its port for HTTP."""
    text = (COMPOSE / "cell-balancer.conf").read_text().replace("/tmp/", f"{folder}/")
    for number, gateway in enumerate(gateways, 1):
        for name, inner in (("HTTP", 4318), ("GRPC", 4317)):
            text = text.replace(f"server gateway-{number}:{inner};", f"server 127.0.0.1:{gateway.ports[name]};")
    http = free_port()
    text = text.replace("listen 4318;", f"listen 127.0.0.1:{http};").replace(
        "listen 4317 ", f"listen 127.0.0.1:{free_port()} "
    )
    (folder / "nginx.conf").write_text(text)
    nginx = Process(["nginx", "-c", str(folder / "nginx.conf"), "-g", "daemon off;"], log=folder / "nginx.log")
    stack.callback(nginx.terminate)
    return http


def test_calls_over_nginx_are_counted_once_also_when_the_owner_is_killed(composed: Composed) -> None:
    composed.owner()
    names = [f"call {n}" for n in range(12)]
    for name in names[:6]:
        composed.send_until_taken(name)
    assert composed.send("refused", key="a-key-that-none-of-them-knows") == 401
    composed.owner().kill()
    for name in names[6:]:
        composed.send_until_taken(name)
    composed.wait_until_delivered(len(names))
    records = composed.service.records()
    assert len({record["trace"]["span_id"] for record in records}) == len(records) == len(names)


def test_any_gateway_tells_operators_of_the_whole_cell(composed: Composed) -> None:
    """By the address at which the owner listens for the others."""
    composed.owner()
    for gateway in composed.gateways:
        wait_until_true(lambda one=gateway: len(members(one)) == len(NUMBERS), what="all members")
        assert len({each["name"] for each in members(gateway)}) == 1, "the name of this machine"
        assert sum(each["owns"] for each in members(gateway)) == 1
        assert gateway.healthcheck() == "ready\n"


def members(gateway: Gateway) -> list[dict[str, Any]]:
    answer = gateway.answers("/v2/status")
    found: list[dict[str, Any]] = json.loads(answer)["cell"]["members"] if answer else []
    return found
