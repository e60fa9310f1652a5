"""Where keys are kept, as the key store uses it.

Each call raises DatabaseUnavailable where what is kept cannot be read or written now.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from gateway.access.record import KeyRecord, Which


class KeptKey(NamedTuple):
    key: KeyRecord
    secret_hash: bytes


class KeysNow(NamedTuple):
    """Keys as of one moment."""

    generation: int
    """Another one after each change of a key; a time of access is none."""
    created: int
    """Keys ever created, deleted ones too."""
    keys: Sequence[KeptKey] | None
    """None where the generation is the one that was known."""


class KeyChange(Protocol):
    """A change of keys: all of it or, where it raises, nothing."""

    async def check_pepper(self, check: bytes) -> None:
        """Note *check* with the first use. Raises PepperMismatch when another one was noted."""

    async def find(self, which: Which) -> KeyRecord:
        """Raises NoSuchKey."""

    async def find_by_id(self, key_id: str) -> KeptKey | None: ...

    async def find_legacy(self) -> KeptKey | None:
        """The imported key."""

    async def insert(self, key: KeyRecord, secret_hash: bytes) -> None:
        """Raises NameTaken, LegacyKeyExists."""

    async def save(self, key: KeyRecord) -> None:
        """All of it but the time of last access, which only ever goes forward. Raises NameTaken."""

    async def save_secret(self, key_id: str, secret_hash: bytes) -> None: ...

    async def delete(self, key_id: str) -> None: ...


class KeyHome(Protocol):
    def change(self) -> AbstractAsyncContextManager[KeyChange]:
        """Made when the block ends; from then on every process that asks for `now` learns of it."""

    async def every_key(self) -> list[KeyRecord]:
        """By name."""

    async def find(self, which: Which) -> KeyRecord:
        """Raises NoSuchKey."""

    async def note_access(self, noted: Mapping[str, int]) -> None:
        """*noted*: key id -> epoch ms of its last access; a stored time only ever goes forward."""

    def now(self, known_generation: int) -> KeysNow:
        """Asked with each request, on the event loop's thread: a few microseconds while no key
        changes.
        """

    def close(self) -> None:
        """`now` is asked no more."""


def no_such_key(which: Which) -> str:
    return f"no key is named {which!r}" if isinstance(which, str) else "no key has this id"


def name_taken(name: str) -> str:
    return f"name: a key named {name!r} exists"


LEGACY_EXISTS = "there is a key from before there were several already; delete it first"
ANOTHER_PEPPER = "the pepper file is not the one the stored keys were hashed with; restore it"
