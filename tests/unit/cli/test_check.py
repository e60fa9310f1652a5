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
