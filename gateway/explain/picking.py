"""Extracted values by their field, whatever their kind. Pure."""

from typing import Any

from gateway.normalise.extract import Extracted

_DICTS = ("texts", "counts", "numbers", "who")


def value_of(picked: Extracted, field: str) -> Any:
    """The value under *field*, whatever its kind; None where there is none."""
    for values in (picked.texts, picked.counts, picked.numbers, picked.who, picked.other or {}):
        if field in values:
            return values[field]
    return None


def fields_of(picked: Extracted) -> set[str]:
    return {*picked.texts, *picked.counts, *picked.numbers, *picked.who, *(picked.other or ())}


def copy_of(picked: Extracted) -> Extracted:
    copied = Extracted()
    for name in _DICTS:
        setattr(copied, name, dict(getattr(picked, name)))
    copied.other = None if picked.other is None else dict(picked.other)
    return copied
