"""The optional native extension (`native/`), where it is installed and of this release's interface.

TELEMETRY_GATEWAY_READER=python leaves it unused, `native` demands it; `auto`, the default, uses
it where it is.
"""

import os
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Final

VARIABLE: Final = "TELEMETRY_GATEWAY_READER"
MODULE: Final = "telemetry_gateway_native"
INTERFACE: Final = 7
"""The `INTERFACE` of the extension that this code was written for: raised with every change of what
it exports."""


class NativeMissing(Exception):
    """The environment demands the extension, and it cannot be used."""


def load(environ: Mapping[str, str]) -> tuple[ModuleType | None, str]:
    """The extension, or None and why it is not used.

    Raises NativeMissing, and ValueError for a value of the variable that is none.
    """
    wanted = environ.get(VARIABLE) or "auto"
    if wanted not in {"auto", "native", "python"}:
        raise ValueError(f"{VARIABLE}: one of auto, native, python is needed")
    if wanted == "python":
        return None, f"{VARIABLE}=python"
    module, why_not = _installed()
    if wanted == "native" and module is None:
        raise NativeMissing(f"{VARIABLE}=native, but {MODULE} is {why_not}")
    return module, why_not


def _installed() -> tuple[ModuleType | None, str]:
    try:
        module = import_module(MODULE)
    except ImportError as error:
        return None, "not installed" if isinstance(error, ModuleNotFoundError) else "not for this Python"
    found = getattr(module, "INTERFACE", None)
    if found != INTERFACE:
        return None, f"of another release (interface {found}, not {INTERFACE})"
    return module, ""


NATIVE, WHY_NOT = load(os.environ)
"""The extension; None where Python does its work, and why."""
