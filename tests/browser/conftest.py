"""One browser, and for each module a gateway with the embedded service to look at.

Without Chromium the tests are skipped; BROWSER_TESTS=required makes that a failure, and
BROWSER_TEST_SCREENSHOTS=FOLDER keeps a picture of each view that is judged.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.traffic import send_traffic
from tests.support.browser import Browser, Looks, Programs, installed, running_browser
from tests.support.gateway_process import GatewayProcess

MISSING = "the browser tests need Chromium and its driver: apt-get install chromium chromium-driver"


@pytest.fixture(scope="session")
def programs() -> Programs:
    found = installed()
    if found is None:
        if os.environ.get("BROWSER_TESTS") == "required":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return found


@pytest.fixture(scope="module")
def gateway(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With what `send_traffic` sent, delivered."""
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as gateway:
        send_traffic(gateway)
        yield gateway


@pytest.fixture(scope="session")
def window(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(programs, tmp_path_factory.mktemp("browser")) as window:
        yield window


@pytest.fixture
def browser(window: Browser, gateway: GatewayProcess) -> Iterator[Browser]:
    """The window on the module's gateway, wide and light, without a session; a test that
    leaves errors in its console fails.
    """
    window.forget_session().console()  # of a test that left its page open when its gateway ended
    window.scripts(run=True)
    window.show_as("light", 1280)
    yield window.at(gateway)
    complaints = window.console()
    window.forget_session().console()
    assert complaints == []


@pytest.fixture
def looks(browser: Browser) -> Looks:
    folder = os.environ.get("BROWSER_TEST_SCREENSHOTS")
    return Looks(browser, Path(folder).resolve() if folder else None)
