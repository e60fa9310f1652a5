"""`connect` from end to end: a key, what to paste with it, and what becomes of the first call."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.processes import Process
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess
from tests.support.ports import OtlpPorts
from tests.support.spans import call_span

SECRET = re.compile(r"tgk_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path, config=OtlpPorts.free().settings()) as gateway:
        yield gateway


class Connecting:
    """The command, while it waits."""

    def __init__(self, gateway: GatewayProcess, folder: Path, *arguments: str) -> None:
        config = str(folder / "config.yaml")
        command = [*gateway.command()[:3], "connect", *arguments, "--config", config, "--json"]
        self.process = Process(command, log=folder / "connect.log")

    def line(self) -> Any:
        return json.loads(self.process.read_line())


def post(gateway: GatewayProcess, body: bytes, key: str) -> int:
    headers = {"Content-Type": "application/x-protobuf", "x-api-key": key}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(gateway.intake_url + "/v1/traces", data=body, headers=headers)
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_sender_is_connected_after_each_mistake_was_named(gateway: GatewayProcess, tmp_path: Path) -> None:
    connecting = Connecting(gateway, tmp_path, "openinference", "--key-name", "checkout")
    try:
        printed = connecting.line()
        assert printed["key"] == "checkout"
        settings = "".join(each["text"] for each in printed["snippets"] if each["language"] == "sh")
        (secret,) = SECRET.findall(settings)
        assert f'"{gateway.intake_url}"' in settings

        assert post(gateway, b"", "YOUR_KEY") == 401
        refused = connecting.line()
        assert (refused["state"], refused["call"]) == ("refused", None)
        assert "key_unknown_or_disabled" in refused["text"]
        assert post(gateway, b"", secret) == 200
        assert connecting.line()["state"] == "no_calls"
        assert post(gateway, call_span("checkout", (7, 3)), secret) == 200
        found = connecting.line()
        if found["state"] == "settling":  # it looks once a second
            found = connecting.line()
        assert found["state"] == "arrived"
        assert (found["call"]["input_tokens"], found["call"]["output_tokens"]) == (7, 3)
        assert found["call"]["key"] == "checkout"
        assert connecting.process.wait() == 0
    finally:
        connecting.process.kill()


def test_a_sender_of_which_nothing_arrives_ends_with_what_to_look_at(gateway: GatewayProcess, tmp_path: Path) -> None:
    connecting = Connecting(gateway, tmp_path, "litellm", "--wait", "0.1")
    try:
        assert "litellm" in connecting.line()["key"]
        waited = connecting.line()
        assert (waited["state"], bool(waited["remedy"])) == ("waiting", True)
        assert connecting.process.wait() == 1
    finally:
        connecting.process.kill()


def test_no_key_is_made_for_a_name_that_no_sender_has_nor_without_a_gateway(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    config = ("--config", str(tmp_path / "config.yaml"))
    ended = run_command(gateway, "connect", "litelm", *config)
    assert ended.code == 2
    assert "litellm" in ended.err
    assert run_command(gateway, "keys", "list", "--json").json["keys"] == []
    gateway.stop()
    ended = run_command(gateway, "connect", "litellm", *config)
    assert ended.code == 1
    assert "telemetry-gateway run" in ended.err
    assert run_command(gateway, "keys", "list", "--json").json["keys"] == []
