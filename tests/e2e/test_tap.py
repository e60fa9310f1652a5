"""`tap` and `top`: the running gateway in a terminal, without content and without harm to it."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from tests.support.commands import run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.spans import call_span

CANARY = "CANARY-7Q-tap"
PROTOBUF = {"Content-Type": "application/x-protobuf"}
MORE = {"user.id": CANARY, "gen_ai.prompt": CANARY, "gen_ai.input.messages": CANARY, "session.id": CANARY}
COST = {"gen_ai.usage.cost": 0.25}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as running:
        yield running


def send(gateway: GatewayProcess, *names: str, service: str = "app", response: str | None = None) -> None:
    for name in names:
        more = MORE if response is None else {**MORE, "gen_ai.response.id": response}
        body = call_span(name, (10, 5), resource={"service.name": service}, more=more)
        assert httpx.post(f"{gateway.intake_url}/v1/traces", content=body, headers=PROTOBUF).status_code == 200


class Tapped:
    """`tap --json` as a process."""

    def __init__(self, gateway: GatewayProcess, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli.main", "tap", "--json", "--data-dir", str(gateway.data_dir), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline().startswith("Connected to http://127.0.0.1:")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def lines(self) -> list[dict[str, Any]]:
        """Of a tap that ends by itself."""
        out, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()]


def test_each_call_is_a_line_with_its_outcome_and_without_content(gateway: GatewayProcess) -> None:
    with Tapped(gateway, "--limit", "3") as tapped:
        send(gateway, "one", service="checkout")
        send(gateway, "two", response="resp-1")
        send(gateway, "three", response="resp-1")
        lines = tapped.lines()
    found = {(line["service"], line["outcome"], line["reason"]) for line in lines}
    assert ("checkout", "kept", None) in found
    assert {"kept", "duplicate"} <= {outcome for _, outcome, _ in found}
    (checkout,) = [line for line in lines if line["service"] == "checkout"]
    assert (checkout["provider"], checkout["input_tokens"], checkout["output_tokens"]) == ("openai", 10, 5)
    assert checkout["cost"]["currency"] == "USD"
    assert CANARY not in json.dumps(lines)
    assert not {"user", "session"} & checkout.keys()


def test_filters_are_of_one_field_each_and_all_hold(gateway: GatewayProcess) -> None:
    with Tapped(gateway, "--limit", "1", "--service", "checkout", "--service", "shop", "--outcome", "kept") as tapped:
        send(gateway, "one", service="other")
        send(gateway, "two", service="shop")
        (line,) = tapped.lines()
    assert line["service"] == "shop"


def test_a_tap_ends_with_its_session(gateway: GatewayProcess) -> None:
    token = {"Authorization": (gateway.data_dir / "admin-token").read_text().strip()}
    with httpx.Client(base_url=gateway.admin_url, timeout=30) as browser:
        browser.get(httpx.post(f"{gateway.admin_url}/v2/login-links", headers=token).json()["path"])
        with browser.stream("GET", "/v2/tap?service=app") as tapped:
            send(gateway, "one")
            lines = tapped.iter_lines()
            assert json.loads(next(filter(None, lines)))["service"] == "app"
            assert browser.post("/logout", headers={"Origin": gateway.admin_url}).status_code == 303
            send(gateway, "two")
            assert not any(lines)


def test_a_tap_ends_with_the_gateway_and_the_gateway_ends_in_spite_of_it(gateway: GatewayProcess) -> None:
    with Tapped(gateway) as tapped:
        assert gateway.stop() == 0
        tapped.process.communicate(timeout=30)
        assert tapped.process.returncode in {0, 1}


def test_without_a_gateway_or_its_token_nothing_is_shown(gateway: GatewayProcess, tmp_path: Path) -> None:
    assert httpx.get(f"{gateway.admin_url}/v2/tap").status_code == 401
    viewer = (gateway.data_dir / "viewer-token").read_text().strip()
    assert httpx.get(f"{gateway.admin_url}/v2/tap", headers={"Authorization": viewer}).status_code == 403
    token = (gateway.data_dir / "admin-token").read_text().strip()
    wrong = httpx.get(f"{gateway.admin_url}/v2/tap?modle=x", headers={"Authorization": token})
    assert wrong.status_code == 400
    assert "modle is not a filter: one of outcome, provider, model" in wrong.text
    ended = run_telemetry_gateway("tap", "--data-dir", str(tmp_path / "none"))
    assert ended.code == 1
    assert "no gateway runs" in ended.err


# ---- top


def test_one_frame_of_top_shows_lanes_today_models_senders_and_no_content(gateway: GatewayProcess) -> None:
    send(gateway, "one", "two", service="checkout\x1b[31m-of-the-shop-with-a-long-name")
    gateway.wait_until_delivered(at_least=2)
    ended = run_telemetry_gateway(
        "top", "--once", "--data-dir", str(gateway.data_dir), environ={"COLUMNS": "80", "LINES": "24"}
    )
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for text in (
        "ai_telemetry",
        "usage_events",
        "unit_cost",
        "devices",
        "lane",
        "pending",
        "today (UTC):",
        "models of",
    ):
        assert text in ended.out
    assert "\x1b" not in ended.out
    assert CANARY not in ended.out


def test_top_runs_in_a_terminal_until_q(gateway: GatewayProcess) -> None:
    command = [sys.executable, "-m", "gateway.cli.main", "top", "--data-dir", str(gateway.data_dir)]
    pid, terminal = pty.fork()
    if pid == 0:  # the command, in a terminal of 80 columns
        os.environ.update({"COLUMNS": "80", "LINES": "24", "TERM": "xterm"})
        os.execv(sys.executable, command)
    shown = b""
    while b"ai_telemetry" not in shown:
        shown += os.read(terminal, 65536)
    os.write(terminal, b"q")
    with suppress(OSError):  # the terminal's end
        while os.read(terminal, 65536):
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
