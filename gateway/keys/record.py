"""The record of a key as people see it (service-interface part 2.1), and its row in the database. Pure."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from gateway.keys.errors import InvalidKey
from gateway.keys.scopes import Fixed, Grant, Managed, faults, granted

Status = Literal["Enabled", "Disabled"]

NOT_IN_USE = "Not In Use"
"""Last Accessed of a key that was never used: this literal text."""
NAME_MIN_CHARS = 3
NAME_MAX_CHARS = 256

COLUMNS = (
    "key_id, name, description, mode, grants, status, display, "
    "created_by, created_at_ms, updated_by, modified_at_ms, accessed_at_ms"
)
Row = tuple[str, str, str, str, str, Status, str, str, int, str, int, int | None]


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

    @property
    def last_modified(self) -> str:
        return rfc3339(self.modified_at_ms)

    @property
    def last_accessed(self) -> str:
        return NOT_IN_USE if self.accessed_at_ms is None else rfc3339(self.accessed_at_ms)

    @property
    def scope_count(self) -> int:
        """Scopes granted now; of a managed key it follows the catalogue."""
        return len(granted(self.grant))

    def as_json(self) -> dict[str, object]:
        """The fields of part 2.1 and the display form; what `keys list --json` prints."""
        return {
            "id": self.key_id,
            "name": self.name,
            "description": self.description,
            **grant_as_json(self.grant),
            "status": self.status,
            "display": self.display,
            "created_by": self.created_by,
            "created_at": rfc3339(self.created_at_ms),
            "updated_by": self.updated_by,
            "last_modified": self.last_modified,
            "last_accessed": self.last_accessed,
            "scope_count": self.scope_count,
        }


def from_row(row: Row) -> KeyRecord:
    """The record of a row with `COLUMNS`."""
    key_id, name, description, mode, grants, status, display, *_ = row
    return KeyRecord(key_id, name, description, grant_from_columns(mode, grants), status, display, *row[7:])


def grant_as_json(grant: Grant) -> dict[str, object]:
    match grant:
        case Fixed(scopes):
            return {"scopes": sorted(scopes)}
        case Managed(use_cases):
            return {"managed": sorted(use_cases)}


def grant_columns(grant: Grant) -> tuple[str, str]:
    """`mode` and `grants` as they are stored: names only, never what a use case amounts to."""
    match grant:
        case Fixed(scopes):
            return "fixed", json.dumps(sorted(scopes))
        case Managed(use_cases):
            return "managed", json.dumps(sorted(use_cases))


def grant_from_columns(mode: str, grants: str) -> Grant:
    names: frozenset[str] = frozenset(json.loads(grants))
    return Managed(names) if mode == "managed" else Fixed(names)


def valid_name(name: str) -> str:
    """*name* without blanks around it. Raises InvalidKey."""
    name = name.strip()
    if not NAME_MIN_CHARS <= len(name) <= NAME_MAX_CHARS:
        raise InvalidKey(f"name: {NAME_MIN_CHARS} to {NAME_MAX_CHARS} characters are needed")
    if not name.isprintable():
        raise InvalidKey("name: only printable characters")
    return name


def valid_grant(grant: Grant) -> Grant:
    """*grant* itself. Raises InvalidKey with every fault."""
    found = faults(grant)
    if found:
        raise InvalidKey("scopes: " + "; ".join(found))
    return grant


def rfc3339(time_ms: int) -> str:
    """UTC with milliseconds and `Z`."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
