"""What is promised of a spool, on each of its homes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from spool.store import Spool
from tests.support.spool_homes import EVERY_HOME, SpoolHome, spool_home_of
from tests.support.spool_rig import Clock


@pytest.fixture(params=EVERY_HOME)
def home(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> SpoolHome:
    return spool_home_of(request.param, tmp_path / "data", clock)


@pytest.fixture
async def spool(home: SpoolHome) -> AsyncIterator[Spool]:
    """Its figures must agree with what is kept when the test is over."""
    spool = home.open()
    yield spool
    await home.check()
    await spool.close()
