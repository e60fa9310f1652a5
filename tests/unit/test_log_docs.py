"""docs/log.md lists every event that the code logs, with its level and fields, and no other."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "exporters", "spool")
LEVELS = {"debug", "info", "warning", "error", "exception"}
OF_THE_LIMIT = {"always", "exc_info"}


class Logged(NamedTuple):
    event: str
    level: str
    fields: frozenset[str]


@cache
def logged() -> tuple[Logged, ...]:
    return tuple(read_packages())


def read_packages() -> Iterator[Logged]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text())
            constants = dict(constants_of(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and (level := level_of(node)) is not None:
                    yield from lines_of(node, level, constants, path)


def constants_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from ((target.id, node.value.value) for target in node.targets if isinstance(target, ast.Name))


def level_of(call: ast.Call) -> str | None:
    match call.func:
        case ast.Attribute(value=ast.Name(id="log" | "_log"), attr=attr) if attr in LEVELS:
            return "error" if attr == "exception" else attr
        case ast.Name(id="level"):  # of a lane: info where it is well again
            return "warning"
        case ast.Name(id="Note"):  # the line of a change over HTTP
            return "info"
    return None


def lines_of(call: ast.Call, level: str, constants: dict[str, str], path: Path) -> Iterator[Logged]:
    match call.args:
        case [ast.Constant(value=str(event)), _, ast.Constant(value=str(id_name))]:
            yield Logged(event, level, frozenset({"what", "by", id_name}))
        case [ast.Constant(value=str(event))]:
            yield Logged(event, level, fields_of(call))
        case [ast.Name(id=name)]:
            yield Logged(constants[name], level, fields_of(call))
        case [ast.Attribute(value=ast.Name(id="note"))]:
            return  # `Note` names it
        case _:
            raise AssertionError(f"{path}:{call.lineno}: an event is one constant name, its values are fields")


def fields_of(call: ast.Call) -> frozenset[str]:
    return frozenset(keyword.arg for keyword in call.keywords if keyword.arg is not None) - OF_THE_LIMIT


def documented() -> dict[str, tuple[str, set[str]]]:
    """Event -> level, fields."""
    found: dict[str, tuple[str, set[str]]] = {}
    for line in (ROOT / "docs/log.md").read_text().splitlines():
        if line.startswith("| `"):
            event, level, fields, _ = (cell.strip() for cell in line.strip("|").split("|"))
            assert event not in found, f"{event} stands twice"
            found[event.strip("`")] = (level, set(re.findall(r"`(\w+)`", fields)))
    return found


def test_every_event_is_documented_with_its_level_and_no_other_is() -> None:
    table = {event: level for event, (level, _) in documented().items()}
    assert {(line.event, line.level) for line in logged()} == set(table.items())


def test_every_field_of_an_event_is_documented() -> None:
    table = documented()
    missing = {(line.event, field) for line in logged() for field in line.fields - table[line.event][1]}
    assert missing == set()


def test_no_event_has_a_field_that_may_hold_a_secret() -> None:
    suspicious = {"secret", "token", "body", "payload", "prompt", "name", "authorization"}
    assert {(line.event, field) for line in logged() for field in line.fields & suspicious} == set()
