"""Access to the admin listener: a token for each role, one-time login codes, and the
sessions opened with either.

The tokens are files of the data directory, mode 0600 (`TOKEN_FILES`); the configuration may give
that of the metrics. A browser gets in by a link that
works once and for ten minutes, or by a token typed into a form; from then on by a cookie. Codes and
sessions live in memory, as hashes: a restart ends them.
"""

import base64
import hashlib
import hmac
import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web
from yarl import URL

from exporters.keyring import KeyFault, read_secret
from exporters.secret import Secret
from gateway.access.home import ViewerToken
from gateway.access.viewers import ViewerTokens
from gateway.common.contract.errors import CannotStart
from gateway.common.storage.private_files import read_or_create
from gateway.operate.role import Credential, Role
from gateway.serve.authenticator import credential

TOKEN_FILES: Final = {Role.OPERATOR: "admin-token", Role.VIEWER: "viewer-token", Role.METRICS: "metrics-token"}
TOKEN_FILE: Final = TOKEN_FILES[Role.OPERATOR]
PAGE_ROLES: Final = frozenset({Role.OPERATOR, Role.VIEWER})
"""Those that open a session."""
COOKIE: Final = "telemetry_gateway_session"

CODE_LIFE_S = 600.0
SESSION_LIFE_S = 12 * 3600.0

MAX_ENTRIES = 256
"""Codes that are alive at once; the oldest go first."""
MAX_SESSIONS: Final = 10_000
"""The same of sessions."""

MAX_FLASHES: Final = 4
MAX_FLASH_CHARS: Final = 500

SECRET_BYTES = 32
TOKEN_MIN_CHARS = 16
TOKEN_FORM = re.compile(rf"[!-~]{{{TOKEN_MIN_CHARS},}}")
TOKEN_FORM_TEXT = f"{TOKEN_MIN_CHARS} printable ASCII characters or more are needed, without blanks"

RandomBytes = Callable[[int], bytes]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Flash(NamedTuple):
    """What the next page of a session shows once."""

    kind: str
    """`done` or `failed`."""
    text: str


def token_of(data_dir: Path, role: Role, random_bytes: RandomBytes) -> Secret:
    """The token of *role* in *data_dir*, made at first use.

    Raises OSError, also for a file that holds none: an empty token is in every hand.
    """
    path = data_dir / TOKEN_FILES[role]
    text = read_or_create(path, lambda: fresh(random_bytes).encode() + b"\n").decode("ascii", "replace").strip()
    if TOKEN_FORM.fullmatch(text) is None:
        raise OSError(f"{path} holds no token: {TOKEN_FORM_TEXT}. Delete the file to get a new one")
    return Secret(text)


def configured_token(reference: Secret) -> Secret:
    """What the option `metrics_token` names. Raises CannotStart."""
    try:
        token = read_secret(reference, os.environ)
    except KeyFault as fault:
        raise CannotStart(f"metrics_token: {fault}") from fault
    if TOKEN_FORM.fullmatch(token.reveal()) is None:
        raise CannotStart(f"metrics_token: {TOKEN_FORM_TEXT}")
    return token


@dataclass(slots=True)
class Issued:
    ends_s: float
    role: Role
    token_id: str | None = None
    """Of the viewer's token that opened the session, which ends with the token."""
    held: Credential | None = None
    """Of a person who signed in elsewhere."""
    flashes: deque[Flash] = field(default_factory=lambda: deque(maxlen=MAX_FLASHES))


class Expiring:
    """Secrets with an end and a role, kept as hashes."""

    def __init__(
        self, life_s: float, now_s: Callable[[], float], random_bytes: RandomBytes, most: int = MAX_ENTRIES
    ) -> None:
        self._life_s = life_s
        self._most = most
        self._now_s = now_s
        self._random_bytes = random_bytes
        self._issued: dict[bytes, Issued] = {}

    def issue(
        self,
        role: Role = Role.OPERATOR,
        token_id: str | None = None,
        held: Credential | None = None,
        life_s: float | None = None,
    ) -> str:
        while len(self._issued) >= self._most:
            del self._issued[next(iter(self._issued))]
        secret = fresh(self._random_bytes)
        ends_s = self._now_s() + (self._life_s if life_s is None else life_s)
        self._issued[hashed(secret)] = Issued(ends_s, role, token_id, held)
        return secret

    def find(self, secret: str) -> Issued | None:
        """What was issued as *secret*; None where it is unknown or has ended."""
        return self._alive(self._issued.get(hashed(secret)))

    def use_up(self, secret: str) -> Issued | None:
        """As `find`; it is unknown from now on."""
        return self._alive(self._issued.pop(hashed(secret), None))

    def _alive(self, issued: Issued | None) -> Issued | None:
        return issued if issued is not None and issued.ends_s > self._now_s() else None


