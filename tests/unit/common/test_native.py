"""Which reader runs: the native extension is optional, and of the right release."""

import sys
from types import ModuleType

import pytest

from gateway.common.native import INTERFACE, MODULE, VARIABLE, NativeMissing, described, load


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


def test_a_file_that_cannot_be_loaded_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise ImportError("version `GLIBC_2.99' not found")

    monkeypatch.setattr("gateway.common.native.import_module", fail)
    module, why_not = load({})
    assert module is None
    assert why_not == "not for this Python or system (version `GLIBC_2.99' not found)"


def test_each_reader_says_how_to_get_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert described("native", None) == f"native; for the Python reader, start with {VARIABLE}=python"
    left_out = described("python", load({VARIABLE: "python"})[1])
    assert left_out == f"python (not native: {VARIABLE}=python); for the native reader, start without {VARIABLE}"
    monkeypatch.setitem(sys.modules, MODULE, None)
    missing = described("python", load({})[1])
    assert missing.startswith("python (not native: not installed); for the native reader, install the wheel")
