"""Where keys are kept, as the key store uses it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.access.record import KeyRecord, Which
from gateway.common.contract.reach import Reach
from gateway.common.storage.home import Home


class KeptKey(NamedTuple):
    key: KeyRecord
    secret_hash: bytes


@dataclass(frozen=True, slots=True)
class ViewerToken:
    """One of several tokens that view the page and read the API, without its secret."""

    token_id: str
    name: str
    reach: Reach
    """What it sees."""
    display: str
    """`<prefix>_<id>_…last4`."""
    created_by: str
    created_at_ms: int


class KeptViewer(NamedTuple):
    token: ViewerToken
    secret_hash: bytes


class KeysNow(NamedTuple):
    """Keys and viewers' tokens as of one moment."""

    generation: int
    """Another one after each change of a key or token; a time of access is none."""
    created: int
    """Keys ever created, deleted ones too."""
    keys: Sequence[KeptKey] | None
    """None where the generation is the one that was known."""
    viewers: Sequence[KeptViewer] | None
    """The same."""


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

    def viewers(self) -> list[KeptViewer]:
        """By name."""

    def insert_viewer(self, kept: KeptViewer, *, most: int) -> None:
        """Raises NameTaken, and InvalidKey where *most* are kept already."""

    def delete_viewer(self, token_id: str) -> None:
        """Raises NoSuchKey."""


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


def viewer_name_taken(name: str) -> str:
    return f"name: a viewer token named {name!r} exists"


def too_many_viewers(most: int) -> str:
    return f"viewer tokens: {most} are kept already; revoke some first"


NO_SUCH_VIEWER = "no viewer token has this id"


LEGACY_EXISTS = "there is a key from before there were several already; delete it first"
ANOTHER_PEPPER = "the pepper file is not the one the stored keys were hashed with; restore it"
