"""A spool with its ledger for each test; its figures must balance in the end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.spool_rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = await Rig.opened(tmp_path / "data")
    yield rig
    await rig.close()
