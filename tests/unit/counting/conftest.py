"""What the tests of counting share."""

from collections.abc import Iterator
from types import ModuleType

import pytest

from gateway.counting.calls.ledger import Ledger
from tests.support.native import IMPLEMENTATIONS


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def each_ledger(request: pytest.FixtureRequest) -> Iterator[ModuleType | None]:
    """Ledgers without the native extension, and with it."""
    defaults = Ledger.__init__.__kwdefaults__
    before = defaults["native"]
    defaults["native"] = request.param
    yield request.param
    defaults["native"] = before
