"""Reads the configuration: file, then environment, then flags; checks it whole, and states every
fault with its option, file, line and column.

Nothing is opened and no port is bound here. A value is never quoted in a fault: it may be a
secret in the wrong place.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from exporters.keyring import KeyFault, read_secret
from exporters.secret import Secret
from gateway.common.plugins import BrokenPlugin
from gateway.common.suggestions import did_you_mean
from gateway.config.draft import (
    METRICS_TOKEN,
    PASSWORD,
    SECRET_OPTION,
    ConfigFault,
    ConfigFaults,
    Draft,
    Steps,
    at,
    expand,
    option_name,
    read_draft,
)
from gateway.config.environment import environment_options, resolved
from gateway.config.model import Config, config_schema
from gateway.config.origins import Origin, Origins
from gateway.products.catalogue import add_plugged_sources
from gateway.usage.pricing.own import BadPriceFile, parse_price_file

DASHES = str.maketrans("._", "--")
"""`listen.http` -> the flag's `listen-http`."""
FILES: tuple[tuple[Steps, Callable[[str], object]], ...] = (
    (("pricing", "file"), parse_price_file),
    (("upstream", "ca_file"), str),
)
"""Options that name a file which must be there at the start, and what reads its
text. Raises BadPriceFile."""


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    has_secrets: bool = True,
) -> Config:
    """The configuration of the file at *path*, with *environ* and then *overrides* (`listen.http`
    -> value, None for a flag not given) in place.

    *has_secrets*: whether each secret that it names must be there, as for a gateway that is to
    start with it; a command that asks a running one needs none.

    Relative paths in the file start at the file's folder; those of flags and environment at the
    working directory. Raises ConfigFaults.
    """
    environ = os.environ if environ is None else environ
    try:
        add_plugged_sources()
    except BrokenPlugin as error:
        raise ConfigFaults([ConfigFault("", str(error))]) from error
    folder = path.parent if path else Path()
    draft = read_draft(path)
    expand(draft, environ, folder)
    set_by = {option_name(steps): Origin("file", f"line {place.line}") for steps, place in draft.places.items()}
    for name, option in environment_options().items():
        if name in environ:
            draft.set_by(option, environ[name], f"environment variable {name}")
            set_by[option_name(option)] = Origin("environment", name)
    for dotted, value in (overrides or {}).items():
        if value is not None:
            draft.set_by(tuple(dotted.split(".")), value, f"flag --{dotted.translate(DASHES)}")
            set_by[dotted] = Origin("flag")
    config = validated(draft)
    if has_secrets:
        check_secrets(draft, environ)
    check_files(draft)
    if draft.faults or config is None:
        raise ConfigFaults(sorted(draft.faults, key=lambda fault: (0, 0) if fault.place is None else fault.place[1:]))
    return config.from_origins(Origins(path, set_by))


def validated(draft: Draft) -> Config | None:
    """The configuration, or None with its faults noted."""
    try:
        return Config.model_validate(draft.data)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            path = real_path(detail["loc"], draft.data)
            draft.fault(path, message_of(detail, path), is_of_name=detail["type"] == "extra_forbidden")
        return None


def real_path(loc: Steps, data: object) -> Steps:
    """pydantic's location without the names of union members, which the file does not hold."""
    path: Steps = ()
    for index, step in enumerate(loc):
        above = at(data, path)
        is_option = index == len(loc) - 1 and isinstance(above, Mapping | list | tuple)
        is_entry = isinstance(step, int) and isinstance(above, list | tuple)
        if is_option or is_entry or isinstance(at(data, (*path, step)), Mapping | list | tuple):
            path = (*path, step)
    return path


WORDS = {
    "model_type": "must be a group of options",
    "dict_type": "must be a group of options",
    "model_attributes_type": "must be a group of options",
    "tuple_type": "must be a list",
    "path_type": "must be a path",
    "string_type": "must be a text",
}
"""pydantic's faults in words of the file."""


def message_of(detail: ErrorDetails, path: Steps) -> str:
    """One fault of pydantic as a sentence that names the option and what it takes."""
    match detail["type"]:
        case "extra_forbidden":
            return "unknown option" + did_you_mean(str(path[-1]), sibling_options(path))
        case "missing" | "union_tag_not_found":
            return "is required" if detail["type"] == "missing" else "needs a `type`"
        case "value_error":
            return str(detail.get("ctx", {}).get("error", detail["msg"]))
        case "literal_error" | "union_tag_invalid":
            context = detail.get("ctx", {})
            return f"must be one of {context.get('expected') or context.get('expected_tags')}"
        case "string_pattern_mismatch":
            return f"must match the pattern {detail.get('ctx', {}).get('pattern')}"
        case other:
            return WORDS.get(other, detail["msg"].replace("Input should be", "must be"))


def sibling_options(path: Steps) -> list[str]:
    """The names that stand where *path* ends."""
    schema = config_schema()
    node = resolved(schema, schema)
    for step in path[:-1]:
        if isinstance(step, int):
            node = resolved(schema, node.get("items", {}))
        else:
            node = resolved(schema, node.get("properties", {}).get(step) or node.get("additionalProperties") or {})
    choices = [resolved(schema, choice) for choice in node.get("oneOf", [])] or [node]
    return [name for choice in choices for name in choice.get("properties", {})]


def check_secrets(draft: Draft, environ: Mapping[str, str]) -> None:
    """Read each secret once, so that a missing one is reported now."""
    keys, sources = at(draft.data, ("upstream", "keys")), at(draft.data, ("sources",))
    paths: list[Steps] = [
        ("upstream", "keys", i, SECRET_OPTION) for i in range(len(keys) if isinstance(keys, list) else 0)
    ]
    paths += [("sources", str(name), SECRET_OPTION) for name in (sources if isinstance(sources, dict) else ())]
    webhooks = at(draft.data, ("budgets", "webhooks"))
    paths += [("budgets", "webhook", SECRET_OPTION), (METRICS_TOKEN,)]
    paths += [("store", PASSWORD), ("store", SECRET_OPTION)]
    paths += [
        ("budgets", "webhooks", str(name), SECRET_OPTION) for name in (webhooks if isinstance(webhooks, dict) else ())
    ]
    for path in paths:
        reference = at(draft.data, path)
        if isinstance(reference, str):
            try:
                read_secret(Secret(reference), environ)
            except KeyFault as fault:
                draft.fault(path, str(fault))


def check_files(draft: Draft) -> None:
    """Read the files that the start needs, so that a missing or bad one is reported now."""
    for path, read in FILES:
        name = at(draft.data, path)
        if isinstance(name, str):
            try:
                read(Path(name).read_text("utf-8"))
            except OSError as error:
                draft.fault(path, f"{name} cannot be read: {error.strerror}")
            except UnicodeDecodeError:
                draft.fault(path, f"{name} is not UTF-8")
            except BadPriceFile as error:
                draft.fault(path, str(error))
