"""Keys from end to end: the command beside a running gateway and on the files of a stopped one, and
who is refused from when on.
"""

import asyncio
import http.client
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from benchmarks.processes import ProcessFailed
from gateway.access.key_files import OF_SERVICE
from gateway.common.contract.scopes import CATALOGUE
from tests.support.commands import Ended, run_command, run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.keys_beside import keys_beside
from tests.support.service_process import ServiceProcess

SECRET = re.compile(r"tgk_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}")
EMPTY_TRACES = json.dumps({"resourceSpans": []})
REFUSED = {401, 403}
SENDING = ("--managed", "Send AI Telemetry")
LEGACY = "a-token-from-before-0123"


class OpenConnection:
    """One connection that stays open: a second one would prove nothing about the first."""

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(split.hostname), split.port, timeout=30)

    def __enter__(self) -> Self:
        self._connection.connect()
        self._socket = self._connection.sock
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def post(self, key: str | None, path: str = "/v1/traces", body: str = EMPTY_TRACES) -> int:
        headers = {"Content-Type": "application/json", "User-Agent": "an-exporter/1.2 (of a test)"}
        self._connection.request("POST", path, body, headers | ({"Authorization": key} if key else {}))
        response = self._connection.getresponse()
        response.read()
        if self._connection.sock is None:
            assert response.status in REFUSED, "only a refusal may end it: what is not let in is not read"
            self._connection.connect()
            self._socket = self._connection.sock
        assert self._connection.sock is self._socket, "the connection was opened again"
        return response.status


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[GatewayProcess]:
    """Nothing on disk yet; whoever starts it need not stop it."""
    gateway = GatewayProcess(tmp_path)
    try:
        yield gateway
    finally:
        if gateway.is_running():
            gateway.kill()


@pytest.fixture
def gateway(stopped: GatewayProcess) -> GatewayProcess:
    stopped.start()
    return stopped


def keys(gateway: GatewayProcess, *arguments: str, answer: str | None = None) -> Ended:
    return run_command(gateway, "keys", *arguments, answer=answer)


def made(gateway: GatewayProcess, name: str, *arguments: str) -> str:
    """The secret, which is all of stdout."""
    ended = keys(gateway, "create", "--name", name, *(arguments or SENDING), "--yes")
    assert ended.code == 0, ended.err
    assert SECRET.fullmatch(ended.out.removesuffix("\n"))
    assert ended.out.strip() not in ended.err
    return ended.out.strip()


def shown(gateway: GatewayProcess, name: str) -> Any:
    return keys(gateway, "show", name, "--json").json


def test_a_key_made_before_the_first_start_is_asked_for_from_then_on(stopped: GatewayProcess) -> None:
    secret = made(stopped, "first sender")
    assert [path.name for path in stopped.data_dir.iterdir() if path.stat().st_mode & 0o077] == []
    stopped.start()
    with OpenConnection(stopped.intake_url) as sender:
        other = secret[:-1] + ("y" if secret.endswith("x") else "x")
        assert (sender.post(secret), sender.post(None), sender.post(other)) == (200, 401, 401)
        assert sender.post(secret, "/v1/events", "{}") == 403
    assert keys(stopped, "list", "--json").json["pagination"]["total_count"] == 1


