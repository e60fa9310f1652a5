"""The form of a key: fields of HTML <-> the body that the operations take. Pure.

Scopes and use cases are boxes, of which the chosen kind counts; labels are lines of `name=value`;
teams and projects are a name a line; an empty limit is none.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from multidict import MultiMapping

from gateway.common.contract.reach import NAMED
from gateway.common.contract.tags import PREFIX, is_tag, tag_of
from gateway.operate.site.view import FormFault

SEEN: Final = NAMED
"""Dimensions that limit what a key sees, a name a line."""
KINDS: Final = ("managed", "scopes")
LIMITS: Final = ("requests_per_minute", "bytes_per_minute")
TEXTS: Final = ("name", "description", "kind", "labels", *LIMITS, *SEEN, "tags")
MAX_DIGITS: Final = 18


def values_of(key: Mapping[str, Any]) -> dict[str, Any]:
    """What the form holds for *key*, as the API states it."""
    limits = key["limits"]
    return {
        "name": key["name"],
        "description": key["description"],
        "kind": "scopes" if "scopes" in key else "managed",
        "chosen": " ".join([*key.get("scopes", ()), *key.get("managed", ())]),
        "labels": "\n".join(f"{name}={value}" for name, value in key["labels"].items()),
        **{name: "" if limits[name] is None else str(limits[name]) for name in LIMITS},
        **{name: "\n".join(limits.get(name) or ()) for name in SEEN},
        "tags": "\n".join(f"{tag_of(name)}={value}" for name in limits if is_tag(name) for value in limits[name]),
    }


def values_like(key: Mapping[str, Any]) -> dict[str, Any]:
    """What the form holds for a second key with the rights, labels and limits of *key*."""
    return {**values_of(key), "name": next_name(key["name"])}


def next_name(name: str) -> str:
    """`checkout 2` after `checkout`, `checkout 3` after that."""
    base, _, number = name.rpartition(" ")
    if base and number.isascii() and number.isdecimal() and len(number) <= MAX_DIGITS:
        return f"{base} {int(number) + 1}"
    return f"{name} 2"


def typed_of(form: MultiMapping[str]) -> dict[str, str]:
    """The same of a form that was sent, to show again beside a fault."""
    texts = {name: form.get(name, "").replace("\r\n", "\n") for name in TEXTS}
    return {**texts, "chosen": " ".join(value for kind in KINDS for value in form.getall(kind, []))}


def body_of(
    form: MultiMapping[str], typed: Mapping[str, str], had: Mapping[str, str], had_limits: Iterable[str] = ()
) -> dict[str, Any]:
    """The body for a new key, or for a change of one that *had* these labels and limits.

    Raises FormFault for labels and tags that are no lines of `name=value`.
    """
    kind = "scopes" if typed["kind"] == "scopes" else "managed"
    return {
        "name": typed["name"],
        "description": typed["description"],
        kind: form.getall(kind, []),
        "labels": {**dict.fromkeys(had), **dict(pairs_in(typed, "labels"))},
        "limits": {
            **{name: limit_in(typed[name].strip()) for name in LIMITS},
            **{name: names_in(typed[name]) for name in SEEN},
            **dict.fromkeys(filter(is_tag, had_limits)),
            **tags_in(typed),
        },
    }


def tags_in(typed: Mapping[str, str]) -> dict[str, list[str]]:
    """Raises FormFault."""
    found: dict[str, list[str]] = {}
    for name, value in pairs_in(typed, "tags"):
        found.setdefault(f"{PREFIX}{name}", []).append(value)
    return found


def pairs_in(typed: Mapping[str, str], field: str) -> list[tuple[str, str]]:
    """Raises FormFault."""
    pairs = []
    for number, line in enumerate(typed[field].split("\n"), 1):
        if line.strip():
            name, is_pair, value = line.partition("=")
            if not is_pair:
                fault = f"line {number}: name=value is needed"
                raise FormFault("Nothing was changed. See the fields marked below.", {field: fault}, typed)
            pairs.append((name.strip(), value.strip()))
    return pairs


def names_in(text: str) -> list[str] | None:
    """A name a line; None where there is none."""
    return [line.strip() for line in text.split("\n") if line.strip()] or None


def limit_in(text: str) -> int | str | None:
    """None where it is empty; a text that is no number stays one, which is refused."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else text
