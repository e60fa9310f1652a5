"""`check` refuses what `run` refuses, changes nothing, and tries the upstream when asked to."""

import asyncio
import json
import secrets
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import Authority
from tests.support.commands import Ended, run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.upstream import Reply, Seen, running_upstream

FREE = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "admin": "127.0.0.1:0", "service": "127.0.0.1:0"}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n"


class Setup:
    """A configuration file and its data directory, once run and stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.options: dict[str, Any] = {"data_dir": str(self.data_dir), "listen": FREE, "workers": "off"}

    def command(self, name: str, *words: str) -> Ended:
        file = self.folder / "gateway.yaml"
        file.write_text(json.dumps(self.options))
        return run_telemetry_gateway(name, "--config", str(file), *words)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    setup = Setup(tmp_path)
    with GatewayProcess(tmp_path) as gateway:
        assert gateway.stop() == 0
    return setup


def state(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_uid, status.st_mtime_ns, content)
    return found


def damaged(path: Path, at: int = 4096) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + 4096] = bytes(4096)
    path.write_bytes(content)


def of_a_newer_release(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


def damage_keys(setup: Setup) -> None:
    damaged(setup.data_dir / "control.db")


def remove_keys(setup: Setup) -> None:
    (setup.data_dir / "control.db").unlink()


def renew_keys(setup: Setup) -> None:
    of_a_newer_release(setup.data_dir / "control.db", "UPDATE parts SET version = 99 WHERE part = 'keys'")


def renew_devices(setup: Setup) -> None:
    of_a_newer_release(setup.data_dir / "control.db", "UPDATE parts SET version = 99 WHERE part = 'devices'")


def renew_spool(setup: Setup) -> None:
    of_a_newer_release(setup.data_dir / "spool.db", "PRAGMA user_version = 999")


def renew_service(setup: Setup) -> None:
    of_a_newer_release(setup.data_dir / "service" / "service.db", "UPDATE parts SET version = 99")


def exchange_pepper(setup: Setup) -> None:
    (setup.data_dir / "control.pepper").write_text(secrets.token_hex(32))


def empty_pepper(setup: Setup) -> None:
    (setup.data_dir / "control.pepper").write_text("")


def empty_token(setup: Setup) -> None:
    (setup.data_dir / "admin-token").write_text("")


def empty_user_secret(setup: Setup) -> None:
    (setup.data_dir / "user-secret").write_text("")
    setup.options["attributes"] = {"user": "hash"}


def empty_machine_secret(setup: Setup) -> None:
    (setup.data_dir / "machine-secret").write_text("")


def zero_machine_secret(setup: Setup) -> None:
    """As a power cut leaves what was never synced."""
    (setup.data_dir / "machine-secret").write_bytes(bytes(32))


def open_to_all(setup: Setup) -> None:
    setup.options["listen"] = {**FREE, "http": "0.0.0.0:0"}


def use_a_folder_of_many(setup: Setup) -> None:
    (setup.folder / "many").mkdir()
    (setup.folder / "many").chmod(0o1777)
    setup.options["data_dir"] = str(setup.folder / "many")


def turn_the_service_off(setup: Setup) -> None:
    setup.options["listen"] = {**FREE, "service": "off"}


def trust_no_certificate(setup: Setup) -> None:
    (setup.folder / "ca.pem").write_text(CERTIFICATE)
    key = {"name": "k", "secret": secrets.token_hex(16), "managed": ["send-ai-telemetry"]}
    upstream = {"base_url": "https://127.0.0.1:9", "keys": [key], "ca_file": str(setup.folder / "ca.pem")}
    setup.options["upstream"] = upstream


def exchange_certificates(setup: Setup) -> None:
    authority = Authority(setup.folder / "tls")
    one, other = authority.signed("one"), authority.signed("other")
    setup.options["tls"] = {"grpc": {"cert_file": str(one.cert), "key_file": str(other.key)}}


def lose_a_key(setup: Setup) -> None:
    one = Authority(setup.folder / "tls").signed("one")
    one.key.unlink()
    setup.options["tls"] = {"http": one.files}


REFUSED = {
    damage_keys: "control.db is damaged",
    remove_keys: "control.db is gone",
    renew_keys: "was written by a newer release",
    renew_devices: "was written by a newer release",
    renew_spool: "run a newer release",
    renew_service: "was written by a newer release",
    exchange_pepper: "the pepper file is not the one",
    empty_pepper: "does not hold a pepper",
    empty_token: "admin-token holds no token",
    empty_user_secret: "user-secret holds no secret",
    empty_machine_secret: "machine-secret holds no secret",
    zero_machine_secret: "the ids of machines that state none change",
    open_to_all: "no key is enabled",
    use_a_folder_of_many: "name a folder of the gateway's own",
    turn_the_service_off: "listen.service must be host:port",
    trust_no_certificate: "",
    exchange_certificates: "tls.grpc.key_file: ",
    lose_a_key: "tls.http.key_file: ",
}
"""What makes a start impossible -> what both commands say of it."""


@pytest.mark.parametrize("arrange", REFUSED, ids=lambda arrange: arrange.__name__)
def test_what_run_refuses_check_finds_and_changes_nothing(setup: Setup, arrange: Callable[[Setup], None]) -> None:
    arrange(setup)
    before = state(setup.data_dir)
    checked = setup.command("check")
    assert checked.code == 1, checked.out
    assert REFUSED[arrange] in checked.err
    assert "Traceback" not in checked.err
    assert state(setup.data_dir) == before
    ran = setup.command("run")
    assert ran.code == 1
    assert REFUSED[arrange] in ran.err


@pytest.mark.parametrize("option", ["http", "grpc", "admin", "service"])
def test_a_port_that_is_taken_is_found(setup: Setup, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        setup.options["listen"] = {**FREE, option: f"127.0.0.1:{taken.getsockname()[1]}"}
        ended = setup.command("check")
    assert ended.code == 1
    assert f"listen.{option}: 127.0.0.1:" in ended.err
    assert "Address already in use" in ended.err


def test_a_certificate_that_ended_is_noted_and_stops_no_start(setup: Setup) -> None:
    ended = Authority(setup.folder / "tls").signed("ended", days=0)
    setup.options["tls"] = {"http": ended.files, "admin": {**ended.files}}
    checked = setup.command("check")
    assert checked.code == 0, checked.err
    assert f"note: tls.http.cert_file: {ended.cert}: it end" in checked.out
    assert "listen.http      127.0.0.1:0, TLS" in checked.out


def test_several_faults_are_stated_at_once(setup: Setup) -> None:
    several = (empty_pepper, empty_token, renew_spool)
    for arrange in several:
        arrange(setup)
    ended = setup.command("check")
    assert "3 faults" in ended.err
    assert all(REFUSED[arrange] in ended.err for arrange in several)


def test_what_would_start_passes_and_is_left_as_it_was(setup: Setup) -> None:
    before = state(setup.data_dir)
    ended = setup.command("check")
    assert (ended.code, ended.err) == (0, "")
    assert "`run` would start" in ended.out
    assert state(setup.data_dir) == before


def test_a_directory_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    ended = setup.command("check")
    assert ended.code == 0, ended.err
    assert not setup.data_dir.exists()


def test_while_a_gateway_runs_it_looks_and_disturbs_nothing(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        config = tmp_path / "config.yaml"
        ended = run_telemetry_gateway("check", "--config", str(config))
        assert ended.code == 0, ended.err
        assert f"a gateway runs on this data directory (process {gateway.process.pid})" in ended.out
        (gateway.data_dir / "admin-token").write_text("")
        assert "admin-token holds no token" in run_telemetry_gateway("check", "--config", str(config)).err
        assert gateway.stop() == 0


def test_a_damaged_spool_is_noted_for_run_starts_on_it(setup: Setup) -> None:
    damaged(setup.data_dir / "spool.db")
    before = state(setup.data_dir)
    ended = setup.command("check")
    assert "would salvage the spool" in ended.out
    assert state(setup.data_dir) == before


GOOD, BAD = secrets.token_hex(16), secrets.token_hex(16)


async def test_connect_tries_each_key_and_sends_nothing(setup: Setup) -> None:
    def answer(seen: Seen) -> Reply:
        return Reply(202 if seen.headers["Authorization"] == GOOD else 401)

    async with running_upstream() as upstream:
        upstream.respond = answer
        keys = [
            {"name": "telemetry", "secret": GOOD, "managed": ["send-ai-telemetry"]},
            {"name": "old", "secret": BAD, "managed": ["send-ai-telemetry"]},
            {"name": "events", "secret": BAD, "scopes": ["events_v1:create_event"]},
        ]
        setup.options["upstream"] = {"base_url": upstream.base_url, "keys": keys}
        ended = await asyncio.to_thread(setup.command, "check", "--connect")
        assert ended.code == 1
        assert "key telemetry: HTTP 202" in ended.out
        assert "'old': HTTP 401" in ended.err
        assert "'events': HTTP 401" in ended.err
        assert not {GOOD, BAD} & set((ended.out + ended.err).replace(":", " ").split())
        assert [(seen.method, seen.path) for seen in upstream.seen] == [
            ("POST", "/v2/ai-telemetry/records"), ("POST", "/v2/ai-telemetry/records"), ("GET", "/v2/insights?limit=1"),
        ]  # fmt: skip
        assert json.loads(upstream.seen[0].body)["records"] == []
        setup.options["upstream"]["keys"] = keys[:1]
        passed = await asyncio.to_thread(setup.command, "check", "--connect")
        assert passed.code == 0, passed.err


def test_connect_states_that_no_one_answers(setup: Setup) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    key = {"name": "telemetry", "secret": GOOD, "managed": ["send-ai-telemetry"]}
    setup.options["upstream"] = {"base_url": f"http://127.0.0.1:{port}", "keys": [key]}
    assert setup.command("check").code == 0, "without --connect nothing is asked"
    ended = setup.command("check", "--connect")
    assert ended.code == 1
    assert "cannot be reached: Connection refused" in ended.err


def test_connect_to_the_local_service_takes_an_empty_envelope(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        key = (gateway.data_dir / "service" / "telemetry.key").read_text().strip()
        setup = Setup(tmp_path / "other")
        setup.folder.mkdir()
        named = {"name": "telemetry", "secret": key, "managed": ["send-ai-telemetry"]}
        setup.options["upstream"] = {"base_url": gateway.service_url, "keys": [named]}
        ended = setup.command("check", "--connect")
        assert ended.code == 0, ended.err
        assert "takes this key" in ended.out
        setup.options["upstream"] |= {"preset": "cloudzero"}
        setup.options["exporters"] = {
            "backend": {"type": "otlp", "endpoint": "https://b.example", "headers": {"A": key}}
        }
        ended = setup.command("check", "--connect")
        assert ended.code == 0, ended.err
        assert "(cloudzero, otlp)" in ended.out
        assert "takes this key" in ended.out, "asked with OTLP"
        assert "no public document states ai_telemetry_otlp, create_event, enroll_device" in ended.out
        assert "billing drops (AnyCost Stream) are not sent" in ended.out
        assert "exporter backend: otlp https://b.example" in ended.out
        assert key not in ended.out + ended.err
        setup.options["upstream"] |= {"names": {"ai_telemetry_otlp": "/elsewhere"}}
        ended = setup.command("check", "--connect")
        assert "no public document states create_event" in ended.out
        assert "HTTP 404: base_url or the path of AI telemetry is wrong" in ended.err
        setup.options["exporters"]["backend"] |= {"ca_file": str(tmp_path / "none.pem")}
        assert "exporters.backend.ca_file" in setup.command("check").err


def test_a_misspelt_environment_variable_is_named(tmp_path: Path) -> None:
    environ = {"TELEMETRY_GATEWAY_DATA": str(tmp_path / "data"), "TELEMETRY_GATEWAY_LISTN_HTTP": "127.0.0.1:0"}
    ended = run_telemetry_gateway("check", environ=environ)
    assert "TELEMETRY_GATEWAY_LISTN_HTTP sets no option; did you mean TELEMETRY_GATEWAY_LISTEN_HTTP?" in ended.err
