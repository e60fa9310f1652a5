"""No modules of the product import each other in a circle, not even inside a function."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "exporters", "spool")


def modules() -> dict[str, Path]:
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def imported_by(text: str, known: Mapping[str, object]) -> Iterator[str]:
    """Modules among *known*, wherever in *text* the import is."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in submodules if name in known)
            if not all(name in known for name in submodules) and node.module in known:
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def test_no_modules_import_each_other() -> None:
    known = modules()
    imports = {name: {*imported_by(file.read_text(), known)} - {name} for name, file in known.items()}
    assert sum(map(len, imports.values())) > len(known), "else nothing was read"
    TopologicalSorter(imports).prepare()


def test_a_circle_that_a_function_hides_is_found() -> None:
    texts = {"a": "def f():\n    from b import g\n", "b": "from typing import Any\nimport a\n"}
    with pytest.raises(CycleError):
        TopologicalSorter({name: {*imported_by(text, texts)} for name, text in texts.items()}).prepare()
