"""Who may post: the open intake's Host check, and the inbound key that a request carries.

A gate states whose key it is, or raises Unauthenticated (no key, unknown, disabled) or
Forbidden (known, without the scope; or a Host that is not ours). A key store that cannot be
read raises what it raises, which is reported as 503: 401 and 403 are final for senders, so a
fault of ours must never look like one.

A request may show its key in several places, as a proxy or a client library may add one; but
all must show the same key. Two that differ are refused, never sorted out: whoever stands
between may have looked at the other one.
"""

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, Protocol

from multidict import MultiMapping

from gateway.access.key import LEGACY_MAX_CHARS
from gateway.access.record import KeyRecord
from gateway.common.contract.errors import Forbidden, Unauthenticated
from gateway.common.contract.headers import REPEAT_KEY_HEADERS
from gateway.common.contract.intake import Sender
from gateway.common.contract.reach import EVERYTHING, Reach, reach_text
from gateway.common.contract.scopes import Denied, decide, is_write_only
from gateway.rules.attribution import fixed_by
from gateway.serve.recent_senders import product_of

MAX_HOST_CHARACTERS = 255
MAX_KEY_CHARACTERS = LEGACY_MAX_CHARS
"""What is longer is no key, and is not looked at."""
BLANKS = " \t"

Headers = MultiMapping[str]
"""Names are looked up without regard to case; one may stand there several times."""

AUTHORIZATION: Final = "Authorization"
KEY_HEADERS: Final = ("x-api-key", "api-key")
BATCH_HEADERS: Final = ("X-Gateway-Id", "X-Batch-Id")

_SCHEME = re.compile(r"(bearer|basic)(?:[ \t]+(.*))?", re.IGNORECASE | re.DOTALL)


def keys_in(headers: Headers) -> list[str]:
    """Every key that the headers show: bare `Authorization` (the convention), `Bearer`, Basic's
    password, `x-api-key`, `api-key`.
    """
    shown = [key for value in headers.getall(AUTHORIZATION, ()) if (key := key_of(value))]
    for name in KEY_HEADERS:
        shown += [key for value in headers.getall(name, ()) if (key := value.strip(BLANKS))]
    return shown


def key_of(authorization: str) -> str:
    """The key in one Authorization header; empty where it shows none."""
    value = authorization.strip(BLANKS)
    scheme = _SCHEME.fullmatch(value)
    if scheme is None:
        return value
    rest = (scheme[2] or "").strip(BLANKS)
    return rest if scheme[1].lower() == "bearer" else basic_password(rest)


def basic_password(encoded: str) -> str:
    """Empty where *encoded* is not what Basic has."""
    try:
        pair = base64.b64decode(encoded, validate=True).decode()
    except ValueError:  # also what is not ASCII, and what is no UTF-8
        return ""
    return pair.partition(":")[2]


def only_key(shown: Iterable[str]) -> str | None:
    """The one key that all of *shown* are; None for none. Raises
    Unauthenticated when they differ.
    """
    keys = set(shown)
    if len(keys) > 1:
        raise Unauthenticated(
            "the request shows two API keys that differ: send one, in the Authorization header", reason="keys_differ"
        )
    return next(iter(keys), None)


def credential(headers: Headers) -> str | None:
    """The key in *headers*. Raises Unauthenticated when they show two that differ."""
    return only_key(keys_in(headers))


def sender_of(key: KeyRecord | None, headers: Headers, peer: str | None) -> Sender:
    """Who sends under *key*, None on open intake; *peer* as the transport knows it."""
    product = product_of(headers.get("User-Agent", ""))
    if key is None:
        return Sender(None, peer or "unix", product=product)
    fixes = fixed_by(key.labels) if key.labels else ()
    return Sender(key.name, peer or "unix", fixes, counted_as=key.counted_as, product=product, grant=key.grant)


def sender_with(key: KeyRecord | None, headers: Headers, peer: str | None) -> Sender:
    """Who sends, and what marks the request as a repeat."""
    sender = sender_of(key, headers, peer)
    repeat_key = repeat_key_of(headers)
    return sender if repeat_key is None else sender._replace(repeat_key=repeat_key, batch=batch_of(headers))


def repeat_key_of(headers: Headers) -> str | None:
    """The request's idempotency key, if it has one."""
    for name in REPEAT_KEY_HEADERS:
        if value := headers.get(name, "").strip():
            return value
    return None


