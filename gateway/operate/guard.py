"""Who is admitted to the admin listener: by the name in Host, and by the role that a row needs.

A credential is checked when the head came, and again when the body is there. So a key that was
disabled, deleted or edited in between, or a session that ended, has no effect any more.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gateway.common.contract.errors import Forbidden, Unauthenticated
from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.common.http.http_connection import note_admitted
from gateway.operate.oidc.route import has_sign_in
from gateway.operate.operation import AnyOperation
from gateway.operate.pages import PageRoute
from gateway.operate.parts import ADMITS, BY, PARTS, REACH, ROLE, KeyGate, owner_of
from gateway.operate.request_body import BodyReader
from gateway.operate.role import Credential, Role
from gateway.operate.session import SAFE_METHODS, AdminAccess, is_same_origin
from gateway.operate.site.registry import ACTIONS, VIEWS
from gateway.operate.site.shell import login_page, wants_html
from gateway.serve.authenticator import credential, host_name, is_loopback_host, not_divisible

Row = PageRoute | AnyOperation

_PAGE: Final = {("GET", view.path) for view in VIEWS} | {("POST", action.path) for action in ACTIONS}


def host_guard(*, loopback: bool, host_names: AbstractSet[str]) -> Middleware:
    """Refuses names that are not ours: a page whose DNS name was turned to this
    address must not read from it.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        hosts = request.headers.getall("Host", ("",))
        if not all(is_loopback_host(host) or is_own_host(host, host_names, loopback=loopback) for host in hosts):
            raise Forbidden("the Host header is not a name of this listener")
        return await handler(request)

    return guard


def is_own_host(host: str, host_names: AbstractSet[str], *, loopback: bool) -> bool:
    """A configured name; beyond loopback also an address, which no DNS name can stand for."""
    name, port_ok = host_name(host)
    try:
        ip_address(name)
    except ValueError:
        return port_ok and name.lower() in host_names
    return port_ok and not loopback


class AccessRules:
    """What each row of the listener needs."""

    def __init__(self, rows: Sequence[Row], *, loopback: bool) -> None:
        self._rows: dict[tuple[str, str], Row] = {(row.method, row.path): row for row in rows}
        self._open = {row.path for row in rows if row.open == "everywhere"}
        self._open_here = {row.path for row in rows if loopback and row.open == "loopback"}

    def admits(self, request: web.Request) -> bool:
        """Raises Unauthenticated, Forbidden, DatabaseUnavailable."""
        if self.is_open(request):
            self._refuse_limited(request)
            return True
        return self.admits_role(request) or self.admits_key(request)

    def admits_again(self, request: web.Request) -> None:
        """As `admits`, later. Raises Unauthenticated where it does not any more."""
        if not self.admits(request):
            raise Unauthenticated("the credential was revoked while the request was under way", reason="revoked")

    def only_reads(self, request: web.Request) -> bool:
        """Whether the request's row changes nothing, so its answer may still be refused."""
        row = self._rows.get(row_of(request))
        return row is not None and row.only_reads

    def missing(self, request: web.Request) -> str:
        """What a request without a credential lacks."""
        row = self._rows.get(row_of(request))
        if row is None:
            return _needed_by_header("a key or token of this gateway")
        return _needed_by_header(_TOKENS[row.role]) if row.scope is None else needed(row.scope)

    def is_open(self, request: web.Request) -> bool:
        """By the path: a probe's is open to every method, so that a wrong one is 405. What is open
        on loopback is so under a name of loopback alone: under another one a proxy lets others in.
        """
        paths = {request.path, row_of(request)[1]}
        if paths & self._open:
            return True
        return bool(paths & self._open_here) and all(map(is_loopback_host, request.headers.getall("Host", ("",))))

    def admits_role(self, request: web.Request) -> bool:
        """By token or session; a person whom the connection names has no higher role than is
        configured.

        Raises Forbidden for one of a lower role than the row needs, and Unauthenticated for two
        tokens.
        """
        parts = request.app[PARTS]
        row, signed = self._rows.get(row_of(request)), signed_in(request)
        held = with_person(request, parts.access.credential_of(request), signed)
        if held is None:
            return False
        role = held.role
        if held.name is not None:
            request[BY] = held.name
        if signed is None and (person := parts.identity(request)) is not None:
            request[BY] = person
            role = min(role, Role.OPERATOR if parts.operators.role_of(person) == "operator" else Role.VIEWER)
        request[ROLE] = role
        self._note_reach(request, held.reach)
        if row is not None and role < row.role:
            own = f"this needs the {row.role.name.lower()}'s token, or a login with it"
            raise Forbidden(own if row.scope is None else needed(row.scope))
        return True

    def admits_key(self, request: web.Request) -> bool:
        """By an inbound key with the row's scope. Raises Unauthenticated, Forbidden,
        DatabaseUnavailable.
        """
        row, gate = self._rows.get(row_of(request)), request.app[PARTS].gate
        scope = None if row is None else row.scope
        if scope is None or gate is None or credential(request.headers) is None:
            return False
        key = gate.admit(request.headers, scope)
        if key is None:
            return False
        request[BY] = key.name
        self._note_reach(request, key.reach)
        return True

    def _note_reach(self, request: web.Request, reach: Reach) -> None:
        """Raises Forbidden where the row's answer cannot be divided by *reach*, and Unauthenticated
        where the credential saw something else when the request came.
        """
        if request.get(REACH, reach) != reach:
            raise Unauthenticated(
                "the credential's limit was changed while the request was under way", reason="revoked"
            )
        request[REACH] = reach
        row = self._rows.get(row_of(request))
        if reach and row is not None and not row.honours_limits:
            raise not_divisible(reach)

    def _refuse_limited(self, request: web.Request) -> None:
        """Whoever is limited does not see more by what is open on loopback: a proxy may be there.
        Raises Forbidden.
        """
        row = self._rows.get(row_of(request))
        if row is None or row.open != "loopback":
            return
        parts = request.app[PARTS]
        if reach := reach_shown(request, parts.access, parts.gate):
            raise not_divisible(reach)


