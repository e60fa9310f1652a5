"""`check` names what `run` would start, and nothing else."""

from pathlib import Path

import pytest

from tests.support.commands import run_telemetry_gateway


@pytest.mark.parametrize(
    ("listen", "line"),
    [
        ("", None),
        ("listen: {grpc: 'off'}", None),
        ("listen: {grpc: '127.0.0.1:4317'}", "listen.grpc      nothing listens there: this release has no OTLP/gRPC"),
    ],
)
def test_a_port_that_nothing_serves_is_not_listed(tmp_path: Path, listen: str, line: str | None) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"data_dir: {tmp_path / 'data'}\n{listen}\n")
    ended = run_telemetry_gateway("check", "--config", str(file))
    assert "listen.grpc" not in ended.err
    assert [found for found in ended.out.splitlines() if "grpc" in found] == ([] if line is None else [line])
    assert "listen.http      127.0.0.1:4318" in ended.out
