"""The native extension in tests: they run with it where it is built, and must where
NATIVE_TESTS=required.
"""

import os

import pytest

from gateway.common.native import NATIVE, WHY_NOT

needs_native = pytest.mark.skipif(
    NATIVE is None and os.environ.get("NATIVE_TESTS") != "required", reason=f"the native extension is unused: {WHY_NOT}"
)
IMPLEMENTATIONS = (
    pytest.param(None, id="python"),
    pytest.param(NATIVE, id="native", marks=needs_native),
)
"""Values of a parameter `native`."""
