"""A spool in a temporary folder, whose figures must agree with its rows when the test is over."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from spool.sqlite.spool import SqliteSpool
from tests.support.spool_rig import Clock, assert_balanced, open_spool


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def spool(data_dir: Path, clock: Clock) -> AsyncIterator[SqliteSpool]:
    spool = open_spool(data_dir, clock)
    yield spool
    await assert_balanced(spool)
    await spool.close()
