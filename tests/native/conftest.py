"""The tests of the native extension need it: CI, which builds it, requires it. Those of readers run
over the replay of lessons in Python, too.
"""

import os

import pytest

from gateway.common.native import NATIVE, WHY_NOT


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if hasattr(metafunc.module, "Readers"):
        metafunc.parametrize("extension", ["native", "python"], indirect=True)


@pytest.fixture(autouse=True)
def extension(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips where the extension is not used; fails there with NATIVE_TESTS=required."""
    if getattr(request, "param", "native") == "python":
        monkeypatch.setattr("gateway.ingest.parsing.reader.NATIVE", None)
    elif NATIVE is None:
        assert os.environ.get("NATIVE_TESTS") != "required", WHY_NOT
        pytest.skip(f"the native extension is {WHY_NOT}: make native")
