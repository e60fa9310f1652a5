"""A key's labels, which are stamped on what is sent under it: allowed forms. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.access.errors import InvalidKey

Labels = Mapping[str, str]
"""Read-only, names in order."""

NO_LABELS: Final[Labels] = MappingProxyType({})
MAX_LABELS = 32
LABEL_MAX_CHARS = 256


def valid_labels(labels: Mapping[str, str]) -> Labels:
    """*labels* in their one form: a copy of its own, names in order. Raises InvalidKey with every
    fault.
    """
    found = label_faults(labels)
    if found:
        raise InvalidKey("; ".join(found))
    return MappingProxyType(dict(sorted(labels.items())))


def label_faults(labels: Mapping[str, str]) -> list[str]:
    """What is wrong, by position: a label's text is the operator's own, but may be long or
    unprintable.
    """
    many = [f"labels: at most {MAX_LABELS} are allowed"] if len(labels) > MAX_LABELS else []
    form = f"1 to {LABEL_MAX_CHARS} printable characters are needed"
    names = [f"labels: name {i}: {form}" for i, name in enumerate(labels, 1) if not _is_sound(name)]
    return (
        many
        + names
        + [f"labels.{name}: {form}" for name, value in labels.items() if _is_sound(name) and not _is_sound(value)]
    )


def _is_sound(text: str) -> bool:
    return 1 <= len(text) <= LABEL_MAX_CHARS and text.isprintable()