def test_the_commands_give_the_same_while_a_gateway_runs_and_on_its_files(gateway: GatewayProcess) -> None:
    def life() -> list[Any]:
        name = "a life"
        secret = made(gateway, name, "--scope", "Billing:read_costs", "--label", "team=a", "--bytes-per-minute", "1MiB")
        changes = ("--name", f"{name} b", "--label", "team=b", "--label", "app=x", "--bytes-per-minute", "none")
        edited = keys(gateway, "edit", name, *changes, "--by", "x@example.com", "--json").json
        off = keys(gateway, "disable", f"{name} b", "--json").json
        on = keys(gateway, "enable", edited["id"], "--json").json
        typo = keys(gateway, "show", f"{name} bb")
        refused = keys(gateway, "create", "--name", "x", "--scope", "read_costs", "--managed", "send-ai")
        wrong = keys(gateway, "delete", f"{name} b", answer=f"{name} \n")
        listed = keys(gateway, "list", "--scope", "billing:read_costs")
        gone = keys(gateway, "delete", f"{name} b", answer=f"{name} b\n")
        left = keys(gateway, "list", "--json").json["keys"]
        codes = [ended.code for ended in (typo, refused, wrong, listed, gone)]
        assert f"{name} b" in listed.out
        volatile = {"id", "display", "created_at", "last_modified"}
        records = [{f: value for f, value in key.items() if f not in volatile} for key in (edited, off, on)]
        texts = [ended.err for ended in (typo, refused, wrong)]
        assert secret not in "".join(texts) + listed.out
        return [codes, records, texts, left]

    running = life()
    assert gateway.stop() == 0
    at_rest = life()
    assert running[0] == at_rest[0] == [1, 1, 1, 0, 0]
    for before, after in zip(running[1], at_rest[1], strict=True):
        assert {**before, "name": ""} == {**after, "name": ""}
    edited, off, on = running[1]
    assert (edited["labels"], edited["limits"]["bytes_per_minute"]) == ({"app": "x", "team": "b"}, None)
    assert (edited["updated_by"], off["status"], on["status"]) == ("x@example.com", "Disabled", "Enabled")
    assert running[2] == at_rest[2]
    assert "did you mean 'a life b'?" in running[2][0]
    assert "did you mean 'billing:read_costs'?" in running[2][1]
    assert "never both" in running[2][1]
    assert "exact name" in running[2][2]
    assert running[3] == at_rest[3] == []


def test_the_first_key_names_who_would_be_refused_and_is_made_when_that_is_meant(gateway: GatewayProcess) -> None:
    with OpenConnection(gateway.intake_url) as sender:
        assert sender.post(None) == 200
        asked = keys(gateway, "create", "--name", "first", *SENDING, answer="n\n")
        assert (asked.code, asked.out) == (1, "")
        assert "an-exporter/1.2" in asked.err
        assert "/v1/traces" in asked.err
        assert sender.post(None) == 200, "nothing was made"
        silent = keys(gateway, "create", "--name", "first", *SENDING)
        assert (silent.code, silent.out) == (1, "")
        agreed = keys(gateway, "create", "--name", "first", *SENDING, answer="y\n")
        assert agreed.code == 0, agreed.err
        assert (sender.post(None), sender.post(agreed.out.strip())) == (401, 200)
    assert keys(gateway, "create", "--name", "second", *SENDING).code == 0


def test_a_revoked_key_is_refused_on_the_open_connection_from_the_next_request_on(gateway: GatewayProcess) -> None:
    secret = made(gateway, "sender")
    with OpenConnection(gateway.intake_url) as sender:
        assert sender.post(secret) == 200
        assert keys(gateway, "disable", "sender").code == 0
        assert sender.post(secret) == 401
        assert keys(gateway, "enable", "sender").code == 0
        assert sender.post(secret) == 200
        assert keys(gateway, "edit", "sender", "--scope", "billing:read_costs").code == 0
        assert sender.post(secret) == 403
        assert keys(gateway, "edit", "sender", *SENDING).code == 0
        assert sender.post(secret) == 200
        assert keys(gateway, "delete", "sender", "--confirm", "Sender").code == 1
        assert sender.post(secret) == 200
        assert keys(gateway, "delete", "sender", "--confirm", "sender", "--json").code == 0
        assert sender.post(secret) == 401
        assert sender.post(None) == 401, "open intake does not come back"


async def test_a_key_disabled_by_another_process_is_refused_by_the_gateway_at_the_next_request(
    gateway: GatewayProcess,
) -> None:
    """This process opens the file beside the gateway, which no command does: it is
    about what the gateway looks at.
    """
    secret = await asyncio.to_thread(made, gateway, "sender")
    async with keys_beside(gateway.data_dir) as elsewhere:
        with OpenConnection(gateway.intake_url) as sender:
            assert await asyncio.to_thread(sender.post, secret) == 200
            await elsewhere.disable("sender", by="test@example.com")
            assert await asyncio.to_thread(sender.post, secret) == 401
            await elsewhere.enable("sender", by="test@example.com")
            assert await asyncio.to_thread(sender.post, secret) == 200
            await elsewhere.delete("sender", typed_name="sender")
            assert await asyncio.to_thread(sender.post, secret) == 401


