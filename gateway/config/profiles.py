"""Profiles: tables of defaults for a kind of machine. Pure.

What the operator sets, in the file, the environment or by a flag,
stands over its profile's defaults.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

Profile = Literal["server", "device"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

DEVICE: Mapping[str, Any] = {
    "workers": "off",
    "limits": {
        "max_body_bytes": "16MiB",
        "max_decompressed_bytes": "32MiB",
        "max_in_flight_bytes": "32MiB",
        "max_items": 10_000,
        "max_json_values": 200_000,
        "max_series": 2_000,
        "max_source_series": 20_000,
        "max_connections": 500,
    },
    "counting": {"max_keys": 50_000},
    "pricing": {"price_list": "off"},
    "devices": {"max_new_per_hour": 20},
    "unit_cost": {"operation": "sum", "max_streams": 100},
    "spool": {"max_bytes": "256MiB", "max_dead_letter_bytes": "32MiB", "reserve_bytes": "16MiB"},
    "upstream": {"sum_retry": "at_least_once", "knows_event_ids": True},
}
"""A laptop or a node that forwards to another gateway: that one knows repeats, has the prices,
and adds up what several send.

The names are those of the configuration file; a group that the operator does not have
(`upstream`) is not made by it.
"""

_DEFAULTS: Mapping[Profile, Mapping[str, Any]] = {"server": {}, "device": DEVICE}
_NOT_MADE_HERE = frozenset({"upstream"})


def with_profile(options: Mapping[str, Any]) -> dict[str, Any]:
    """*options* with the defaults of the profile that they name;
    as they are where it is unknown.
    """
    name = options.get("profile")
    return laid_under(options, _DEFAULTS[name]) if name in PROFILES else dict(options)


def options_set_by(profile: Profile) -> frozenset[str]:
    """Options, such as `limits.max_items`, whose defaults are the profile's own."""
    return frozenset(_names(_DEFAULTS[profile], ""))


def _names(defaults: Mapping[str, Any], above: str) -> list[str]:
    return [
        name
        for key, default in defaults.items()
        for name in (_names(default, f"{above}{key}.") if isinstance(default, Mapping) else [above + key])
    ]


def laid_under(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """*options*, and from *defaults* what they lack; in groups, option by option."""
    whole = dict(options)
    for name, default in defaults.items():
        given = whole.get(name)
        if isinstance(default, Mapping):
            if isinstance(given, Mapping):
                whole[name] = laid_under(given, default)
            elif name not in whole and name not in _NOT_MADE_HERE:
                whole[name] = dict(default)
        elif name not in whole:
            whole[name] = default
    return whole
