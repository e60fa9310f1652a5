"""Settings: the configuration in force, where each value is from, and what a reload takes."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson
from aiohttp import web

from gateway.common.native import READER, WHY_NOT, other_reader
from gateway.common.release import commit, release
from gateway.config.changes import is_reloaded, options_of
from gateway.config.model import Config
from gateway.config.origins import DEFAULT, Origin
from gateway.config.profiles import options_set_by
from gateway.operate.parts import Running, running_of
from gateway.operate.site.view import View

_SECONDS: Final = re.compile(r"(\d+)s")
UNITS_S: Final = (("d", 86400), ("h", 3600), ("m", 60))
UNITS_BYTES: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


class Setting(NamedTuple):
    option: str
    value: str
    """As it is written in the file; secrets are masked."""
    origin: Origin
    is_reloaded: bool
    """A reload takes a change of it; else a restart does."""


async def load(request: web.Request) -> dict[str, Any]:
    return settings(running_of(request))


def settings(running: Running) -> dict[str, Any]:
    """The template's context."""
    found = settings_of(running.config)
    return {
        "release": release(),
        "commit": commit(),
        "reader": READER,
        "why_not_native": WHY_NOT,
        "other_reader": other_reader(WHY_NOT),
        "config_file": running.config.origins.file,
        "listeners": {"HTTP": running.http, "gRPC": running.grpc},
        "chosen": [each for each in found if each.origin.kind != "default"],
        "defaults": [each for each in found if each.origin.kind == "default"],
    }


def settings_of(config: Config) -> list[Setting]:
    """Every option, in the order of the groups."""
    of_profile = options_set_by(config.profile)
    return [
        Setting(name, value_text(name, value), origin_of(name, config, of_profile), is_reloaded(name))
        for name, value in options_of(config, "json").items()
    ]


def origin_of(name: str, config: Config, of_profile: frozenset[str]) -> Origin:
    origin = config.origins.set_by.get(name)
    if origin is not None:
        return origin
    return Origin("profile", config.profile) if name in of_profile else DEFAULT


def value_text(name: str, value: object) -> str:
    """As the file has it."""
    match value:
        case None | "" | [] | {}:
            return "none"
        case bool():
            return str(value).lower()
        case int() if name.endswith("_bytes"):
            return in_units(value, UNITS_BYTES, "")
        case str() if (seconds := _SECONDS.fullmatch(value)) is not None:
            return in_units(int(seconds[1]), UNITS_S, "s")
        case list() | dict():
            return orjson.dumps(without_none(value)).decode()
        case _:
            return str(value)


def in_units(n: int, units: tuple[tuple[str, int], ...], smallest: str) -> str:
    """*n* in the largest unit that it is a whole number of."""
    unit, size = next(((unit, size) for unit, size in units if n and n % size == 0), (smallest, 1))
    return f"{n // size}{unit}"


def without_none(value: Any) -> Any:
    if isinstance(value, list):
        return [without_none(each) for each in value]
    if isinstance(value, Mapping):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    return value


VIEW: Final = View(path="/settings", title="Settings", template="settings.html", load=load)
