"""Keys: the life cycle of service-interface part 3.1, and the check of a presented secret.

The gateway's inbound keys (control.db, prefix `tgk`) and the local service's keys (prefix `csk`)
are both this class. A request is checked against keys in memory, after its home was asked whether
one has changed (`KeyHome.now`). So a key that was disabled or deleted, here or in another process,
is refused from the next request on, at a cost of a few microseconds. Last Accessed is noted in
memory and written in one batch by `flush_last_accessed`.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

from exporters.secret import Secret
from gateway.access.errors import InvalidKey, NotConfirmed
from gateway.access.home import KeptKey, KeyHome, KeyRows
from gateway.access.key import (
    SERVICE_PREFIX,
    RandomBytes,
    display_form,
    keyed_hash,
    legacy_fault,
    matches,
    mint,
    new_id,
    parse,
)
from gateway.access.labels import NO_LABELS
from gateway.access.limits import NO_LIMITS, RateLimits
from gateway.access.record import LEGACY_NAME, KeyRecord, Status, Which, edited, one_form, valid_key
from gateway.access.viewers import ViewerTokens
from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.common.contract.scopes import Grant
from gateway.common.storage.errors import DatabaseUnavailable

_UNKNOWN_HASH = bytes(32)
"""Compared against when no key has the id, so that an unknown id takes as long as a wrong
secret.
"""


class Created(NamedTuple):
    key: KeyRecord
    secret: Secret
    """Shown once: nothing can bring it back."""


class KeyStore:
    """Open with `KeyStore.open`."""

    def __init__(
        self, home: KeyHome, *, prefix: str, pepper: bytes, now_ms: Callable[[], int], random_bytes: RandomBytes
    ) -> None:
        self._home = home
        self._prefix = prefix
        self._pepper = pepper
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._generation = -1
        self._is_fresh = False
        self._created = 0
        self._keys: dict[str, KeptKey] = {}
        self._legacy: KeptKey | None = None
        self._accessed: dict[str, int] = {}

    @classmethod
    async def open(
        cls, home: KeyHome, *, prefix: str, pepper: bytes, now_ms: Callable[[], int], random_bytes: RandomBytes
    ) -> Self:
        """The keys at *home*, which is closed with the store. Raises PepperMismatch when they were
        hashed with another *pepper*; then it is closed.
        """
        try:
            check = keyed_hash(pepper, "pepper-check")
            await home.commit(lambda kept: kept.check_pepper(check))
        except BaseException:
            await home.close()
            raise
        return cls(home, prefix=prefix, pepper=pepper, now_ms=now_ms, random_bytes=random_bytes)

    async def create(
        self,
        name: str,
        grant: Grant,
        *,
        by: str,
        description: str = "",
        labels: Mapping[str, str] = NO_LABELS,
        limits: RateLimits = NO_LIMITS,
        reach: Reach = EVERYTHING,
    ) -> Created:
        """A new, enabled key. *by*: e-mail of the operator who creates it. Raises InvalidKey,
        NameTaken.
        """
        key_id, secret = mint(self._prefix, self._random_bytes)
        key = self._fresh(key_id, display_form(secret), name, grant, by)
        return await self._insert(
            replace(key, description=description, labels=labels, limits=limits, reach=reach), secret
        )

    async def adopt(
        self,
        secret: Secret,
        grant: Grant,
        *,
        by: str,
        description: str = "",
        labels: Mapping[str, str] = NO_LABELS,
        limits: RateLimits = NO_LIMITS,
        reach: Reach = EVERYTHING,
    ) -> Created:
        """Import the single key that was in use before there were several, so that its senders need
        not change.

        It is listed as `Legacy API Key` and is then a key like the others; its display form shows
        nothing of the secret. Raises InvalidKey, NameTaken, LegacyKeyExists.
        """
        self._hash_of_legacy(secret)
        key_id = new_id(self._random_bytes)
        key = replace(self._fresh(key_id, f"legacy_{key_id}", LEGACY_NAME, grant, by), is_legacy=True)
        return await self._insert(
            replace(key, description=description, labels=labels, limits=limits, reach=reach), secret
        )

    async def replace_legacy(self, secret: Secret, grant: Grant, *, by: str) -> KeyRecord | None:
        """Give the imported key this secret and grant; None where none was imported.

        It keeps its id, name, labels, limits and status. Raises InvalidKey.
        """
        secret_hash = self._hash_of_legacy(secret)
        now_ms = self._now_ms()

        def change(kept: KeyRows) -> KeyRecord | None:
            found = kept.find_legacy()
            if found is None or (found.key.grant, found.secret_hash) == (grant, secret_hash):
                return found and found.key
            key = valid_key(replace(found.key, grant=grant, updated_by=by, modified_at_ms=now_ms))
            kept.save(key)
            kept.save_secret(key.key_id, secret_hash)
            return key

        key = await self._home.commit(change)
        return key and self._with_access(key)

    async def take(
        self,
        secret: Secret,
        name: str,
        grant: Grant,
        *,
        by: str,
        description: str = "",
        labels: Mapping[str, str] = NO_LABELS,
        limits: RateLimits = NO_LIMITS,
        reach: Reach = EVERYTHING,
    ) -> KeyRecord:
        """The key that another gateway made with this secret, under the same id, so that several
        gateways know one key. One that is here already gets the given fields and keeps its status.

        Raises InvalidKey, NameTaken.
        """
        text = secret.reveal()
        key_id = parse(self._prefix, text)
        if key_id is None:
            raise InvalidKey(f"secret: a whole key is needed, which begins with {self._prefix}_")
        secret_hash = keyed_hash(self._pepper, text)
        fresh = self._fresh(key_id, display_form(secret), name, grant, by)

        def change(kept: KeyRows) -> KeyRecord:
            found = kept.find_by_id(key_id)
            if found is not None and found.secret_hash != secret_hash:
                raise InvalidKey("secret: another key has its id here")
            before = fresh if found is None else found.key
            key = replace(
                before, name=name, grant=grant, description=description, labels=labels, limits=limits, reach=reach
            )
            key = self._valid(key)
            if found is None:
                kept.insert(key, secret_hash)
            elif key != found.key:
                key = replace(key, updated_by=by, modified_at_ms=fresh.created_at_ms)
                kept.save(key)
            return key

        return self._with_access(await self._home.commit(change))

    async def edit(
        self,
        which: Which,
        *,
        by: str,
        new_name: str | None = None,
        description: str | None = None,
        grant: Grant | None = None,
        labels: Mapping[str, str] | None = None,
        limits: RateLimits | None = None,
        reach: Reach | None = None,
    ) -> KeyRecord:
        """Change the given fields. Raises NoSuchKey, InvalidKey, NameTaken."""
        given = {"name": new_name, "description": description, "grant": grant, "labels": labels, "limits": limits}
        change = partial(edited, **given, reach=reach)  # type: ignore[arg-type]  # each is its field's type
        return await self.revise(which, change, by=by)

    async def revise(self, which: Which, change: Callable[[KeyRecord], KeyRecord], *, by: str) -> KeyRecord:
        """Replace the key by the result of *change*, in one transaction. Raises as `edit`."""
        return await self._update(which, by, lambda key: self._valid(change(key)))

    async def disable(self, which: Which, *, by: str) -> KeyRecord:
        """Refused from the next request on, also on open connections. Raises NoSuchKey."""
        return await self._set_status(which, "Disabled", by)

    async def enable(self, which: Which, *, by: str) -> KeyRecord:
        return await self._set_status(which, "Enabled", by)

    async def delete(self, which: Which, *, typed_name: str) -> None:
        """Delete the key; *typed_name* is the text typed to confirm. Raises NoSuchKey,
        NotConfirmed.
        """

        def change(kept: KeyRows) -> None:
            key = kept.find(which)
            if one_form(typed_name) != one_form(key.name):
                raise NotConfirmed("name: deleting a key needs its exact name")
            kept.delete(key.key_id)

        await self._home.commit(change)

    async def list(self) -> list[KeyRecord]:
        """Every key, by name; Last Accessed includes times that are not flushed yet."""
        return [self._with_access(key) for key in await self._home.read(lambda kept: kept.every())]

    async def show(self, which: Which) -> KeyRecord:
        """Raises NoSuchKey."""
        return self._with_access(await self._home.read(lambda kept: kept.find(which)))

    def authenticate(self, text: str) -> KeyRecord | None:
        """The enabled key whose secret is *text*, else None: malformed, unknown, disabled or
        deleted.

        Its permissions: `scopes.decide(key.grant, scope)`. Raises DatabaseUnavailable.
        """
        key_id = parse(self._prefix, text)
        if key_id is None and legacy_fault(text) is not None:
            return None
        self._refresh()
        stored = self._legacy if key_id is None else self._keys.get(key_id)
        right = matches(self._pepper, text, stored.secret_hash if stored else _UNKNOWN_HASH)
        if stored is None or not right or stored.key.status == "Disabled":
            return None
        self._accessed[stored.key.key_id] = self._now_ms()
        return stored.key

    def named(self, name: str) -> KeyRecord | None:
        """The enabled key of that name, for a sender that proved the name otherwise; None for none.

        Raises DatabaseUnavailable.
        """
        self._refresh()
        for stored in self._keys.values():
            if stored.key.name == name and stored.key.status == "Enabled":
                self._accessed[stored.key.key_id] = self._now_ms()
                return stored.key
        return None

    def any_enabled(self) -> bool:
        self._refresh()
        return any(stored.key.status == "Enabled" for stored in self._keys.values())

    def names(self) -> dict[str, str]:
        """The stable id that counting uses -> the key's name; as last read when the file cannot be
        read now.
        """
        with suppress(DatabaseUnavailable):
            self._refresh()
        return {stored.key.counted_as: stored.key.name for stored in self._keys.values()}

    def ever_created(self) -> bool:
        """Whether a key was ever created, even if deleted since: open intake ends with the first
        one.
        """
        self._refresh()
        return self._created > 0

    def viewer_tokens(self) -> ViewerTokens:
        """The tokens of viewers, which are kept beside the keys; closed with them."""
        return ViewerTokens(self._home, pepper=self._pepper, now_ms=self._now_ms, random_bytes=self._random_bytes)

    async def flush_last_accessed(self) -> None:
        """Write the noted times of access in one transaction; they only move forward. Called about
        once a minute.
        """
        noted, self._accessed = self._accessed, {}
        if not noted:
            return
        try:
            await self._home.note_access(noted)
        except DatabaseUnavailable:
            self._accessed = noted | self._accessed
            raise

    async def close(self) -> None:
        """Flush; no key is checked any more."""
        try:
            await self.flush_last_accessed()
        finally:
            await self._home.close()

    def _fresh(self, key_id: str, display: str, name: str, grant: Grant, by: str) -> KeyRecord:
        now_ms = self._now_ms()
        return KeyRecord(
            key_id=key_id,
            name=name,
            description="",
            grant=grant,
            status="Enabled",
            display=display,
            created_by=by,
            created_at_ms=now_ms,
            updated_by=by,
            modified_at_ms=now_ms,
            accessed_at_ms=None,
        )

    def _hash_of_legacy(self, secret: Secret) -> bytes:
        """Raises InvalidKey for what cannot be a key that is imported."""
        fault = legacy_fault(secret.reveal())
        if fault is not None:
            raise InvalidKey(f"secret: {fault}")
        return keyed_hash(self._pepper, secret.reveal())

    async def _insert(self, key: KeyRecord, secret: Secret) -> Created:
        key = self._valid(key)
        secret_hash = keyed_hash(self._pepper, secret.reveal())
        await self._home.commit(lambda kept: kept.insert(key, secret_hash))
        return Created(key, secret)

    def _valid(self, key: KeyRecord) -> KeyRecord:
        """Raises InvalidKey."""
        if key.reach and self._prefix == SERVICE_PREFIX:
            raise InvalidKey("limits: the local service does not limit what a key sees; leave team and project out")
        return valid_key(key)

    async def _set_status(self, which: Which, status: Status, by: str) -> KeyRecord:
        return await self._update(which, by, lambda key: replace(key, status=status))

    async def _update(self, which: Which, by: str, change: Callable[[KeyRecord], KeyRecord]) -> KeyRecord:
        now_ms = self._now_ms()

        def save(kept: KeyRows) -> KeyRecord:
            key = replace(change(kept.find(which)), updated_by=by, modified_at_ms=now_ms)
            kept.save(key)
            return key

        return self._with_access(await self._home.commit(save))

    def _with_access(self, key: KeyRecord) -> KeyRecord:
        noted_ms = self._accessed.get(key.key_id)
        return key if noted_ms is None else replace(key, accessed_at_ms=max(noted_ms, key.accessed_at_ms or 0))

    def _refresh(self) -> None:
        """Take the keys over again if one changed."""
        if self._is_fresh:
            return
        self._stay_fresh()
        try:
            now = self._home.now(self._generation)
        except DatabaseUnavailable:
            self._is_fresh = False
            raise
        self._generation, self._created = now.generation, now.created
        if now.keys is not None:
            self._keys = {kept.key.key_id: kept for kept in now.keys}
            self._legacy = next((kept for kept in now.keys if kept.key.is_legacy), None)

    def _stay_fresh(self) -> None:
        """Requests of one turn of the event loop ask once."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._is_fresh = True
        loop.call_soon(self._grow_stale)

    def _grow_stale(self) -> None:
        self._is_fresh = False
