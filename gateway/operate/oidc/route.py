"""The routes of sign-in by OpenID Connect. PyJWT is imported only where it is configured."""

import os
import time
from importlib.util import find_spec
from typing import Final, Protocol

from aiohttp import web

from exporters.keyring import KeyFault, read_secret
from gateway.access.operators import Operators
from gateway.common.contract.errors import CannotStart, NotFound
from gateway.config.sign_in import SignIn
from gateway.operate.session import AdminAccess

BEGIN: Final = "/login/oidc"


class Flow(Protocol):
    async def begin(self, request: web.Request) -> web.StreamResponse: ...

    async def finish(self, request: web.Request) -> web.StreamResponse: ...


FLOW: Final = web.AppKey("sign_in", Flow)


async def begin(request: web.Request) -> web.StreamResponse:
    """Raises NotFound."""
    return await flow_of(request).begin(request)


async def finish(request: web.Request) -> web.StreamResponse:
    """Raises NotFound."""
    return await flow_of(request).finish(request)


def flow_of(request: web.Request) -> Flow:
    flow = request.app.get(FLOW)
    if flow is None:
        raise NotFound("sign-in by OpenID Connect is not configured (sign_in.oidc)")
    return flow


def has_sign_in(request: web.Request) -> bool:
    return FLOW in request.app


def add_sign_in(app: web.Application, options: SignIn, operators: Operators, access: AdminAccess) -> None:
    """Raises CannotStart where PyJWT is not installed, or the client's secret cannot be read."""
    if find_spec("jwt") is None:
        raise CannotStart("sign_in.oidc needs PyJWT: pip install 'ai-telemetry-gateway[oidc]'")
    from gateway.operate.oidc.flow import ProviderSession, SignInFlow  # noqa: PLC0415 - the extra
    from gateway.operate.oidc.pending import PendingSeals  # noqa: PLC0415 - the same
    from gateway.operate.oidc.provider import Provider  # noqa: PLC0415 - the same

    assert options.oidc is not None  # noqa: S101 - the caller saw it
    try:
        given = options.oidc.client_secret
        secret = None if given is None else read_secret(given, os.environ)
    except KeyFault as fault:
        raise CannotStart(f"sign_in.oidc.client_secret: {fault}") from fault
    session = ProviderSession()
    app.cleanup_ctx.append(session.running)
    app[FLOW] = SignInFlow(
        options.oidc,
        Provider(options.oidc, secret, session),
        PendingSeals(time.monotonic, os.urandom),
        options.rules,
        operators,
        access,
    )
