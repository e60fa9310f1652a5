"""What other distributions add by entry points: sources and exporters."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Final

SOURCES_GROUP: Final = "ai_telemetry_gateway.sources"
EXPORTERS_GROUP: Final = "ai_telemetry_gateway.exporters"


class BrokenPlugin(ValueError):
    """An installed plug-in that cannot be used; the text names it and its distribution."""


def plugins(group: str) -> dict[str, EntryPoint]:
    """Name -> entry point, of all installed distributions. Raises BrokenPlugin where two have one
    name.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        if point.name in found:
            raise BrokenPlugin(f"{named(found[point.name])} and {named(point)} have the same name")
        found[point.name] = point
    return found


def loaded(group: str) -> Iterator[tuple[EntryPoint, object]]:
    """Each plug-in with what it points to. Raises BrokenPlugin."""
    for point in plugins(group).values():
        yield point, load(point)


def load(point: EntryPoint) -> object:
    """Raises BrokenPlugin."""
    try:
        return point.load()
    except Exception as error:
        raise BrokenPlugin(f"{named(point)} cannot be loaded: {type(error).__name__}: {error}") from error


def named(point: EntryPoint) -> str:
    """`plug-in NAME of DISTRIBUTION VERSION (module:attribute)`"""
    owner = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return f"plug-in {point.name}{owner} ({point.value})"
