"""Who sent an MCP request, and which tools its credential opens.

What reads is open to whoever is admitted to the route. What writes is open where the admin port
admits the same credential to the operation: a key by the operation's scope, a token or session by
its role. It is asked when tools are listed, and again before each change.
"""

from aiohttp import web

from gateway.access.operators import OPERATOR
from gateway.common.contract.errors import Forbidden, GatewayError, Unauthenticated
from gateway.common.contract.scopes import MCP_SCOPE
from gateway.operate.operation import AnyOperation
from gateway.operate.parts import BY, PARTS, ROLE, is_still_admitted, reach_of
from gateway.serve.authenticator import not_divisible


class Caller:
    def __init__(self, request: web.Request) -> None:
        """*request*: admitted to the route of MCP."""
        self._request = request
        self.name = request.get(BY, OPERATOR)
        self.reach = reach_of(request)
        self.has_changed = False
        """Whether a change may have been made: then its answer goes out, even if the credential is
        revoked meanwhile.
        """

    def check_admitted(self) -> None:
        """Raises Unauthenticated where it would not be admitted to the route any more."""
        if not is_still_admitted(self._request):
            raise Unauthenticated("the credential was revoked while the request was under way", reason="revoked")

    def may(self, operation: AnyOperation) -> bool:
        try:
            self.check(operation)
        except GatewayError:
            return False
        return True

    def check(self, operation: AnyOperation) -> None:
        """Raises Unauthenticated, Forbidden, DatabaseUnavailable."""
        if self.reach and not operation.honours_limits:
            raise not_divisible(self.reach)
        if operation.only_reads:
            return
        self.check_admitted()
        role = self._request.get(ROLE)
        if role is not None and role < operation.role:
            raise Forbidden(remedy_of(operation))
        if role is None:
            self._check_key(operation)

    def _check_key(self, operation: AnyOperation) -> None:
        gate = self._request.app[PARTS].gate
        if gate is None or operation.scope is None:
            raise Forbidden(remedy_of(operation))
        try:
            gate.admit(self._request.headers, operation.scope)
        except Forbidden as error:
            raise Forbidden(remedy_of(operation), reason=error.reason) from error


def remedy_of(operation: AnyOperation) -> str:
    """What opens *operation* as a tool. A model repeats it to people, so it names no token."""
    return (
        f"this needs a key with the scope {operation.scope}. Who runs the gateway makes one with: telemetry-gateway keys"
        f" create --name NAME --scope {MCP_SCOPE} --scope {operation.scope}"
    )
