"""The native extension (`native/`, built as `gateway._native`), where it is installed.

TELEMETRY_GATEWAY_READER=python leaves it unused, `native` demands it; `auto`, the default, uses
it where it is.
"""

import os
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Final, Literal

VARIABLE: Final = "TELEMETRY_GATEWAY_READER"
MODULE: Final = "gateway._native"
INTERFACE: Final = 9
"""The `INTERFACE` of the extension that this code was written for: raised with every change of what
it exports or answers."""
Reader = Literal["native", "python"]


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
        raise NativeMissing(f"{VARIABLE}=native, but {MODULE} is {why_not}: {other_reader(why_not)}")
    return module, why_not


def _installed() -> tuple[ModuleType | None, str]:
    try:
        module = import_module(MODULE)
    except ModuleNotFoundError:
        return None, "not installed"
    except ImportError as error:
        return None, f"not for this Python or system ({error})"
    found = getattr(module, "INTERFACE", None)
    if found != INTERFACE:
        return None, f"of another release (interface {found}, not {INTERFACE})"
    return module, ""


def other_reader(why_not: str | None) -> str:
    """How to change to the other reader, where the native one is not used for that reason, or is
    used.
    """
    if not why_not:
        return f"for the Python reader, start with {VARIABLE}=python"
    if why_not.startswith(VARIABLE):
        return f"for the native reader, start without {VARIABLE}"
    return (
        "for the native reader, install the wheel of this platform,"
        " or install from source where Rust's cargo is (https://rustup.rs)"
    )


def described(name: str, why_not: str | None) -> str:
    """The reader that runs, why it is not the native one, and how to change to the other."""
    why = f" (not native: {why_not})" if why_not else ""
    return f"{name}{why}; {other_reader(why_not)}"


NATIVE, WHY_NOT = load(os.environ)
"""The extension; None where Python does its work, and why."""
READER: Final[Reader] = "python" if NATIVE is None else "native"
