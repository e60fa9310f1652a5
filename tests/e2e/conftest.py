"""What several end-to-end tests start."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.processes import Process


@pytest.fixture
def provider_url(tmp_path: Path) -> Iterator[str]:
    """Base URL of a model provider on loopback, which knows what it served."""
    process = Process([sys.executable, "-m", "tests.support.mock_llm"], log=tmp_path / "provider.log")
    try:
        yield f"http://127.0.0.1:{json.loads(process.read_line())['port']}"
    finally:
        process.kill()