def signed_in(request: web.Request) -> Credential | None:
    """Whom a trusted proxy signed in. Raises Forbidden, Unauthenticated."""
    parts = request.app[PARTS]
    signed = parts.sign_in(request)
    if signed is None:
        return None
    is_operator = signed.role == "operator" and parts.operators.role_of(signed.person) == "operator"
    return Credential(Role.OPERATOR if is_operator else Role.VIEWER, signed.reach, signed.person)


def with_person(request: web.Request, held: Credential | None, signed: Credential | None) -> Credential | None:
    """What a token or session gives to a person who is signed in: no more than both. Raises
    Forbidden.

    Alone, the person is admitted where the request shows no other credential. The proxy vouches for
    whatever a browser sends, so what writes has to come from a page of this listener.
    """
    if signed is None:
        return held
    if held is None:
        is_own = request.method in SAFE_METHODS or is_same_origin(request)
        return signed if is_own and credential(request.headers) is None else None
    if held.reach and signed.reach and held.reach != signed.reach:
        raise Forbidden("the token is limited to other calls than the person", reason="beyond_limit")
    return Credential(min(held.role, signed.role), held.reach or signed.reach, signed.name)


def reach_shown(request: web.Request, access: AdminAccess, gate: KeyGate | None) -> Reach:
    """What the request's credential sees; everything where it shows none that is known."""
    try:
        held = with_person(request, access.credential_of(request), signed_in(request))
    except (Unauthenticated, Forbidden):
        held = None
    if held is not None or gate is None:
        return EVERYTHING if held is None else held.reach
    return gate.reach_of(request.headers)


_TOKENS: Final = {
    Role.METRICS: "the metrics token, or another one of this gateway",
    Role.VIEWER: "a viewer's token (telemetry-gateway viewer-tokens create NAME)",
    Role.OPERATOR: "the admin token",
}
"""What opens rows without a scope: the least, so that nobody hands over more."""


def _needed_by_header(credential_text: str) -> str:
    return f"{credential_text} is needed, in the Authorization header"


def needed(scope: str) -> str:
    """Where a key is enough no token is named: an assistant repeats the text to people."""
    return (
        f"a key with the scope {scope} is needed, in the Authorization header: telemetry-gateway keys create --name NAME"
        f" --scope {scope}"
    )


def access_guard(rules: AccessRules, bodies: BodyReader) -> Middleware:
    """The middleware that admits by *rules*; a browser without a credential gets the form to log
    in.

    What only reads may take long, so its credential is checked once more before the answer goes
    out. A stream checks it itself (`is_still_admitted`).
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if rules.admits(request):
            if not rules.is_open(request):
                note_admitted(request)
            if request.match_info.http_exception is not None:  # no such route, whatever the body is
                return await handler(request)
            request[ADMITS] = rules.admits
            async with bodies.reading(request, owner_of(request)):
                rules.admits_again(request)
                response = await handler(request)
            if rules.only_reads(request) and not response.prepared:
                rules.admits_again(request)
            return response
        if is_of_page(request) and request.method in SAFE_METHODS and wants_html(request):
            message = "This page needs a token of this gateway, or a one-time link."
            return login_page(message, HTTPStatus.UNAUTHORIZED, then=request.path_qs, has_sign_in=has_sign_in(request))
        raise Unauthenticated(rules.missing(request))

    return guard


def row_of(request: web.Request) -> tuple[str, str]:
    """(method, path template) of the request's route; HEAD is the GET without its body. The
    template is empty where no route matched.
    """
    resource = request.match_info.route.resource
    method = "GET" if request.method == "HEAD" else request.method
    return method, "" if resource is None else resource.canonical


def is_of_page(request: web.Request) -> bool:
    """Whether a view or a form of the page has the request's route."""
    return row_of(request) in _PAGE
