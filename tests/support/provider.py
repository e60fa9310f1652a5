"""The mock model provider as a process, and the truth that it knows."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import Process
from benchmarks.scenario import fetch
from tests.support.mock_llm import Served


@contextmanager
def running_provider(folder: Path) -> Iterator[str]:
    """Base URL of a model provider on loopback; its log is in *folder*."""
    process = Process([sys.executable, "-m", "tests.support.mock_llm"], log=folder / "provider.log")
    try:
        yield f"http://127.0.0.1:{json.loads(process.read_line())['port']}"
    finally:
        process.kill()


def served_by(provider_url: str) -> list[Served]:
    """Every call that it answered, in order."""
    served: list[Served] = json.loads(fetch(provider_url + "/_served"))
    return served
