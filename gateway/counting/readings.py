"""How inputs were read of which no table knows whether they hold the cached tokens, by
instrumentation: proved, learnt or assumed. Pure; bounded, of one process.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypedDict

from gateway.common.contract.json_types import Count
from gateway.common.lru import forget_oldest
from gateway.counting.bases import Instrumentation, LearntBases

MAX_INSTRUMENTATIONS: Final = 1_000
"""Some 0.4 KiB each; the one that was silent longest goes first."""

InputBasis = Literal["includes_cache", "excludes_cache", "contradictory"]


class InputReading(TypedDict):
    """One instrumentation whose input no table knows, for one provider."""

    library: str
    """The instrumentation scope, or the format of a source."""
    library_version: str | None
    provider: str
    basis: InputBasis | None
    """What calls proved that the input does; null where none proved anything."""
    includes_cache: list[str]
    """Inbound keys under which calls proved that the input includes the cached tokens; empty string
    for open intake."""
    excludes_cache: list[str]
    """Those under which calls proved that it excludes them."""
    calls_proved: Count
    """Calls that prove it themselves, since the start."""
    calls_learnt: Count
    """Calls that were read as others of the instrumentation proved it."""
    calls_assumed: Count
    """Calls of which nothing shows it: taken to include the cached tokens."""
    input_tokens_assumed: Count
    """Of these; the cached tokens are missing where the input excludes them."""


@dataclass(slots=True)
class Readings:
    """Calls of one instrumentation, and the input tokens of those that were assumed."""

    proved: int = 0
    learnt: int = 0
    assumed: int = 0
    tokens: int = 0

    def add(self, other: "Readings") -> None:
        self.proved += other.proved
        self.learnt += other.learnt
        self.assumed += other.assumed
        self.tokens += other.tokens


class InputReadings:
    """What one gateway saw."""

    def __init__(self) -> None:
        self._seen: dict[Instrumentation, Readings] = {}
        """The one seen last is the last one."""

    def add(self, seen: Mapping[Instrumentation, Readings]) -> None:
        """Calls that were settled."""
        for instrumentation, readings in seen.items():
            known = self._seen.pop(instrumentation, None) or Readings()
            known.add(readings)
            self._seen[instrumentation] = known
        forget_oldest(self._seen, MAX_INSTRUMENTATIONS)

    def status(self, bases: LearntBases) -> list[InputReading]:
        """Those with calls since the start, and those of which something is remembered; the most
        assumed tokens first.
        """
        keys = _keys_by_reading(bases)
        everyone = dict.fromkeys((*self._seen, *keys))
        found = [_shown(each, self._seen.get(each, Readings()), *keys.get(each, ([], []))) for each in everyone]
        return sorted(found, key=lambda x: (-x["input_tokens_assumed"], x["library"], x["provider"]))


def _keys_by_reading(bases: LearntBases) -> dict[Instrumentation, tuple[list[str], list[str]]]:
    """Instrumentation -> keys whose calls proved that its input includes the cache, and those whose
    calls proved that it excludes it.
    """
    found: dict[Instrumentation, tuple[list[str], list[str]]] = {}
    for (instrumentation, key), proofs in bases.all():
        includes, excludes = found.setdefault(instrumentation, ([], []))
        if proofs.inclusive:
            includes.append(key)
        if proofs.exclusive:
            excludes.append(key)
    return found


def _shown(who: Instrumentation, seen: Readings, includes: Iterable[str], excludes: Iterable[str]) -> InputReading:
    held_by, left_out_by = sorted(includes), sorted(excludes)
    return {
        "library": who.library,
        "library_version": who.version or None,
        "provider": who.provider,
        "basis": _basis(bool(held_by), bool(left_out_by)),
        "includes_cache": held_by,
        "excludes_cache": left_out_by,
        "calls_proved": seen.proved,
        "calls_learnt": seen.learnt,
        "calls_assumed": seen.assumed,
        "input_tokens_assumed": seen.tokens,
    }


def _basis(includes: bool, excludes: bool) -> InputBasis | None:  # noqa: FBT001 two readings
    if includes and excludes:
        return "contradictory"
    if includes:
        return "includes_cache"
    return "excludes_cache" if excludes else None


SHOWN_BASES: Final[Mapping[InputBasis | None, str]] = {
    "includes_cache": "includes the cached tokens",
    "excludes_cache": "excludes the cached tokens",
    "contradictory": "calls contradict each other",
    None: "nothing shows it",
}
"""What a person reads for each."""
