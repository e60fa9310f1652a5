"""Filters of usage as they are typed: `--where team=core`."""

from collections.abc import Iterable

import click

from gateway.common.contract.tags import PREFIX
from gateway.usage.sums.grains import DIMENSIONS
from gateway.usage.sums.request import is_dimension
from gateway.usage.sums.tags import parameter_of


def pairs_of(texts: Iterable[str]) -> list[tuple[str, str]]:
    """(dimension, name), "" for an unknown one. Raises UsageError."""
    pairs: list[tuple[str, str]] = []
    for text in texts:
        name, is_filter, value = text.partition("=")
        if not is_filter or not is_dimension(name):
            raise click.UsageError(f"--where: NAME=VALUE is needed, NAME of {', '.join(DIMENSIONS)}, {PREFIX}NAME")
        pairs.append((name, value))
    return pairs


def filter_of(texts: Iterable[str]) -> dict[str, list[str | None]]:
    """As the bodies of budgets and views hold it. Raises UsageError."""
    found: dict[str, list[str | None]] = {}
    for name, value in pairs_of(texts):
        found.setdefault(name, []).append(value or None)
    return found


def parameters_of(texts: Iterable[str]) -> list[tuple[str, str]]:
    """As parameters of `GET /v2/usage`. Raises UsageError."""
    pairs = pairs_of(texts)
    unknown = [name for name, value in pairs if not value]
    return [*(parameter_of(*pair) for pair in pairs if pair[1]), *([("unknown", ",".join(unknown))] if unknown else [])]
