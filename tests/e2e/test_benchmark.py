"""The benchmark itself runs, and what it measured is true: a figure of lost spans is no figure."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.processes import PROJECT_ROOT

pytestmark = pytest.mark.slow


def ingest(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The JSON of a run that found nothing wrong."""
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks.ingest", "--dir", str(tmp_path), "--json", str(out), *arguments]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written: dict[str, Any] = json.loads(out.read_bytes())
    return written


@pytest.mark.parametrize("form", [[], ["--gzip"], ["--otlp-json"], ["--ai-percent", "50"]])
def test_every_acknowledged_span_is_delivered_and_the_figures_are_written(tmp_path: Path, form: list[str]) -> None:
    size = ["--spans", "20", "--attributes", "40", "--requests", "100", "--settle", "100ms"]
    result = ingest(tmp_path, *size, *(form if "--gzip" in form else ["--no-gzip", *form]))["medians"][0]
    assert result["verdict"] == "yes"
    assert result["accepted_spans_per_s"] > 0
    assert result["peak_rss_mib"] >= result["rss_ready_mib"] > 0


def test_grpc_is_measured_with_http(tmp_path: Path) -> None:
    size = ["--spans", "20", "--attributes", "40", "--requests", "100", "--settle", "100ms"]
    http, grpc = ingest(tmp_path, "--grpc", "--no-gzip", *size)["medians"]
    assert (http["encoding"], grpc["encoding"]) == ("protobuf", "grpc")
    assert (http["verdict"], grpc["verdict"]) == ("yes", "yes")
    assert grpc["accepted_spans_per_s"] > 0


def test_a_backlog_is_kept_while_the_upstream_refuses_and_then_drains(tmp_path: Path) -> None:
    result = ingest(tmp_path, "--pending", "--pending-spans", "5000", "--settle", "100ms")["medians"][0]
    assert (result["verdict"], result["pending_spans"]) == ("yes", 5000)
    assert result["drain_spans_per_s"] > 0
