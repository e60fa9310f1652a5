"""Detectors of inputs of which nothing shows, or calls prove both, whether they include the cached
tokens. Pure.
"""

from collections.abc import Iterator, Sequence

from gateway.counting.readings import InputReading
from gateway.usage.insights.finding import Finding
from gateway.usage.insights.thresholds import ASSUMED_LEAST_CALLS
from gateway.usage.insights.words import shown

MAX_KEYS_SHOWN = 3


def basis_contradicted(readings: Sequence[InputReading]) -> Iterator[Finding]:
    """Instrumentations whose calls prove both."""
    for each in readings:
        if each["basis"] == "contradictory":
            yield Finding(
                cause="basis_contradicted",
                source=_source(each),
                model=each["provider"],
                title=f"{_name(each)}: its calls to {shown(each['provider'])} prove that the input includes the cached"
                f" tokens ({_keys(each['includes_cache'])}), and that it excludes them ({_keys(each['excludes_cache'])})",
                category="data quality",
                effort="medium",
            )


def basis_assumed(readings: Sequence[InputReading]) -> Iterator[Finding]:
    """Instrumentations whose calls prove nothing."""
    for each in readings:
        if each["basis"] is None and each["calls_assumed"] >= ASSUMED_LEAST_CALLS:
            yield Finding(
                cause="basis_assumed",
                source=_source(each),
                model=each["provider"],
                title=f"{_name(each)}: nothing shows whether the input of its calls to {shown(each['provider'])} includes"
                " the cached tokens; it is taken to include them, and the cost may be too low",
                category="data quality",
                effort="low",
            )


def _source(reading: InputReading) -> str:
    return f"{reading['library']}\x00{reading['library_version'] or ''}"


def _name(reading: InputReading) -> str:
    version = reading["library_version"]
    return f"{shown(reading['library'])} {shown(version)}" if version else shown(reading["library"])


def _keys(keys: Sequence[str]) -> str:
    """`key team-a, key team-b and 4 more`"""
    names = ", ".join(f"key {shown(key)}" if key else "without a key" for key in keys[:MAX_KEYS_SHOWN])
    rest = len(keys) - MAX_KEYS_SHOWN
    return f"{names} and {rest} more" if rest > 0 else names
