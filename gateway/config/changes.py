"""What of a changed configuration takes effect while the gateway runs, and what needs a restart.
Pure.

A reload takes `limits`, `http`, `log_level`, `log_format`, `upstream.keys`, `upstream.proxy` and
the access of `sources`. Their mappings are read by the parser's process and are not among them.
"""

from typing import Any, Final, Literal

from gateway.config.model import MAPPING_OPTIONS, Config, SourceOptions
from gateway.config.origins import Origins

TAKEN: Final = ("limits", "http", "log_level", "log_format", "upstream.keys", "upstream.proxy", "sources")
"""Options and groups that a reload takes."""
_MAPPING: Final = {name.rstrip("_") for name in MAPPING_OPTIONS}
"""Of a source, as they stand in the file."""


def is_reloaded(option: str) -> bool:
    """Whether a reload takes a change of *option*, such as `limits.max_body_bytes`."""
    steps = option.split(".")
    if steps[0] == "sources" and _MAPPING & set(steps[2:3]):
        return False
    return steps[0] in TAKEN or ".".join(steps[:2]) in TAKEN


def options_of(config: Config, mode: Literal["python", "json"] = "python") -> dict[str, object]:
    """Option -> value, such as `limits.max_body_bytes`; a list is one value, secrets are masked.

    *mode* `json`: as it is written in the file.
    """
    return dict(_leaves(config.model_dump(mode=mode, by_alias=True), ""))


def _leaves(node: Any, name: str) -> list[tuple[str, object]]:
    if not isinstance(node, dict) or not node:
        return [(name, node)]
    return [leaf for key, below in node.items() for leaf in _leaves(below, f"{name}.{key}" if name else str(key))]


def changed(before: Config, after: Config) -> list[str]:
    """The options whose values differ, in order; a changed reference to a secret is not seen."""
    old, new = options_of(before), options_of(after)
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def with_changes(running: Config, after: Config) -> Config:
    """*running*, with what a reload takes from *after*."""
    upstream = running.upstream
    if upstream is not None and after.upstream is not None:
        upstream = upstream.model_copy(update={"keys": after.upstream.keys, "proxy": after.upstream.proxy})
    sources = {name: _with_mapping_of(running.sources.get(name), options) for name, options in after.sources.items()}
    mapped = {name: options for name, options in running.sources.items() if name not in sources and options.mapping}
    cleared = {name: _with_mapping_of(options, SourceOptions()) for name, options in mapped.items()}
    taken = running.model_copy(
        update={
            "limits": after.limits,
            "http": after.http,
            "log_level": after.log_level,
            "log_format": after.log_format,
            "upstream": upstream,
            "sources": {**sources, **cleared},
        }
    )
    return taken.from_origins(_origins_of(taken, running, after))


def _origins_of(taken: Config, running: Config, after: Config) -> Origins:
    """*after*'s of each value that it has in common with *taken*, else *running*'s."""
    values, wanted = options_of(taken, "json"), options_of(after, "json")
    same = {name for name, value in values.items() if wanted.get(name) == value}
    kept = {name: origin for name, origin in running.origins.set_by.items() if name not in same}
    new = {name: origin for name, origin in after.origins.set_by.items() if name in same}
    return Origins(after.origins.file, {**kept, **new})


def _with_mapping_of(running: SourceOptions | None, after: SourceOptions) -> SourceOptions:
    kept = running or SourceOptions()
    return after.model_copy(update={name: getattr(kept, name) for name in MAPPING_OPTIONS})
