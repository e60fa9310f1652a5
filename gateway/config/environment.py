"""Options in the environment: which variable sets which option, and which was most likely meant."""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from gateway.common import native
from gateway.config.draft import Steps
from gateway.config.model import config_schema

PREFIX: Final = "TELEMETRY_GATEWAY_"
"""Before every option's name in the environment: TELEMETRY_GATEWAY_LISTEN_HTTP is
`listen.http`."""
SHORT_NAMES: Final[Mapping[str, Steps]] = {"TELEMETRY_GATEWAY_DATA": ("data_dir",)}
NO_OPTIONS: Final = frozenset({native.VARIABLE, "TELEMETRY_GATEWAY_BACKUP_PASSPHRASE"})
"""Variables that are read, and set no option."""
NEAR: Final = 0.85
"""Of 1, how much two names must be alike for one to be meant by the other."""
_OF_KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?$")
"""Set for a Service called telemetry-gateway; they mean no option."""


@cache
def environment_options() -> Mapping[str, Steps]:
    """Environment variable -> the option it sets: every option that is one value."""
    schema = config_schema()
    leaves = {PREFIX + "_".join(path).upper(): path for path in leaf_options(schema, schema, ())}
    return {**leaves, **SHORT_NAMES}


def misspelt(names: Iterable[str]) -> dict[str, str]:
    """Of the *names* of environment variables, those that set no option and are near the name of
    one that does -> that name.
    """
    options = environment_options()
    found = {}
    for name in names:
        upper = name.upper()
        if name in options or name in NO_OPTIONS or _OF_KUBERNETES.search(upper):
            continue
        near = [upper] if upper in options else get_close_matches(upper, options, n=1, cutoff=NEAR)
        if near:
            found[name] = near[0]
    return found


def misspelt_texts(names: Iterable[str]) -> list[str]:
    """As `misspelt`, in sentences; no value is quoted, as it may be a secret."""
    return [
        f"the environment variable {name} sets no option; did you mean {meant}?"
        for name, meant in misspelt(names).items()
    ]


def leaf_options(
    schema: Mapping[str, Any], node: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """The options of one value at and below *node* of *schema*."""
    node = resolved(schema, node)
    if "properties" in node:
        for name, below in node["properties"].items():
            yield from leaf_options(schema, below, (*path, name))
    elif node.get("type") not in ("array", "object"):
        yield path


def resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """*node* itself, with `$ref` and "or null" seen through."""
    for choice in node.get("anyOf", []):
        if choice.get("type") != "null":
            return resolved(schema, choice)
    if "$ref" in node:
        return resolved(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    return node
