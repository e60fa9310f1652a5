"""Access to the admin listener: the admin token, one-time login codes, and the
sessions opened with either.

The token lies in `data_dir/admin-token`, mode 0600. A browser gets in by a link that works once and
for ten minutes, or by the token typed into a form; from then on by a cookie. Codes and sessions
live in memory, as hashes: a restart ends them.
"""

import base64
import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import web
from yarl import URL

from exporters.secret import Secret
from gateway.receiver.authenticator import credential
from gateway.storage.private_files import read_or_create

TOKEN_FILE = "admin-token"  # noqa: S105 - a file's name
COOKIE: Final = "telemetry_gateway_session"

CODE_LIFE_S = 600.0
SESSION_LIFE_S = 12 * 3600.0

MAX_ENTRIES = 256
"""Codes, and sessions, that are alive at once; the oldest go first."""

SECRET_BYTES = 32
TOKEN_MIN_CHARS = 16
TOKEN_FORM = re.compile(rf"[!-~]{{{TOKEN_MIN_CHARS},}}")

RandomBytes = Callable[[int], bytes]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def admin_token(data_dir: Path, random_bytes: RandomBytes) -> Secret:
    """The token of *data_dir*, made at first use.

    Raises OSError, also for a file that holds none: an empty token is in every hand.
    """
    path = data_dir / TOKEN_FILE
    text = read_or_create(path, lambda: fresh(random_bytes).encode() + b"\n").decode("ascii", "replace").strip()
    if TOKEN_FORM.fullmatch(text) is None:
        raise OSError(
            f"{path} holds no token: {TOKEN_MIN_CHARS} printable ASCII characters or more are needed; deleted, it is made anew"
        )
    return Secret(text)


class Expiring:
    """Secrets with an end, kept as hashes."""

    def __init__(self, life_s: float, now_s: Callable[[], float], random_bytes: RandomBytes) -> None:
        self._life_s = life_s
        self._now_s = now_s
        self._random_bytes = random_bytes
        self._ends: dict[bytes, float] = {}

    def issue(self) -> str:
        while len(self._ends) >= MAX_ENTRIES:
            del self._ends[next(iter(self._ends))]
        secret = fresh(self._random_bytes)
        self._ends[hashed(secret)] = self._now_s() + self._life_s
        return secret

    def is_alive(self, secret: str) -> bool:
        return self._ends.get(hashed(secret), 0.0) > self._now_s()

    def use_up(self, secret: str) -> bool:
        """Whether *secret* was alive; it is not from now on."""
        return self._ends.pop(hashed(secret), 0.0) > self._now_s()


class AdminAccess:
    """Who may use the admin listener. *now_s* is monotonic."""

    def __init__(self, token: Secret, now_s: Callable[[], float], random_bytes: RandomBytes) -> None:
        self._token = token
        self._codes = Expiring(CODE_LIFE_S, now_s, random_bytes)
        self._sessions = Expiring(SESSION_LIFE_S, now_s, random_bytes)

    def login_path(self) -> str:
        """`/login?once=…`: opens one session, once."""
        return f"/login?once={self._codes.issue()}"

    def session_for_code(self, code: str) -> str | None:
        return self._sessions.issue() if self._codes.use_up(code) else None

    def opens_session(self, code: str) -> bool:
        """Whether *code* would open a session; it stays unused."""
        return self._codes.is_alive(code)

    def session_for_token(self, token: str) -> str | None:
        return self._sessions.issue() if self._is_token(token) else None

    def end(self, request: web.BaseRequest) -> None:
        self._sessions.use_up(request.cookies.get(COOKIE, ""))

    def allows(self, request: web.BaseRequest) -> bool:
        """By the token in a header; else by session, which may write
        only from a page of this listener.
        """
        secret = credential(request.headers)
        if secret is not None:
            return self._is_token(secret)
        if not self._sessions.is_alive(request.cookies.get(COOKIE, "")):
            return False
        return request.method in SAFE_METHODS or is_same_origin(request)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(hashed(text), hashed(self._token.reveal()))


def open_access(data_dir: Path) -> AdminAccess:
    """Access by the token of *data_dir*. Raises OSError."""
    return AdminAccess(admin_token(data_dir, os.urandom), time.monotonic, os.urandom)


def set_cookie(response: web.StreamResponse, session: str) -> None:
    response.set_cookie(COOKIE, session, max_age=int(SESSION_LIFE_S), path="/", httponly=True, samesite="Strict")


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
