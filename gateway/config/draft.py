"""A configuration on its way: plain data from YAML, the place of each option, references
replaced, and the faults so far.

A value is never quoted in a fault, but for names of scopes and lanes: it may be a
secret in the wrong place.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os.path import expanduser
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from exporters.keyring import KeyFault, read_secret
from exporters.secret import Secret
from gateway.config.yaml_faults import Loader, reason_of

REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")

SECRET_OPTION = "secret"  # noqa: S105 - an option's name
METRICS_TOKEN = "metrics_token"  # noqa: S105 - as above
PASSWORD = "password"  # noqa: S105 - as above
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


class Place(NamedTuple):
    """Where an option is set."""

    source: str
    """The file as it was named, `environment variable NAME` or `flag --name`."""
    line: int = 0
    """From 1; 0 outside of files, and for a file as a whole."""
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}, column {self.column}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class ConfigFault:
    option: str
    """Such as `upstream.keys[0].secret`; empty for the file as a whole."""
    message: str
    place: Place | None = None
    """None for what nothing sets."""

    def __str__(self) -> str:
        return ": ".join(str(part) for part in (self.place, self.option, self.message) if part)


class ConfigFaults(Exception):
    """Everything that is wrong with a configuration."""

    def __init__(self, faults: list[ConfigFault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


@dataclass(slots=True)
class Draft:
    """A configuration on its way: plain data, where each option
    is, and what was wrong so far.
    """

    data: dict[str, Any]
    places: dict[Steps, Place] = field(default_factory=dict)
    """Of the options' names, and of the entries of lists."""
    values: dict[Steps, Place] = field(default_factory=dict)
    """Of the values, those that are neither groups nor lists."""
    faults: list[ConfigFault] = field(default_factory=list)

    def fault(self, path: Steps, message: str, *, is_of_name: bool = False) -> None:
        """Note what is wrong with the value at *path*, or with the option's name."""
        value = None if is_of_name else self.values.get(path)
        self.faults.append(ConfigFault(option_name(path), message, value or place_of(path, self.places)))

    def set_by(self, path: Steps, value: object, source: str) -> None:
        """Put *value* in the place of what the file has."""
        put(self.data, path, value)
        self.values.pop(path, None)
        self.places[path] = Place(source)


def read_draft(path: Path | None) -> Draft:
    if path is None:
        return Draft({})
    try:
        return parse_draft(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigFaults([ConfigFault("", f"{path} cannot be read: {reason}")]) from None


def parse_draft(text: str, source: str) -> Draft:
    """YAML as plain data with the place of each option in *source*.

    Raises ConfigFaults when it is no YAML mapping at all.
    """
    try:
        data, node = yaml_of(text, source)
        draft = Draft(data)
        if node is not None:
            note_places(draft, node, (), source)
    except yaml.YAMLError as error:
        reason, where = reason_of(error, text)
        raise ConfigFaults([ConfigFault("", reason, Place(source, *(where or ())))]) from None
    except RecursionError:
        reason = "the file refers to itself, or is nested too deep"
        raise ConfigFaults([ConfigFault("", reason, Place(source))]) from None
    return draft


def yaml_of(text: str, source: str) -> tuple[dict[str, Any], yaml.Node | None]:
    """The data, and the nodes that it was made of.

    Raises ConfigFaults when it is no mapping, and what the YAML library raises.
    """
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        data = None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()
    if data is None:
        return {}, node
    if not isinstance(data, dict):
        raise ConfigFaults([ConfigFault("", "the file must hold options, as `name: value`", Place(source, 1, 1))])
    return data, node


def note_places(draft: Draft, node: yaml.Node, path: Steps, source: str) -> None:
    """Note the place of every option below *node*; a name given twice is a fault."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below, place = (*path, str(key.value)), place_at(key, source)
            if (first := draft.places.get(below)) is not None:
                message = f"is given twice, first on line {first.line}: keep one of them"
                draft.faults.append(ConfigFault(option_name(below), message, place))
            draft.places[below] = place
            note_places(draft, value, below, source)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            draft.places[*path, index] = place_at(value, source)
            note_places(draft, value, (*path, index), source)
    else:
        draft.values[path] = place_at(node, source)


def place_at(node: yaml.Node, source: str) -> Place:
    return Place(source, node.start_mark.line + 1, node.start_mark.column + 1)


def expand(draft: Draft, environ: Mapping[str, str], folder: Path) -> None:
    """Replace `${env:NAME}` and `${file:path}` in every text but secrets, `~` before a path,
    and start relative paths at *folder*.
    """
    for path, text in list(texts(draft.data, ())):
        try:
            put(draft.data, path, expanded(text, path[-1] in {SECRET_OPTION, METRICS_TOKEN, PASSWORD}, environ, folder))
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


def place_of(path: Steps, places: Mapping[Steps, Place]) -> Place | None:
    """Of the option, or of the group it is missing from."""
    for end in range(len(path), 0, -1):
        if path[:end] in places:
            return places[path[:end]]
    return None