async def test_a_running_local_service_refuses_a_key_that_another_process_or_a_command_disabled(
    tmp_path: Path,
) -> None:
    service = ServiceProcess(tmp_path)
    await asyncio.to_thread(service.start)
    folder = service.data_dir / "service"
    try:
        secret = (folder / "telemetry.key").read_text().strip()
        async with keys_beside(service.data_dir, OF_SERVICE) as elsewhere:
            with OpenConnection(f"http://127.0.0.1:{service.port}") as sender:
                path = "/v2/ai-telemetry/records"
                known = await asyncio.to_thread(sender.post, secret, path, "{}")
                assert known not in {401, 403, 404}
                await elsewhere.disable("gateway telemetry", by="test@example.com")
                assert await asyncio.to_thread(sender.post, secret, path, "{}") == 401
                await elsewhere.enable("gateway telemetry", by="test@example.com")
                assert await asyncio.to_thread(sender.post, secret, path, "{}") == known
                disabled = await asyncio.to_thread(
                    command_on, service, "disable", "gateway telemetry", "--by", "me@host"
                )
                assert disabled.code == 0, disabled.err
                assert await asyncio.to_thread(sender.post, secret, path, "{}") == 401
        service.kill()
        listed = await asyncio.to_thread(command_on, service, "list", "--json")
        by = {key["name"]: (key["status"], key["updated_by"]) for key in listed.json["keys"]}
        assert len(by) == 4
        assert by["gateway telemetry"] == ("Disabled", "me@host")
    finally:
        service.kill()


def command_on(service: ServiceProcess, *arguments: str) -> Ended:
    return run_telemetry_gateway("keys", *arguments, "--service", "--data-dir", str(service.data_dir))


def test_the_local_services_keys_are_managed_by_the_same_commands(gateway: GatewayProcess) -> None:
    def status(secret: str) -> int:
        with OpenConnection(gateway.service_url) as sender:
            return sender.post(secret, "/v2/ai-telemetry/records", "{}")

    created = keys(gateway, "create", "--service", "--name", "another sender", *SENDING)
    assert created.code == 0, created.err
    secret = created.out.strip()
    assert secret.startswith("csk_")
    assert status(secret) == 400
    names = [key["name"] for key in keys(gateway, "list", "--service", "--json").json["keys"]]
    assert names == ["another sender", "gateway billing", "gateway control", "gateway telemetry", "operator read"]
    assert keys(gateway, "list", "--json").json["keys"] == [], "the senders' own are apart"
    assert keys(gateway, "disable", "--service", "another sender").code == 0
    assert status(secret) == 401
    assert gateway.stop() == 0
    assert keys(gateway, "enable", "--service", "another sender").code == 0
    gateway.restart()
    assert status(secret) == 400
    assert keys(gateway, "delete", "--service", "another sender", "--confirm", "another sender").code == 0
    assert status(secret) == 401


def test_the_key_from_before_there_were_several_is_taken_over_from_stdin(gateway: GatewayProcess) -> None:
    ended = keys(gateway, "import-legacy", *SENDING, "--json", answer=f"{LEGACY}\n")
    assert ended.code == 0, ended.err
    assert ended.json["name"] == "Legacy API Key"
    with OpenConnection(gateway.intake_url) as sender:
        assert (sender.post(LEGACY), sender.post(f"Bearer {LEGACY}"), sender.post(None)) == (200, 200, 401)
        assert keys(gateway, "disable", "Legacy API Key").code == 0
        assert sender.post(LEGACY) == 401


