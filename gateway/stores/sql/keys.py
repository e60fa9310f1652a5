"""`KeyRows` in a database."""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from gateway.access.errors import InvalidKey, LegacyKeyExists, NameTaken, NoSuchKey, PepperMismatch
from gateway.access.home import (
    ANOTHER_PEPPER,
    LEGACY_EXISTS,
    NO_SUCH_VIEWER,
    KeptKey,
    KeptViewer,
    KeysNow,
    ViewerToken,
    name_taken,
    no_such_key,
    too_many_viewers,
    viewer_name_taken,
)
from gateway.access.labels import Labels
from gateway.access.limits import RateLimits
from gateway.access.record import KeyId, KeyRecord, Status, Which
from gateway.common.contract.reach import reach_column, reach_in
from gateway.common.contract.scopes import Fixed, Grant, Managed
from spool.sql.connection import Connection

PART: Final = "keys"
_COLUMNS: Final = (
    "key_id", "name", "description", "mode", "grants", "status", "display", "created_by", "created_at_ms", "updated_by",
    "modified_at_ms", "accessed_at_ms", "labels", "requests_per_minute", "bytes_per_minute", "is_legacy", "counted_by_name", "reach",
)  # fmt: skip
EVERY: Final = f"SELECT secret_hash, {', '.join(_COLUMNS)} FROM keys"  # noqa: S608 - constants
_INSERT: Final = (
    f"INSERT INTO keys ({', '.join(_COLUMNS)}, secret_hash) VALUES ({', '.join('?' * (len(_COLUMNS) + 1))})"  # noqa: S608 - constants
)
_CHANGED: Final = [each for each in _COLUMNS if each != "accessed_at_ms"]
_SAVE: Final = f"UPDATE keys SET {', '.join(f'{name} = ?' for name in _CHANGED)} WHERE key_id = ?"  # noqa: S608 - constants
_COUNT_CHANGE: Final = "UPDATE key_facts SET generation = generation + 1"
_VIEWER_COLUMNS: Final = ("token_id", "name", "reach", "secret_hash", "display", "created_by", "created_at_ms")
EVERY_VIEWER: Final = f"SELECT {', '.join(_VIEWER_COLUMNS)} FROM viewer_tokens"  # noqa: S608 - constants
_INSERT_VIEWER: Final = (
    f"INSERT INTO viewer_tokens ({', '.join(_VIEWER_COLUMNS)}) VALUES ({', '.join('?' * len(_VIEWER_COLUMNS))})"  # noqa: S608 - constants
)
GENERATION: Final = "SELECT generation, created FROM key_facts"
Row = tuple[
    str,
    str,
    str,
    str,
    str,
    Status,
    str,
    str,
    int,
    str,
    int,
    int | None,
    str,
    int | None,
    int | None,
    bool,
    str | None,
    str,
]


