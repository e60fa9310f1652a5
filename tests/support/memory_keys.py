"""Keys in memory: `gateway.access.home` with plain dictionaries."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gateway.access.errors import InvalidKey, LegacyKeyExists, NameTaken, NoSuchKey, PepperMismatch
from gateway.access.home import (
    ANOTHER_PEPPER,
    LEGACY_EXISTS,
    NO_SUCH_VIEWER,
    KeptKey,
    KeptViewer,
    KeyRows,
    KeysNow,
    name_taken,
    no_such_key,
    too_many_viewers,
    viewer_name_taken,
)
from gateway.access.record import KeyId, KeyRecord, Which

T = TypeVar("T")


@dataclass
class KeptKeys:
    """What is kept."""

    by_id: dict[str, KeptKey] = field(default_factory=dict)
    viewers: dict[str, KeptViewer] = field(default_factory=dict)
    generation: int = 0
    created: int = 0
    pepper_check: bytes | None = None


class MemoryKeys:
    def __init__(self, check: Callable[[], None], kept: KeptKeys) -> None:
        """*check* raises DatabaseUnavailable once the home is closed."""
        self._check = check
        self._kept = kept

    async def commit(self, change: Callable[[KeyRows], T]) -> T:
        self._check()
        kept = self._kept
        changed = replace(kept, by_id=dict(kept.by_id), viewers=dict(kept.viewers))
        result = change(MemoryKeyRows(changed))
        await asyncio.sleep(0)  # as every home does, it ends the turn of the event loop
        kept.by_id, kept.viewers, kept.pepper_check = changed.by_id, changed.viewers, changed.pepper_check
        kept.generation, kept.created = changed.generation, changed.created
        return result

    async def read(self, question: Callable[[KeyRows], T]) -> T:
        self._check()
        return question(MemoryKeyRows(self._kept))

    async def note_access(self, noted: Mapping[str, int]) -> None:
        self._check()
        for key_id, at_ms in noted.items():
            if key_id in self._kept.by_id:
                known = self._kept.by_id[key_id]
                newest_ms = max(at_ms, known.key.accessed_at_ms or 0)
                self._kept.by_id[key_id] = known._replace(key=replace(known.key, accessed_at_ms=newest_ms))

    def now(self, known_generation: int) -> KeysNow:
        self._check()
        kept = self._kept
        if kept.generation == known_generation:
            return KeysNow(kept.generation, kept.created, None, None)
        return KeysNow(kept.generation, kept.created, list(kept.by_id.values()), list(kept.viewers.values()))

    async def close(self) -> None:
        """Nothing is open."""


class MemoryKeyRows:
    def __init__(self, kept: KeptKeys) -> None:
        self._kept = kept

    def check_pepper(self, check: bytes) -> None:
        if self._kept.pepper_check not in {None, check}:
            raise PepperMismatch(ANOTHER_PEPPER)
        self._kept.pepper_check = check

    def every(self) -> list[KeyRecord]:
        return sorted((kept.key for kept in self._kept.by_id.values()), key=lambda key: key.name)

    def find(self, which: Which) -> KeyRecord:
        for key_id, kept in self._kept.by_id.items():
            if (key_id == which.text) if isinstance(which, KeyId) else (kept.key.name == which):
                return kept.key
        raise NoSuchKey(no_such_key(which))

    def find_by_id(self, key_id: str) -> KeptKey | None:
        return self._kept.by_id.get(key_id)

    def find_legacy(self) -> KeptKey | None:
        return next((kept for kept in self._kept.by_id.values() if kept.key.is_legacy), None)

    def insert(self, key: KeyRecord, secret_hash: bytes) -> None:
        if key.is_legacy and self.find_legacy() is not None:
            raise LegacyKeyExists(LEGACY_EXISTS)
        self._put(key, secret_hash)
        self._kept.created += 1

    def save(self, key: KeyRecord) -> None:
        before = self._kept.by_id[key.key_id]
        self._put(replace(key, accessed_at_ms=before.key.accessed_at_ms), before.secret_hash)

    def save_secret(self, key_id: str, secret_hash: bytes) -> None:
        self._kept.by_id[key_id] = self._kept.by_id[key_id]._replace(secret_hash=secret_hash)

    def delete(self, key_id: str) -> None:
        del self._kept.by_id[key_id]
        self._kept.generation += 1

    def viewers(self) -> list[KeptViewer]:
        return sorted(self._kept.viewers.values(), key=lambda kept: kept.token.name)

    def insert_viewer(self, kept: KeptViewer, *, most: int) -> None:
        if any(each.token.name == kept.token.name for each in self._kept.viewers.values()):
            raise NameTaken(viewer_name_taken(kept.token.name))
        if len(self._kept.viewers) >= most:
            raise InvalidKey(too_many_viewers(most))
        self._kept.viewers[kept.token.token_id] = kept
        self._kept.generation += 1

    def delete_viewer(self, token_id: str) -> None:
        if self._kept.viewers.pop(token_id, None) is None:
            raise NoSuchKey(NO_SUCH_VIEWER)
        self._kept.generation += 1

    def _put(self, key: KeyRecord, secret_hash: bytes) -> None:
        if any(kept.key.name == key.name for key_id, kept in self._kept.by_id.items() if key_id != key.key_id):
            raise NameTaken(name_taken(key.name))
        self._kept.by_id[key.key_id] = KeptKey(key, secret_hash)
        self._kept.generation += 1