def test_a_start_of_a_container_imports_its_key_once(stopped: GatewayProcess, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(LEGACY)
    importing = ("import-legacy", *SENDING, "--if-missing", "--secret-file", str(tmp_path / "key"))
    first, second = keys(stopped, *importing), keys(stopped, *importing)
    assert (first.code, "is imported" in first.out) == (0, True), first.err
    assert (second.code, "is there already" in second.out) == (0, True), second.err
    assert keys(stopped, *importing[:-3], "--secret-file", str(tmp_path / "key")).code == 1


def test_a_start_of_a_container_takes_a_changed_key(stopped: GatewayProcess, tmp_path: Path) -> None:
    """As the chart and Compose run it: what is in the file opens the intake, and nothing before."""
    importing = ("import-legacy", *SENDING, "--replace", "--json", "--secret-file", str(tmp_path / "key"))
    ids = set()
    for secret in (LEGACY, LEGACY, f"{LEGACY}-2"):
        (tmp_path / "key").write_text(secret)
        ended = keys(stopped, *importing)
        assert ended.code == 0, ended.err
        ids.add(ended.json["id"])
    assert len(ids) == 1, "it stays one key"
    assert keys(stopped, *importing, "--if-missing").code == 2
    stopped.start()
    with OpenConnection(stopped.intake_url) as sender:
        assert (sender.post(f"{LEGACY}-2"), sender.post(LEGACY)) == (200, 401)


def test_several_gateways_know_the_same_keys_by_one_file(tmp_path: Path) -> None:
    """As edges behind a balancer: each start imports the file, and what its lines state holds."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = (GatewayProcess(tmp_path / name) for name in ("first", "second"))
    made = [
        keys(first, "create", "--name", name, *SENDING, "--label", f"team={name}", "--json")
        for name in ("search", "help desk")
    ]
    lines = [ended.out.strip() for ended in made]
    secrets = [ended.json["secret"] for ended in made]
    importing = ("import", "--yes", "--json", "--file", str(tmp_path / "keys.jsonl"))
    (tmp_path / "keys.jsonl").write_text("\n".join([*lines, ""]))
    for _ in range(2):
        ended = keys(second, *importing)
        assert ended.code == 0, ended.err
        fields = ("id", "name", "status", "labels")
        assert [[key[f] for f in fields] for key in ended.json["keys"]] == [[m.json[f] for f in fields] for m in made]
        assert not any(secret in ended.out for secret in secrets)
    second.start()
    try:
        with OpenConnection(second.intake_url) as sender:
            assert [sender.post(secret) for secret in secrets] == [200, 200]
            (tmp_path / "keys.jsonl").write_text(lines[0].replace('"Enabled"', '"Disabled"'))
            assert keys(second, *importing).code == 0
            assert [sender.post(secret) for secret in secrets] == [401, 200]
            (tmp_path / "keys.jsonl").write_text(lines[0])
            assert keys(second, *importing).code == 0
            assert sender.post(secrets[0]) == 200
    finally:
        second.kill()


@pytest.mark.parametrize(
    "line", ["secret", "[]", '{"name": "search"}', '{"name": "a key", "secret": "x", "status": "On"}']
)
def test_a_line_that_is_no_key_is_named_and_not_quoted(stopped: GatewayProcess, line: str) -> None:
    ended = keys(stopped, "import", answer=f"\n{line}\n")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Error: line 2: ")
    assert line not in ended.err


def test_what_is_no_text_cannot_be_taken_over_and_is_not_quoted(stopped: GatewayProcess, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff" + LEGACY.encode())
    ended = keys(stopped, "import-legacy", *SENDING, "--secret-file", str(tmp_path / "key"))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "Error: --secret-file: it is no text; the key alone is needed\n"


def test_a_secret_is_in_no_file_log_or_later_answer(gateway: GatewayProcess) -> None:
    secret = made(gateway, "sender")
    assert keys(gateway, "import-legacy", *SENDING, answer=LEGACY).code == 0
    with OpenConnection(gateway.intake_url) as sender:
        sender.post(secret), sender.post(LEGACY), sender.post(secret[:-1])
    answers = [
        keys(gateway, *command).out for command in (["list"], ["list", "--json"], ["show", "sender"], ["scopes"])
    ]
    assert gateway.stop() == 0
    written = b"".join(path.read_bytes() for path in gateway.data_dir.rglob("*") if path.is_file())
    written += gateway.log.read_bytes() + "".join(answers).encode()
    assert b"key changed" in written, "what was done is logged"
    assert secret.split("_")[2].encode() not in written
    assert LEGACY.encode() not in written


def test_a_listener_that_others_reach_starts_only_once_there_is_a_key(tmp_path: Path) -> None:
    listen = {"http": "0.0.0.0:0", "grpc": "off", "admin": "127.0.0.1:0", "service": "127.0.0.1:0"}
    gateway = GatewayProcess(tmp_path, config={"listen": listen})
    with pytest.raises(ProcessFailed, match="telemetry-gateway keys create"):
        gateway.start()
    secret = made(gateway, "sender")
    gateway.start()
    try:
        with OpenConnection(gateway.intake_url) as sender:
            assert (sender.post(secret), sender.post(None)) == (200, 401)
    finally:
        gateway.kill()


def test_a_directory_without_keys_is_reported_and_left_alone(stopped: GatewayProcess) -> None:
    for command in (["list"], ["show", "x"], ["delete", "x", "--confirm", "x"], ["disable", "x"]):
        ended = keys(stopped, *command)
        assert ended.code == 1
        assert "--data-dir" in ended.err
    assert not stopped.data_dir.exists()


def test_every_command_that_prints_data_prints_json(gateway: GatewayProcess) -> None:
    first = keys(gateway, "create", "--name", "sender", *SENDING, "--json", "--by", "me@example.com").json
    assert SECRET.fullmatch(first["secret"])
    assert first["created_by"] == "me@example.com"
    catalogue = keys(gateway, "scopes", "--json").json
    costs = {"scope": "billing:read_costs", "category": "Cost & Usage Data", "write_only": False, "managed": None}
    assert {**costs, "opens_nothing": False} in catalogue["scopes"]
    assert [each["managed"] for each in catalogue["managed"]] == ["send-ai-telemetry", "send-billing-data"]
    for command in (["list"], ["show", "sender"], ["edit", "sender", "--description", "d"], ["disable", "sender"]):
        assert "secret" not in keys(gateway, *command, "--json").json
    assert shown(gateway, first["id"])["description"] == "d"


def test_scopes_that_open_nothing_are_marked_by_the_commands_and_the_page(gateway: GatewayProcess) -> None:
    mark, unused = "opens nothing at this gateway", {scope.name for scope in CATALOGUE if scope.opens_nothing}
    lines = keys(gateway, "scopes").out.splitlines()
    assert {line.split()[0] for line in lines if mark in line} == unused
    token = (gateway.data_dir / "admin-token").read_text().strip()
    asked = urllib.request.Request(
        f"{gateway.admin_url}/keys/new", headers={"Authorization": token, "Accept": "text/html"}
    )
    with urllib.request.urlopen(asked) as page:
        labels = re.findall(r"<label>.*?</label>", page.read().decode())
    assert {found[1] for label in labels if mark in label and (found := re.search(r'value="([^"]+)"', label))} == unused
    chosen = ("--scope", "optimize:check", "--scope", "views:read_view")
    for command in (("create", "--name", "mixed", *chosen), ("edit", "mixed", *chosen)):
        ended = keys(gateway, *command)
        assert (ended.code, [line for line in ended.err.splitlines() if mark in line]) == (
            0,
            [f"optimize:check {mark}"],
        )


def test_the_list_has_the_scope_count_of_every_key_and_the_use_cases_of_a_managed_one(stopped: GatewayProcess) -> None:
    made(stopped, "sender")
    made(stopped, "biller", "--managed", "send-billing-data")
    made(stopped, "reader", "--scope", "billing:read_costs", "--scope", "billing:read_dimensions")
    lines = {line.split("  ")[0]: " ".join(line.split()) for line in keys(stopped, "list").out.splitlines()}
    assert "Enabled 1 of send-ai-telemetry" in lines["sender"]
    assert "Enabled 2 of send-billing-data" in lines["biller"]
    assert "Enabled 2 fixed" in lines["reader"]
