"""Which reader runs: the native extension is optional, and of the right release."""

import sys
from types import ModuleType

import pytest

from gateway.common.native import INTERFACE, MODULE, VARIABLE, NativeMissing, load


def extension(interface: int) -> ModuleType:
    module = ModuleType(MODULE)
    module.INTERFACE = interface  # type: ignore[attr-defined]
    return module


def test_without_the_extension_python_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULE, None)
    assert load({}) == (None, "not installed")


def test_an_extension_of_this_release_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module = extension(INTERFACE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    assert load({}) == load({VARIABLE: "native"}) == (module, "")
    assert load({VARIABLE: "python"}) == (None, f"{VARIABLE}=python")


def test_an_extension_of_another_release_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULE, extension(INTERFACE + 1))
    module, why_not = load({})
    assert module is None
    assert "another release" in why_not


def test_an_extension_that_is_demanded_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULE, None)
    with pytest.raises(NativeMissing, match="not installed"):
        load({VARIABLE: "native"})


def test_a_reader_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="auto, native, python"):
        load({VARIABLE: "rust"})
