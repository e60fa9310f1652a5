"""`check` names what `run` would start, and nothing else."""

from pathlib import Path

import pytest

from tests.support.commands import run_telemetry_gateway


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
