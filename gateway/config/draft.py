"""A configuration on its way: plain data from YAML, the line of each option, references
replaced, and the faults so far.

A value is never quoted in a fault, but for names of scopes and lanes: it may be a
secret in the wrong place.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os.path import expanduser
from pathlib import Path
from typing import Any

import yaml

from exporters.keyring import KeyFault, read_secret
from exporters.secret import Secret

REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")

SECRET_OPTION = "secret"  # noqa: S105 - an option's name
METRICS_TOKEN = "metrics_token"  # noqa: S105 - as above
"""Options of this name keep their reference, so that the secret
can change while the gateway runs."""

Steps = tuple[str | int, ...]
"""Keys and indices from the top to an option."""

TLS_FILES: tuple[Steps, ...] = tuple(
    ("tls", listener, option)
    for listener in ("http", "grpc", "admin", "service")
    for option in ("cert_file", "key_file", "client_ca_file")
)
FILE_OPTIONS: tuple[Steps, ...] = (("data_dir",), ("pricing", "file"), ("upstream", "ca_file"), *TLS_FILES)


@dataclass(frozen=True, slots=True)
class Fault:
    option: str
    """Such as `upstream.keys[0].secret`; empty for the file as a whole."""
    message: str
    line: int | None = None
    """In the file, from 1; None for what the file does not hold."""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.option}: {self.message}" if self.option else f"{where}{self.message}"


class ConfigFaults(Exception):
    """Everything that is wrong with a configuration."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


@dataclass(slots=True)
class Draft:
    """A configuration on its way: plain data, where each option
    stands, and what was wrong so far.
    """

    data: dict[str, Any]
    lines: dict[Steps, int]
    faults: list[Fault]

    def fault(self, path: Steps, message: str) -> None:
        self.faults.append(Fault(option_name(path), message, line_of(path, self.lines)))


def read_draft(path: Path | None) -> Draft:
    if path is None:
        return Draft({}, {}, [])
    try:
        return parse_draft(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigFaults([Fault("", f"{path} cannot be read: {reason}")]) from None


def parse_draft(text: str) -> Draft:
    """YAML as plain data with the line of each option.

    Raises ConfigFaults when it is no YAML mapping at all.
    """
    try:
        data, node = yaml_of(text)
        draft = Draft(data, {}, [])
        if node is not None:
            note_lines(draft, node, ())
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date or a number that cannot be
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        raise ConfigFaults([Fault("", "the file is not valid YAML", mark.line + 1 if mark else None)]) from None
    except RecursionError:
        raise ConfigFaults([Fault("", "the file refers to itself, or is nested too deep", 1)]) from None
    return draft


def yaml_of(text: str) -> tuple[dict[str, Any], yaml.Node | None]:
    """The data, and the nodes that it was made of.

    Raises ConfigFaults when it is no mapping, and what the YAML library raises.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        data = None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()
    if data is None:
        return {}, node
    if not isinstance(data, dict):
        raise ConfigFaults([Fault("", "the file must hold options, as `name: value`", 1)])
    return data, node


def note_lines(draft: Draft, node: yaml.Node, path: Steps) -> None:
    """Note the line of every option below *node*; a name given twice is a fault."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            if below in draft.lines:
                draft.faults.append(Fault(option_name(below), "is given twice", key.start_mark.line + 1))
            draft.lines[below] = key.start_mark.line + 1
            note_lines(draft, value, below)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            draft.lines[*path, index] = value.start_mark.line + 1
            note_lines(draft, value, (*path, index))


def expand(draft: Draft, environ: Mapping[str, str], folder: Path) -> None:
    """Replace `${env:NAME}` and `${file:path}` in every text but secrets, `~` before a path,
    and start relative paths at *folder*.
    """
    for path, text in list(texts(draft.data, ())):
        try:
            put(draft.data, path, expanded(text, path[-1] in {SECRET_OPTION, METRICS_TOKEN}, environ, folder))
        except KeyFault as fault:
            draft.fault(path, str(fault))
    for path in (*FILE_OPTIONS, *exporter_paths(draft.data)):
        value = at(draft.data, path)
        if isinstance(value, str):
            put(draft.data, path, str(folder / expanduser(value)))  # noqa: PTH111 - Path's raises for a user that no one knows


def expanded(text: str, is_secret: bool, environ: Mapping[str, str], folder: Path) -> str:  # noqa: FBT001 - a property of the option
    """*text* with its references replaced; in a secret only the file's path is made whole.

    Raises KeyFault.
    """

    def replacement(match: re.Match[str]) -> str:
        kind, name = match[1], match[2].strip()
        reference = f"${{{kind}:{folder / name if kind == 'file' else name}}}"
        return reference if is_secret else read_secret(Secret(reference), environ).reveal()

    return REFERENCE.sub(replacement, text)


def texts(node: object, path: Steps) -> Iterator[tuple[Steps, str]]:
    """Every text in plain data that holds a reference, with its path."""
    if isinstance(node, str) and REFERENCE.search(node):
        yield path, node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from texts(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from texts(value, (*path, index))


def exporter_paths(data: Mapping[str, Any]) -> list[Steps]:
    exporters = data.get("exporters")
    names = exporters if isinstance(exporters, dict) else ()
    return [("exporters", str(name), option) for name in names for option in ("path", "ca_file")]


def at(node: Any, path: Steps) -> object:
    """The value at *path*, None where there is none."""
    for step in path:
        match node:
            case dict():
                node = node.get(step)
            case list() if isinstance(step, int) and step < len(node):
                node = node[step]
            case _:
                return None
    found: object = node
    return found


def put(data: dict[str, Any], path: Steps, value: object) -> None:
    """Set the value at *path*, with the groups above it made where they are missing."""
    *groups, last = path
    node: Any = data
    for step in groups:
        below: Any = at(node, (step,))
        if isinstance(below, dict | list):
            node = below
        else:
            node[step] = node = {}
    node[last] = value


def option_name(path: Steps) -> str:
    """`upstream.keys[0].secret`"""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def line_of(path: Steps, lines: Mapping[Steps, int]) -> int | None:
    """The option's line, or that of the group it is missing from."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return None
