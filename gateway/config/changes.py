"""What of a changed configuration takes effect while the gateway runs, and what needs a restart.
Pure.

A reload takes `limits`, `http`, `log_level`, `log_format`, `upstream.keys`, `upstream.proxy` and
the access of `sources`. Their mappings are read by the parser's process and are not among them.
"""

from typing import Any

from gateway.config.model import MAPPING_OPTIONS, Config, SourceOptions


def options_of(config: Config) -> dict[str, object]:
    """Option -> value, such as `limits.max_body_bytes`; a list is one value, secrets are masked."""
    return dict(_leaves(config.model_dump(by_alias=True), ""))


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
    return running.model_copy(
        update={
            "limits": after.limits,
            "http": after.http,
            "log_level": after.log_level,
            "log_format": after.log_format,
            "upstream": upstream,
            "sources": {**sources, **cleared},
        }
    )


def _with_mapping_of(running: SourceOptions | None, after: SourceOptions) -> SourceOptions:
    kept = running or SourceOptions()
    return after.model_copy(update={name: getattr(kept, name) for name in MAPPING_OPTIONS})
