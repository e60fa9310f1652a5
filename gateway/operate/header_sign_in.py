"""Single sign-on by a proxy that signs people in: the groups in its header give the person that its
other header names a role, and the calls that this person sees.
"""

from collections.abc import Callable

from aiohttp import web

from gateway.access.sign_in import SignedIn, SignInRules
from gateway.common.contract.errors import Unauthenticated
from gateway.config.model import OperatorIdentity
from gateway.operate.identity import IdentityOf, trusted_by

GroupsOf = Callable[[web.Request], tuple[str, ...]]
SignInOf = Callable[[web.Request], SignedIn | None]
"""None for a request that no trusted proxy vouches for. Raises Forbidden for a person without a
role, and Unauthenticated for two headers of one name.
"""


def no_sign_in(_: web.Request) -> None:
    """Where nothing is configured."""


def groups_reader(options: OperatorIdentity, header: str | None) -> GroupsOf:
    """The groups that a trusted proxy states, separated by commas."""
    is_trusted = trusted_by(options)

    def groups(request: web.Request) -> tuple[str, ...]:
        if header is None or not is_trusted(request):
            return ()
        values = request.headers.getall(header, [])
        if len(values) > 1:
            raise Unauthenticated("the proxy's header names the groups twice", reason="keys_differ")
        return tuple(name.strip() for value in values for name in value.split(",") if name.strip())

    return groups


def header_sign_in(identity: IdentityOf, groups: GroupsOf, rules: SignInRules) -> SignInOf:
    def signed_in(request: web.Request) -> SignedIn | None:
        person = identity(request)
        return None if person is None else rules.of(person, groups(request), email=person)

    return signed_in
