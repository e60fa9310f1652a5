"""The record of a key as people see it (service-interface part 2.1). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypedDict
from unicodedata import normalize

from gateway.access.errors import InvalidKey
from gateway.access.faults import Faults
from gateway.access.labels import NO_LABELS, Labels, valid_labels
from gateway.access.limits import NO_LIMITS, KeyLimits, RateLimits, limits_json, valid_limits, valid_reach
from gateway.common.contract.json_types import Count, Time
from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.common.contract.scopes import Fixed, Grant, Managed, faults, granted
from spool.clock import rfc3339_ms

Status = Literal["Enabled", "Disabled"]

NOT_IN_USE = "Not In Use"
"""Last Accessed of a key that was never used: this literal text."""
NAME_MIN_CHARS = 3
NAME_MAX_CHARS = 256
DESCRIPTION_MAX_CHARS = 2000
PERSON_MAX_CHARS = 254
LEGACY_NAME = "Legacy API Key"
"""Of the key that an organization had when it could have only one."""


class KeyId(NamedTuple):
    """A key named by its id, which no edit changes."""

    text: str


Which = str | KeyId
"""A key's name, or its id."""


class GrantJson(TypedDict, total=False):
    scopes: list[str]
    """Exactly these."""
    managed: list[str]
    """Use cases; what they grant follows the catalogue."""


class KeyJson(GrantJson):
    """The fields of part 2.1 and the display form, without the secret. It has either `scopes` or
    `managed`.
    """

    id: str
    name: str
    description: str
    labels: Mapping[str, str]
    """Put on what is sent under the key."""
    limits: KeyLimits
    status: Status
    display: str
    """The secret's beginning and end."""
    created_by: str
    created_at: Time
    updated_by: str
    last_modified: Time
    last_accessed: Time | Literal["Not In Use"]
    """A time."""
    scope_count: Count
    """Scopes granted now."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key, without its secret."""

    key_id: str
    name: str
    description: str
    grant: Grant
    status: Status
    display: str
    """`<prefix>_<id>_…last4`."""
    created_by: str
    created_at_ms: int
    updated_by: str
    modified_at_ms: int
    accessed_at_ms: int | None
    """None: never used."""
    labels: Labels = field(default_factory=lambda: NO_LABELS, hash=False)
    """Stamped on what is sent under the key."""
    limits: RateLimits = NO_LIMITS
    reach: Reach = EVERYTHING
    """What it sees, where it may read."""
    is_legacy: bool = False
    """Its secret is not of our form: it was in use before there were several keys."""
    counted_by_name: str | None = None
    """The name that it had when counting still knew keys by their names; None for a key that was
    made since.
    """

    @property
    def last_modified(self) -> str:
        return rfc3339_ms(self.modified_at_ms)

    @property
    def last_accessed(self) -> str:
        return NOT_IN_USE if self.accessed_at_ms is None else rfc3339_ms(self.accessed_at_ms)

    @property
    def counted_as(self) -> str:
        """What counting knows it by; no renaming changes that."""
        return self.counted_by_name or self.key_id

    @property
    def scope_count(self) -> int:
        """Scopes granted now; of a managed key it follows the catalogue."""
        return len(granted(self.grant))

    def as_json(self) -> KeyJson:
        return {
            "id": self.key_id,
            "name": self.name,
            "description": self.description,
            **grant_as_json(self.grant),
            "labels": dict(self.labels),
            "limits": limits_json(self.limits, self.reach),
            "status": self.status,
            "display": self.display,
            "created_by": self.created_by,
            "created_at": rfc3339_ms(self.created_at_ms),
            "updated_by": self.updated_by,
            "last_modified": self.last_modified,
            "last_accessed": self.last_accessed,
            "scope_count": self.scope_count,
        }


def grant_as_json(grant: Grant) -> GrantJson:
    match grant:
        case Fixed(scopes):
            return {"scopes": sorted(scopes)}
        case Managed(use_cases):
            return {"managed": sorted(use_cases)}


def edited(
    key: KeyRecord,
    *,
    name: str | None = None,
    description: str | None = None,
    grant: Grant | None = None,
    labels: Mapping[str, str] | None = None,
    limits: RateLimits | None = None,
    reach: Reach | None = None,
) -> KeyRecord:
    """*key* with what is given; None leaves as it is."""
    given = {
        "name": name,
        "description": description,
        "grant": grant,
        "labels": labels,
        "limits": limits,
        "reach": reach,
    }
    return replace(key, **{field: value for field, value in given.items() if value is not None})  # type: ignore[arg-type]  # each is its field's type


def valid_key(key: KeyRecord) -> KeyRecord:
    """*key* with each field in its one form. Raises InvalidKey with every fault."""
    faults = Faults()
    valid = replace(
        key,
        name=faults.checked(valid_name, key.name, ""),
        description=faults.checked(valid_description, key.description, ""),
        grant=faults.checked(valid_grant, key.grant, key.grant),
        labels=faults.checked(valid_labels, key.labels, NO_LABELS),
        limits=faults.checked(valid_limits, key.limits, NO_LIMITS),
        reach=faults.checked(valid_reach, key.reach, EVERYTHING),
    )
    if valid.name == LEGACY_NAME and not key.is_legacy:
        faults.found.append(f"name: {LEGACY_NAME!r} is kept for the one key from before there were several")
    faults.refuse()
    return valid


def one_form(name: str) -> str:
    """*name* as it is kept: an accent may be typed as a part of its letter or beside it, and two
    names must not look the same.
    """
    return normalize("NFC", name)


def valid_name(name: str) -> str:
    """*name* in its one form, without blanks around it. Raises InvalidKey."""
    name = one_form(name).strip()
    if not NAME_MIN_CHARS <= len(name) <= NAME_MAX_CHARS:
        raise InvalidKey(f"name: {NAME_MIN_CHARS} to {NAME_MAX_CHARS} characters are needed")
    if not name.isprintable():
        raise InvalidKey("name: only printable characters")
    return name


def valid_description(text: str) -> str:
    """*text* itself, which may have lines. Raises InvalidKey."""
    if len(text) > DESCRIPTION_MAX_CHARS or not all(c.isprintable() or c in "\n\t" for c in text):
        raise InvalidKey(f"description: at most {DESCRIPTION_MAX_CHARS} printable characters are allowed")
    return text


def valid_person(text: str) -> str:
    """Who makes or changes a key: an e-mail, or another word for them. Raises InvalidKey."""
    text = text.strip()
    if not 1 <= len(text) <= PERSON_MAX_CHARS or not text.isprintable():
        raise InvalidKey(f"by: an e-mail, or 1 to {PERSON_MAX_CHARS} printable characters, is needed")
    return text


def valid_grant(grant: Grant) -> Grant:
    """*grant* itself. Raises InvalidKey with every fault."""
    found = faults(grant)
    if found:
        raise InvalidKey("; ".join(found))
    return grant
