"""Signing in by OpenID Connect: to the provider and back, with a session in the end.

The way back is a page that leads on by itself. A redirect would still be part of the way from the
provider's site, on which some browsers send no cookie that is `SameSite=Strict`.
"""

import re
from collections.abc import AsyncIterator, Mapping
from html import escape
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import structlog
from aiohttp import web

from gateway.access.operators import Operators
from gateway.access.record import PERSON_MAX_CHARS
from gateway.access.sign_in import SignInRules
from gateway.common.contract.errors import Forbidden
from gateway.common.own_path import own_path
from gateway.config.sign_in import Oidc
from gateway.operate.oidc.pending import LIFE_S, PendingSeals
from gateway.operate.oidc.provider import OidcFault, Provider
from gateway.operate.role import Credential, Role
from gateway.operate.session import AdminAccess, set_cookie
from gateway.operate.site.rendering import html
from gateway.operate.site.shell import login_page

log = structlog.get_logger()

COOKIE: Final = "telemetry_gateway_sign_in"
MAX_CODE_CHARS: Final = 4096
MAX_STATE_CHARS: Final = 200
MAX_GROUPS: Final = 1_000
_WORD: Final = re.compile(r"[a-z_]{1,40}")


class SignInFlow:
    def __init__(
        self,
        options: Oidc,
        provider: Provider,
        seals: PendingSeals,
        rules: SignInRules,
        operators: Operators,
        access: AdminAccess,
    ) -> None:
        self._options = options
        self._provider = provider
        self._seals = seals
        self._rules = rules
        self._operators = operators
        self._access = access

    @property
    def _is_over_tls(self) -> bool:
        """As the browser sees it, also where a proxy has the certificate."""
        return self._options.redirect_uri.startswith("https:")

    async def begin(self, request: web.Request) -> web.StreamResponse:
        pending, cookie = self._seals.begin(own_path(request.query.get("then", "/")))
        try:
            url = await self._provider.authorization_url(pending)
        except OidcFault as fault:
            return self._refused(str(fault), HTTPStatus.BAD_GATEWAY)
        response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": url})
        response.set_cookie(
            COOKIE, cookie, max_age=int(LIFE_S), path="/login", httponly=True, samesite="Lax", secure=self._is_over_tls
        )
        return response

    async def finish(self, request: web.Request) -> web.StreamResponse:
        """The provider sent the browser back."""
        state, code = request.query.get("state", ""), request.query.get("code", "")
        pending = self._seals.finish(request.cookies.get(COOKIE, ""), state[:MAX_STATE_CHARS])
        if pending is None:
            return self._refused("This sign-in was already used, has expired, or was begun elsewhere. Begin again.")
        if "error" in request.query or not 0 < len(code) <= MAX_CODE_CHARS:
            word = _WORD.fullmatch(request.query.get("error", ""))
            return self._refused(f"The identity provider refused{'' if word is None else f': {word[0]}'}.")
        try:
            held = self._credential(await self._provider.claims(code, pending))
        except OidcFault as fault:
            log.warning("sign-in refused", reason=str(fault))
            return self._refused(str(fault))
        except Forbidden as refusal:
            return self._refused(str(refusal), HTTPStatus.FORBIDDEN)
        self._access.end(request)
        session = self._access.session_for(held, self._options.session_s)
        response = html(_LEADS_ON.format(path=escape(pending.then, quote=True)))
        set_cookie(response, session, over_tls=self._is_over_tls, life_s=self._options.session_s)
        response.del_cookie(COOKIE, path="/login")
        return response

    def _credential(self, claims: Mapping[str, Any]) -> Credential:
        """Raises Forbidden."""
        person = person_of(claims)
        email = person if claims.get("email_verified") is True and person == claims.get("email") else None
        signed = self._rules.of(person, groups_of(claims, self._options.groups_claim), email=email)
        is_operator = signed.role == "operator" and self._operators.role_of(person) == "operator"
        return Credential(Role.OPERATOR if is_operator else Role.VIEWER, signed.reach, person)

    def _refused(self, message: str, status: HTTPStatus = HTTPStatus.UNAUTHORIZED) -> web.Response:
        response = login_page(message, status, is_fault=True, has_sign_in=True)
        response.del_cookie(COOKIE, path="/login")
        return response


_LEADS_ON: Final = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Signed in</title>'
    '<meta http-equiv="refresh" content="0; url={path}"></head>'
    '<body><p><a href="{path}">Signed in: go on</a></p></body></html>'
)


def person_of(claims: Mapping[str, Any]) -> str:
    """The e-mail, unless the provider says that it is not verified; else the subject. Raises
    Forbidden for text that cannot be shown.
    """
    email = claims.get("email")
    is_usable = isinstance(email, str) and "@" in email and claims.get("email_verified") in (None, True)
    person = str(email if is_usable else claims["sub"])
    if not 1 <= len(person) <= PERSON_MAX_CHARS or not person.isprintable():
        raise Forbidden(
            f"the identity provider's e-mail or subject is no text of 1 to {PERSON_MAX_CHARS} printable characters"
        )
    return person


def groups_of(claims: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """What is at *path*, such as `realm_access.roles`: a list of names, or one; empty for none."""
    found: Any = claims
    for name in [path] if path in claims else path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    names = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return tuple(name for name in names[:MAX_GROUPS] if isinstance(name, str))


class ProviderSession:
    """The client's session while the application runs: no cookies, no proxy of the environment."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def __call__(self) -> aiohttp.ClientSession:
        assert self._session is not None  # noqa: S101 - the application runs
        return self._session

    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """For `cleanup_ctx`."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as self._session:
            yield