def batch_of(headers: Headers) -> tuple[str, str] | None:
    """The batch of another gateway that the request is, as that one names itself and it."""
    gateway_id, batch_id = (headers.get(name, "").strip() for name in BATCH_HEADERS)
    return (gateway_id, batch_id) if gateway_id and batch_id else None


class Keys(Protocol):
    """The part of the key store that the gate uses."""

    def authenticate(self, text: str) -> KeyRecord | None:
        """The enabled key whose secret is *text*."""

    def named(self, name: str) -> KeyRecord | None:
        """The enabled key of that name."""


class Authenticator(Protocol):
    def admit(
        self, headers: Headers, scope: str, shown: Sequence[str] | None = None, subject: str | None = None
    ) -> KeyRecord | None:
        """The inbound key; None on open intake. *shown*: the keys in the request, where
        others than the headers' count. *subject*: the name in the client's certificate, where that
        may stand for a key.
        """


class OpenIntakeAuthenticator:
    """Open intake.

    On loopback any page in a local browser can post here too, so
    the Host must be a loopback name.
    """

    def __init__(self, *, check_host: bool) -> None:
        self._check_host = check_host

    def admit(
        self, headers: Headers, scope: str, shown: Sequence[str] | None = None, subject: str | None = None
    ) -> None:
        if self._check_host and not all(map(is_loopback_host, headers.getall("Host", ("",)))):
            raise Forbidden(
                "open intake answers only to a loopback Host; make a key (telemetry-gateway keys create) to accept others",
                reason="foreign_host",
            )


class KeyAuthenticator:
    """Every request carries a key, which is checked again each time: a key
    disabled now is refused now.
    """

    def __init__(self, keys: Keys, *, divides: bool = False) -> None:
        """*divides*: the caller sees to it that a limited key reads its own part alone. Else such a
        key may only send.
        """
        self._keys = keys
        self._divides = divides

    def admit(
        self, headers: Headers, scope: str, shown: Sequence[str] | None = None, subject: str | None = None
    ) -> KeyRecord:
        """The key of a request that *scope* admits. Raises Unauthenticated, Forbidden."""
        key = self._key(only_key(keys_in(headers) if shown is None else shown), subject)
        if isinstance(decide(key.grant, scope), Denied):
            raise Forbidden(f"the API key lacks the scope {scope}", reason="scope_missing", key=key.name)
        if key.reach and not self._divides and not is_write_only(scope):
            raise not_divisible(key.reach, key.name)
        return key

    def reach_of(self, headers: Headers) -> Reach:
        """What the key in *headers* sees; everything where they show none that is known. Raises
        DatabaseUnavailable.
        """
        shown = set(keys_in(headers))
        keys = [self._keys.authenticate(text) for text in shown if len(text) <= MAX_KEY_CHARACTERS]
        return next((key.reach for key in keys if key is not None and key.reach), EVERYTHING)

    def _key(self, secret: str | None, subject: str | None) -> KeyRecord:
        """A key that is shown counts before the certificate."""
        if secret is None and subject is not None:
            key = self._keys.named(subject)
            if key is None:
                raise Unauthenticated(
                    "no enabled API key has the name that is the subject of the client's certificate",
                    reason="subject_unknown_or_disabled",
                )
            return key
        if secret is None:
            raise Unauthenticated("an API key is needed, in the Authorization header", reason="no_key")
        key = self._keys.authenticate(secret) if len(secret) <= MAX_KEY_CHARACTERS else None
        if key is None:
            raise Unauthenticated("the API key is unknown or disabled", reason="key_unknown_or_disabled")
        return key


def not_divisible(reach: Reach, name: str | None = None) -> Forbidden:
    """The refusal of what concerns all teams, to a limited credential."""
    return Forbidden(
        f"this credential is limited to {reach_text(reach)}, and what was asked for cannot be divided by that: a key or"
        " token without a limit is needed",
        reason="not_divisible",
        key=name,
    )


class IntakeGate:
    """Open until the first key was ever created, from then on by key."""

    def __init__(self, *, any_key_ever: Callable[[], bool], opened: Authenticator, keyed: Authenticator) -> None:
        self._any_key_ever = any_key_ever
        self._opened = opened
        self._keyed = keyed

    def admit(
        self, headers: Headers, scope: str, shown: Sequence[str] | None = None, subject: str | None = None
    ) -> KeyRecord | None:
        return (self._keyed if self._any_key_ever() else self._opened).admit(headers, scope, shown, subject)


@lru_cache(maxsize=256)
def is_loopback_host(host: str) -> bool:
    """Whether a Host header names this machine's loopback: `localhost`,
    127.0.0.0/8 or `[::1]`, with any port.
    """
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