class AdminAccess:
    """Who may use the admin listener, and as what. *now_s* is monotonic."""

    def __init__(
        self,
        token: Secret,
        now_s: Callable[[], float],
        random_bytes: RandomBytes,
        further: Mapping[Role, Secret] | None = None,
        viewers: ViewerTokens | None = None,
    ) -> None:
        """*token* is the operator's, *further* those of other roles; *viewers*: named tokens."""
        self._viewers = viewers
        self._tokens = {role: hashed(secret.reveal()) for role, secret in (further or {}).items()}
        self._tokens[Role.OPERATOR] = hashed(token.reveal())
        self._codes = Expiring(CODE_LIFE_S, now_s, random_bytes)
        self._sessions = Expiring(SESSION_LIFE_S, now_s, random_bytes, MAX_SESSIONS)

    def login_path(self, role: Role = Role.OPERATOR) -> str:
        """`/login?once=…`: opens one session, once."""
        return f"/login?once={self._codes.issue(role)}"

    def session_for_code(self, code: str) -> str | None:
        used = self._codes.use_up(code)
        return None if used is None else self._sessions.issue(used.role)

    def opens_session(self, code: str) -> bool:
        """Whether *code* would open a session; it stays unused."""
        return self._codes.find(code) is not None

    def session_for_token(self, token: str) -> str | None:
        """None for what is no token of `PAGE_ROLES`. Raises DatabaseUnavailable."""
        role = self._role_of_token(token)
        if role is None and self._viewers is not None and (viewer := self._viewers.find(token)) is not None:
            return self._sessions.issue(Role.VIEWER, viewer.token_id)
        return self._sessions.issue(role) if role in PAGE_ROLES else None

    def session_for(self, held: Credential, life_s: float) -> str:
        """Of a person who signed in elsewhere."""
        return self._sessions.issue(held.role, held=held, life_s=life_s)

    def end(self, request: web.BaseRequest) -> None:
        self._sessions.use_up(request.cookies.get(COOKIE, ""))

    def role_of(self, request: web.BaseRequest) -> Role | None:
        """The role of `credential_of`."""
        found = self.credential_of(request)
        return None if found is None else found.role

    def credential_of(self, request: web.BaseRequest) -> Credential | None:
        """By the token in a header; else by session, which may write only from a page of this
        listener. None for no credential of this listener. Raises Unauthenticated for two, and
        DatabaseUnavailable.
        """
        secret = credential(request.headers)
        if secret is not None:
            return self._of_token(secret)
        session = self._session_of(request)
        if session is None or not (request.method in SAFE_METHODS or is_same_origin(request)):
            return None
        if session.token_id is not None:
            return self._of_viewer(session.token_id)
        return session.held or Credential(session.role)

    def _of_token(self, text: str) -> Credential | None:
        role = self._role_of_token(text)
        if role is not None:
            return Credential(role)
        return None if self._viewers is None else of_viewer(self._viewers.find(text))

    def _of_viewer(self, token_id: str) -> Credential | None:
        """None where the token that opened the session was revoked."""
        return None if self._viewers is None else of_viewer(self._viewers.of_id(token_id))

    def flash(self, request: web.BaseRequest, flash: Flash) -> None:
        """Show it on the next page of the session; nothing where the request has none."""
        session = self._session_of(request)
        if session is not None:
            session.flashes.append(flash._replace(text=flash.text[:MAX_FLASH_CHARS]))

    def flashes(self, request: web.BaseRequest) -> Sequence[Flash]:
        """Those that were not shown yet, the oldest first; they are from now on."""
        session = self._session_of(request)
        if session is None or not session.flashes:
            return ()
        shown = tuple(session.flashes)
        session.flashes.clear()
        return shown

    def _session_of(self, request: web.BaseRequest) -> Issued | None:
        return self._sessions.find(request.cookies.get(COOKIE, ""))

    def _role_of_token(self, text: str) -> Role | None:
        """Compares with every token, whichever it is, in constant time."""
        shown = hashed(text)
        equal = [role for role, token in self._tokens.items() if hmac.compare_digest(shown, token)]
        return max(equal, default=None)


def of_viewer(token: ViewerToken | None) -> Credential | None:
    return None if token is None else Credential(Role.VIEWER, token.reach, token.name)


def open_access(
    data_dir: Path, metrics_token: Secret | None = None, viewers: ViewerTokens | None = None
) -> AdminAccess:
    """Access by the tokens of *data_dir*, and by those of *viewers*; *metrics_token* replaces that
    of `Role.METRICS`. Raises OSError, CannotStart.
    """
    given = {} if metrics_token is None else {Role.METRICS: configured_token(metrics_token)}
    tokens = {role: given.get(role) or token_of(data_dir, role, os.urandom) for role in Role}
    return AdminAccess(tokens[Role.OPERATOR], time.monotonic, os.urandom, tokens, viewers)


def set_cookie(response: web.StreamResponse, session: str, *, over_tls: bool, life_s: float = SESSION_LIFE_S) -> None:
    """*over_tls*: browsers then send it over TLS alone."""
    response.set_cookie(
        COOKIE, session, max_age=int(life_s), path="/", httponly=True, samesite="Strict", secure=over_tls
    )


def is_same_origin(request: web.BaseRequest) -> bool:
    """Whether a page of this very listener sent it.

    Browsers put Origin on every request that writes, newer ones Sec-Fetch-Site too.
    """
    origins = request.headers.getall("Origin", [])
    if len(origins) != 1 or set(request.headers.getall("Sec-Fetch-Site", [])) - {"same-origin"}:
        return False
    try:
        origin = URL(origins[0])
    except ValueError:
        return False
    return origin.authority != "" and origin.authority == URL(f"http://{request.headers.get('Host', '')}").authority


def fresh(random_bytes: RandomBytes) -> str:
    return base64.urlsafe_b64encode(random_bytes(SECRET_BYTES)).rstrip(b"=").decode()


def hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
