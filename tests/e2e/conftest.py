"""What several end-to-end tests start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.provider import running_provider


@pytest.fixture
def provider_url(tmp_path: Path) -> Iterator[str]:
    """Base URL of a model provider on loopback, which knows what it served."""
    with running_provider(tmp_path) as url:
        yield url
