"""Who may post: the open intake's Host check, and the inbound key that a request carries.

A gate says the key's name, or raises Unauthenticated (no key, unknown, disabled) or Forbidden (known, without the scope;
or a Host that is not ours). A key store that cannot be read raises what it raises, which is told as 503: 401 and 403 are final
for senders, so a fault of ours must never look like one.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Protocol

from gateway.errors import Forbidden, Unauthenticated
from gateway.keys.record import KeyRecord
from gateway.keys.scopes import Denied, decide

MAX_HOST_CHARACTERS = 255

Headers = Mapping[str, str]
"""Names are looked up without regard to case."""


def credential(headers: Headers) -> str | None:
    """The key in a request: bare `Authorization` (the convention), `Bearer`, Basic's password, `x-api-key`, `api-key`."""
    authorization = headers.get("Authorization")
    if authorization is not None:
        scheme, _, rest = authorization.strip().partition(" ")
        match scheme.lower():
            case "bearer":
                return rest.strip() or None
            case "basic":
                return basic_password(rest.strip())
            case _:
                return authorization.strip() or None
    return headers.get("x-api-key") or headers.get("api-key")


def basic_password(encoded: str) -> str | None:
    try:
        pair = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return pair.partition(":")[2] or None


Shown = Callable[[Headers], str | None]
"""Finds the key that a request shows."""


class Keys(Protocol):
    """The part of the key store that the gate uses."""

    def authenticate(self, text: str) -> KeyRecord | None:
        """The enabled key whose secret is *text*."""


class Gate(Protocol):
    def admit(self, headers: Headers, scope: str, shown: Shown = ...) -> str | None:
        """The inbound key's name; None on open intake. *shown* finds the key in a request."""


class OpenGate:
    """Open intake. On loopback any page in a local browser can post here too, so the Host must be a loopback name."""

    def __init__(self, *, check_host: bool) -> None:
        self._check_host = check_host

    def admit(self, headers: Headers, scope: str, shown: Shown = credential) -> str | None:
        if self._check_host and not is_loopback_host(headers.get("Host", "")):
            raise Forbidden("open intake answers only to a loopback Host; create a key to accept others")
        return None


class KeyGate:
    """Every request carries a key, which is checked anew each time: a key disabled now is refused now."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def admit(self, headers: Headers, scope: str, shown: Shown = credential) -> str | None:
        secret = shown(headers)
        if not secret:
            raise Unauthenticated("an API key is needed, in the Authorization header")
        key = self._keys.authenticate(secret)
        if key is None:
            raise Unauthenticated("the API key is unknown or disabled")
        if isinstance(decide(key.grant, scope), Denied):
            raise Forbidden(f"the API key lacks the scope {scope}")
        return key.name


class IntakeGate:
    """Open until the first key was ever created, from then on by key."""

    def __init__(self, *, any_key_ever: Callable[[], bool], opened: Gate, keyed: Gate) -> None:
        self._any_key_ever = any_key_ever
        self._opened = opened
        self._keyed = keyed

    def admit(self, headers: Headers, scope: str, shown: Shown = credential) -> str | None:
        return (self._keyed if self._any_key_ever() else self._opened).admit(headers, scope, shown)


@lru_cache(maxsize=256)
def is_loopback_host(host: str) -> bool:
    """Whether a Host header names this machine's loopback: `localhost`, 127.0.0.0/8 or `[::1]`, with any port."""
    name, port_ok = host_name(host)
    if not port_ok:
        return False
    if name.lower() in {"localhost", "localhost."}:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> tuple[str, bool]:
    """(name without port and brackets, whether what follows it is a port or nothing)."""
    if len(host) > MAX_HOST_CHARACTERS:
        return "", False
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name, rest == "" or (rest[0] == ":" and rest[1:].isdigit())
    name, colon, port = host.partition(":")
    return name, not colon or port.isdigit()
