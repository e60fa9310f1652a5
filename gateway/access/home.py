"""Where keys are kept, as the key store uses it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from gateway.access.record import KeyRecord, Which
from gateway.common.storage.home import Home


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


class KeyRows(Protocol):
    """What is kept of keys, inside one commit or snapshot."""

    def check_pepper(self, check: bytes) -> None:
        """Note *check* with the first use. Raises PepperMismatch when another one was noted."""

    def every(self) -> list[KeyRecord]:
        """By name."""

    def find(self, which: Which) -> KeyRecord:
        """Raises NoSuchKey."""

    def find_by_id(self, key_id: str) -> KeptKey | None: ...

    def find_legacy(self) -> KeptKey | None:
        """The imported key."""

    def insert(self, key: KeyRecord, secret_hash: bytes) -> None:
        """Raises NameTaken, LegacyKeyExists."""

    def save(self, key: KeyRecord) -> None:
        """All of it but the time of last access, which only ever goes forward. Raises NameTaken."""

    def save_secret(self, key_id: str, secret_hash: bytes) -> None: ...

    def delete(self, key_id: str) -> None: ...


class KeyHome(Home[KeyRows], Protocol):
    """What a commit changes is what this home's `now` has when it returns, and what the `now` of
    every other process has then, or within a second.
    """

    async def note_access(self, noted: Mapping[str, int]) -> None:
        """*noted*: key id -> epoch ms of its last access; a stored time only ever goes forward."""

    def now(self, known_generation: int) -> KeysNow:
        """Asked with each request, on the event loop's thread: a few microseconds while no key
        changes.
        """

    async def close(self) -> None:
        """`now` is asked no more."""


def no_such_key(which: Which) -> str:
    return f"no key is named {which!r}" if isinstance(which, str) else "no key has this id"


def name_taken(name: str) -> str:
    return f"name: a key named {name!r} exists"


LEGACY_EXISTS = "there is a key from before there were several already; delete it first"
ANOTHER_PEPPER = "the pepper file is not the one the stored keys were hashed with; restore it"
