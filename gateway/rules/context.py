"""What a normaliser is reported besides the payload: when it came, from whom,
and what may be kept about users.
"""

import hmac
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from gateway.common.contract.device_identity import machine_id
from gateway.read.limits import DEFAULT_LIMITS, ParseLimits
from gateway.rules.tags import NO_TAGS, Tags

_NOTHING: Mapping[str, str] = MappingProxyType({})


class UserPolicy:
    """Keeps, hashes or drops the user of a call. The secret shows in no repr."""

    __slots__ = ("_hashed", "_secret", "mode")

    def __init__(self, mode: Literal["keep", "hash", "drop"], secret: bytes = b"") -> None:
        """*secret* keys the hash; it must not be empty where *mode* is `hash`."""
        if mode == "hash" and not secret:
            raise ValueError("hashing users needs a secret")
        self.mode = mode
        self._secret = secret
        self._hashed = lru_cache(maxsize=4096)(self._hash)

    def apply(self, user: str) -> str | None:
        """The value to keep: the user, 32 hex digits of an HMAC-SHA256, or None."""
        if self.mode == "keep":
            return user
        if self.mode == "drop":
            return None
        return self._hashed(user)

    def _hash(self, user: str) -> str:
        return hmac.digest(self._secret, user.encode("utf-8", "replace"), "sha256")[:16].hex()

    def __repr__(self) -> str:
        return f"UserPolicy({self.mode!r})"


KEEP_USERS = UserPolicy("keep")


class Machines:
    """Gives a machine that states no id one of its own; the secret shows in no repr."""

    __slots__ = ("_named", "_secret")

    def __init__(self, secret: bytes = b"") -> None:
        """Without a secret no machine is named."""
        self._secret = secret
        self._named = lru_cache(maxsize=4096)(self._name)

    @property
    def are_named(self) -> bool:
        return bool(self._secret)

    def name(self, host: str, user: str) -> str:
        return self._named(host, user)

    def _name(self, host: str, user: str) -> str:
        return machine_id(self._secret, host, user)

    def __repr__(self) -> str:
        return "Machines()"


NO_MACHINES = Machines()


class Context(NamedTuple):
    """Who sent a payload and when.

    Attribution fields are `user`, `session`, `team`, `project`, `environment`, `service_name`.
    """

    received_at_ms: int
    """Wall-clock time of receipt, ms since the epoch."""
    received_at: str
    """The same, RFC 3339 UTC with milliseconds."""
    key: str | None = None
    """Name of the inbound key."""
    counted_as: str | None = None
    """What counting knows that key by, whatever it is renamed to; None: its name."""
    device_id: str | None = None
    """The enrolled device that sent it; wins over what the payload states."""
    key_fixes: Mapping[str, str] = _NOTHING
    """Attribution that the key fixes: a payload cannot override it."""
    users: UserPolicy = KEEP_USERS
    peer: str = ""
    """Address of the sender: distinguishes senders where there is no key."""
    machines: Machines = NO_MACHINES
    own_device: str | None = None
    """The device that this gateway is itself and whose telemetry it takes: of whatever names no
    other one. None where it stands apart."""
    limits: ParseLimits = DEFAULT_LIMITS
    """How much one payload may hold."""
    tags: Tags = NO_TAGS
    """Further attributes that are read as labels."""

    @property
    def counted_key(self) -> str | None:
        """The inbound key, as what is counted and kept distinguishes it from
        others; None on open intake.
        """
        return self.counted_as or self.key
