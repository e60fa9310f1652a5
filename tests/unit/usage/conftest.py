"""The homes of what is kept of usage."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.stores import SQL_HOMES, Home, home_of


@pytest.fixture(params=SQL_HOMES)
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Home]:
    async with home_of(request.param, tmp_path / "home") as opened:
        yield opened
