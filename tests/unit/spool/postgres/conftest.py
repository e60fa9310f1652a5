from collections.abc import Iterator

import pytest

from tests.support.cut_postgres import Cutter, cutter
from tests.support.postgres import shared_server
from tests.support.spool_homes import InPostgres
from tests.support.spool_rig import Clock


@pytest.fixture
def dsn() -> str:
    """Of an empty schema."""
    return shared_server().new_schema()


@pytest.fixture
def home(clock: Clock, dsn: str) -> InPostgres:
    return InPostgres(clock, dsn)


@pytest.fixture
def cut(dsn: str) -> Iterator[tuple[Cutter, str]]:
    """A cutter, and a DSN through it."""
    with cutter(shared_server(), dsn) as found:
        yield found
