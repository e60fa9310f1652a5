"""`check` names what `run` would start, and nothing else."""

from pathlib import Path

import pytest

from gateway.app import Gateway
from gateway.cli.start_checks import StartChecks
from gateway.common.contract.errors import CannotStart
from gateway.config.loader import load_config
from gateway.operate.mcp import route
from spool.data_dir import MOVED
from tests.support.commands import run_telemetry_gateway
from tests.support.running_gateway import options


@pytest.mark.parametrize(
    ("listen", "line"),
    [
        ("", "listen.grpc      127.0.0.1:4317"),
        ("listen: {grpc: 'off'}", "listen.grpc      off"),
        ("listen: {grpc: '127.0.0.1:0'}", "listen.grpc      127.0.0.1:0"),
    ],
)
def test_the_grpc_listener_is_stated(tmp_path: Path, listen: str, line: str) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"data_dir: {tmp_path / 'data'}\n{listen}\n")
    ended = run_telemetry_gateway("check", "--config", str(file))
    assert [found for found in ended.out.splitlines() if found.startswith("listen.grpc")] == [line]
    assert "listen.http      127.0.0.1:4318" in ended.out


def test_a_webhook_of_budgets_whose_secret_cannot_sign_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    webhook = "{url: 'https://alerts.example/token-4711', secret: too-short}"
    file.write_text(f"data_dir: {tmp_path / 'data'}\nbudgets: {{webhook: {webhook}}}\n")
    ended = run_telemetry_gateway("check", "--config", str(file))
    said = ended.out + ended.err
    assert ended.code == 1
    assert "a secret of 24 bytes or more is needed" in said
    assert "too-short" not in said
    assert "token-4711" not in said


def test_a_disk_on_which_all_data_would_be_refused_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"data_dir: {tmp_path / 'data'}\nspool: {{reserve_bytes: 1000TiB}}\n")
    ended = run_telemetry_gateway("check", "--config", str(file))
    assert ended.code == 1
    assert "`run` would start, and refuse all data until" in ended.err


def test_a_data_directory_that_was_moved_into_a_cell_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"data_dir: {tmp_path / 'data'}\nlisten: {{grpc: 'off'}}\n")
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / MOVED).write_text("cell default of host=db\n")
    ended = run_telemetry_gateway("check", "--config", str(file))
    assert ended.code == 1
    assert "cell default of host=db" in ended.err


async def test_mcp_without_its_sdk_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = StartChecks(load_config(None, options(tmp_path, mcp="on"), {}))
    await checks.look()
    assert checks.faults == []
    monkeypatch.setattr(route, "find_spec", lambda _: None)
    without = StartChecks(load_config(None, options(tmp_path, mcp="on"), {}))
    await without.look()
    assert [found.part for found in without.faults] == ["mcp"]
    with pytest.raises(CannotStart, match="MCP SDK"):
        await Gateway.start(load_config(None, options(tmp_path, mcp="on"), {}))


def test_commands_that_ask_a_gateway_need_no_secret_of_its_upstream(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    key = "{name: telemetry, secret: '${env:NOT_SET_HERE}', managed: [send-ai-telemetry]}"
    upstream = f"upstream: {{base_url: 'https://service.example', keys: [{key}]}}"
    file.write_text(f"data_dir: {tmp_path / 'data'}\n{upstream}\n")
    for command in ("check", "run"):
        ended = run_telemetry_gateway(command, "--config", str(file))
        assert "environment variable NOT_SET_HERE is not set" in ended.err
    for command in (["keys", "list"], ["spool", "status"], ["usage"], ["devices", "list"]):
        ended = run_telemetry_gateway(*command, "--config", str(file))
        assert "NOT_SET_HERE" not in ended.err, ended.err