class SqlKeyRows:
    """`KeyRows` in the caller's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def check_pepper(self, check: bytes) -> None:
        (stored,) = self._connection.execute("SELECT pepper_check FROM key_facts").fetchone()
        if stored is None:
            self._connection.execute("UPDATE key_facts SET pepper_check = ?", (check,))
        elif stored != check:
            raise PepperMismatch(ANOTHER_PEPPER)

    def every(self) -> list[KeyRecord]:
        return [kept_key(row).key for row in self._connection.execute(f"{EVERY} ORDER BY name")]

    def find(self, which: Which) -> KeyRecord:
        found = self._find("key_id = ?", which.text) if isinstance(which, KeyId) else self._find("name = ?", which)
        if found is None:
            raise NoSuchKey(no_such_key(which))
        return found.key

    def find_by_id(self, key_id: str) -> KeptKey | None:
        return self._find("key_id = ?", key_id)

    def find_legacy(self) -> KeptKey | None:
        return self._find("is_legacy")

    def _find(self, where: str, *values: str) -> KeptKey | None:
        row = self._connection.execute(f"{EVERY} WHERE {where}", values).fetchone()
        return None if row is None else kept_key(row)

    def insert(self, key: KeyRecord, secret_hash: bytes) -> None:
        if key.is_legacy and self.find_legacy() is not None:
            raise LegacyKeyExists(LEGACY_EXISTS)
        self._refuse_taken(key)
        self._connection.execute(_INSERT, (*_row(key), secret_hash))
        self._connection.execute(f"{_COUNT_CHANGE}, created = created + 1")

    def save(self, key: KeyRecord) -> None:
        self._refuse_taken(key)
        values = dict(zip(_COLUMNS, _row(key), strict=True))
        self._connection.execute(_SAVE, (*(values[name] for name in _CHANGED), key.key_id))
        self._connection.execute(_COUNT_CHANGE)

    def _refuse_taken(self, key: KeyRecord) -> None:
        found = self._find("name = ?", key.name)
        if found is not None and found.key.key_id != key.key_id:
            raise NameTaken(name_taken(key.name))

    def save_secret(self, key_id: str, secret_hash: bytes) -> None:
        self._connection.execute("UPDATE keys SET secret_hash = ? WHERE key_id = ?", (secret_hash, key_id))

    def delete(self, key_id: str) -> None:
        self._connection.execute("DELETE FROM keys WHERE key_id = ?", (key_id,))
        self._connection.execute(_COUNT_CHANGE)

    def viewers(self) -> list[KeptViewer]:
        return [kept_viewer(row) for row in self._connection.execute(f"{EVERY_VIEWER} ORDER BY name")]

    def insert_viewer(self, kept: KeptViewer, *, most: int) -> None:
        names = {each.token.name for each in self.viewers()}
        if kept.token.name in names:
            raise NameTaken(viewer_name_taken(kept.token.name))
        if len(names) >= most:
            raise InvalidKey(too_many_viewers(most))
        self._connection.execute(_INSERT_VIEWER, _viewer_row(kept))
        self._connection.execute(_COUNT_CHANGE)

    def delete_viewer(self, token_id: str) -> None:
        if not self._connection.execute("DELETE FROM viewer_tokens WHERE token_id = ?", (token_id,)).rowcount:
            raise NoSuchKey(NO_SUCH_VIEWER)
        self._connection.execute(_COUNT_CHANGE)


def note_access(connection: Connection, noted: Mapping[str, int]) -> None:
    connection.executemany(
        "UPDATE keys SET accessed_at_ms = ? WHERE key_id = ? AND coalesce(accessed_at_ms, 0) < ?",
        [(time_ms, key_id, time_ms) for key_id, time_ms in noted.items()],
    )


def keys_now(connection: Connection, known_generation: int) -> KeysNow:
    """On one snapshot, else a change between its two questions would be missed."""
    generation, created = connection.execute(GENERATION).fetchone()
    if generation == known_generation:
        return KeysNow(generation, created, None, None)
    return keys_of(generation, created, connection.execute(EVERY), connection.execute(EVERY_VIEWER))


def keys_of(generation: int, created: int, keys: Iterable[Any], viewers: Iterable[Any]) -> KeysNow:
    """Of rows of `EVERY` and `EVERY_VIEWER`."""
    return KeysNow(generation, created, [*map(kept_key, keys)], [*map(kept_viewer, viewers)])


def enabled_grant(connection: Connection, key_id: str) -> Grant | None:
    """What the key may do now; None for one that is disabled or deleted."""
    row = connection.execute(
        "SELECT mode, grants FROM keys WHERE key_id = ? AND status = 'Enabled'", (key_id,)
    ).fetchone()
    return None if row is None else _grant(*row)


# ---- rows


def kept_viewer(row: Any) -> KeptViewer:
    """Of a row of `EVERY_VIEWER`."""
    token_id, name, reach, secret_hash, *rest = row
    return KeptViewer(ViewerToken(token_id, name, reach_in(reach), *rest), secret_hash)


def _viewer_row(kept: KeptViewer) -> tuple[Any, ...]:
    """The values of `_VIEWER_COLUMNS`."""
    token = kept.token
    return (
        token.token_id, token.name, reach_column(token.reach), kept.secret_hash, token.display, token.created_by,
        token.created_at_ms,
    )  # fmt: skip


def kept_key(row: Any) -> KeptKey:
    """Of a row of `EVERY`."""
    return KeptKey(_record(row[1:]), row[0])


def _record(row: Row) -> KeyRecord:
    """The record of a row with `_COLUMNS`."""
    key_id, name, description, mode, grants, status, display, *_ = row
    return KeyRecord(
        key_id=key_id,
        name=name,
        description=description,
        grant=_grant(mode, grants),
        status=status,
        display=display,
        created_by=row[7],
        created_at_ms=row[8],
        updated_by=row[9],
        modified_at_ms=row[10],
        accessed_at_ms=row[11],
        labels=_labels(row[12]),
        limits=RateLimits(row[13], row[14]),
        is_legacy=bool(row[15]),
        counted_by_name=row[16],
        reach=reach_in(row[17]),
    )


def _row(key: KeyRecord) -> Row:
    """The values of `_COLUMNS`."""
    return (
        key.key_id,
        key.name,
        key.description,
        *_grant_columns(key.grant),
        key.status,
        key.display,
        key.created_by,
        key.created_at_ms,
        key.updated_by,
        key.modified_at_ms,
        key.accessed_at_ms,
        _labels_column(key.labels),
        key.limits.requests_per_minute,
        key.limits.bytes_per_minute,
        key.is_legacy,
        key.counted_by_name,
        reach_column(key.reach),
    )


def _grant_columns(grant: Grant) -> tuple[str, str]:
    """`mode` and `grants` as they are stored: names only, never what a use case amounts to."""
    match grant:
        case Fixed(scopes):
            return "fixed", json.dumps(sorted(scopes))
        case Managed(use_cases):
            return "managed", json.dumps(sorted(use_cases))


def _grant(mode: str, grants: str) -> Grant:
    names: frozenset[str] = frozenset(json.loads(grants))
    return Managed(names) if mode == "managed" else Fixed(names)


def _labels_column(labels: Labels) -> str:
    return json.dumps(dict(labels), ensure_ascii=False)


def _labels(text: str) -> Labels:
    stored: dict[str, str] = json.loads(text)
    return MappingProxyType(stored)
