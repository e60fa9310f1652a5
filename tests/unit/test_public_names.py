"""Product code uses no private name of aiohttp: each of its releases may change any of them."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import aiohttp
import pytest
from aiohttp import web

ROOT = Path(__file__).parents[2]
SEEN_BY = ("self", "cls")
OF_PYTHON = frozenset({"_replace", "_asdict", "_make", "_fields", "_field_defaults", "_abc_impl"})
"""Of named tuples, whose names are public, and of what `abc` makes."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in OF_PYTHON


def importing_aiohttp() -> list[str]:
    """The modules of the product that do."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in ("gateway", "exporters", "spool")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "aiohttp" in path.read_text()
    ]


def is_of_aiohttp(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "aiohttp"


@cache
def private_names(cls: type) -> frozenset[str]:
    """That *cls* defines itself, or sets on itself."""
    try:
        source = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # it is compiled
        source = ast.Module([], [])
    used = (each.attr for each in ast.walk(source) if isinstance(each, ast.Attribute))
    return frozenset(filter(is_private, {*vars(cls), *used}))


@cache
def all_private_names() -> frozenset[str]:
    """Of all classes of aiohttp."""
    modules = [import_module(each.name) for each in walk_packages(aiohttp.__path__, "aiohttp.") if is_plain(each.name)]
    classes = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    return frozenset().union(*(private_names(cls) for cls in classes if is_of_aiohttp(cls)))


def is_plain(module: str) -> bool:
    """Whether it can be imported without the extras of aiohttp."""
    return not is_private(module.rpartition(".")[2]) and module not in {"aiohttp.worker", "aiohttp.pytest_plugin"}


def used_in(module: str) -> Iterator[str]:
    """Private names of aiohttp, with the line."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    source = ast.parse(path.read_text())
    for node in ast.walk(source):
        match node:
            case ast.ImportFrom(module=str(of), names=names) if of.partition(".")[0] == "aiohttp":
                parts = [*of.split("."), *(each.name for each in names)]
                yield from (f"{path.name}:{node.lineno} imports {part}" for part in parts if is_private(part))
            case ast.Attribute(value=value, attr=name) if is_private(name):
                is_own = isinstance(value, ast.Name) and value.id in SEEN_BY
                if not is_own and name in all_private_names():
                    yield f"{path.name}:{node.lineno} {ast.unparse(node)}"
            case ast.ClassDef(name=name):
                cls = getattr(import_module(module), name, object)
                yield from (f"{path.name}:{node.lineno} {name}.{each}" for each in taken_by(cls, node))


def taken_by(cls: type, source: ast.ClassDef) -> set[str]:
    """Private names of its bases in aiohttp that *cls* overrides, sets or reads."""
    of_bases = frozenset().union(*(private_names(base) for base in cls.__mro__ if is_of_aiohttp(base)))
    used = {each.attr for each in ast.walk(source) if isinstance(each, ast.Attribute)}
    return {*vars(cls), *used} & of_bases


@pytest.mark.parametrize("module", importing_aiohttp())
def test_no_private_name_of_aiohttp_is_used(module: str) -> None:
    assert not list(used_in(module))


def test_a_private_name_is_found() -> None:
    class Handler(web.RequestHandler):
        def data_received(self, data: bytes) -> None:
            self._messages.clear()

    source = ast.parse(textwrap.dedent(inspect.getsource(Handler))).body[0]
    assert isinstance(source, ast.ClassDef)
    assert taken_by(Handler, source) == {"_messages"}
    assert {"_kwargs", "_task_handler", "_parser"} <= all_private_names()
