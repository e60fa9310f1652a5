"""Who may make and change keys: Created By and Updated By are e-mail addresses of known operators.
Pure.

Without configured operators any name is taken. A person whom the connection itself names (by a
client's certificate, or by a trusted proxy) is never another one, whatever the body states.
"""

from collections.abc import Mapping
from typing import Final, Literal

from gateway.access.errors import InvalidKey
from gateway.common.contract.errors import Forbidden
from gateway.common.contract.scopes import quoted

OPERATOR: Final = "operator"
"""Created By and Updated By of a request that names no one: the admin token is no person's."""
OperatorRole = Literal["operator", "viewer"]
MAX_NAMED: Final = 5


class Operators:
    """*roles*: e-mail -> what its owner may do; empty where none are configured."""

    def __init__(self, roles: Mapping[str, OperatorRole] | None = None) -> None:
        self._written = {email.casefold(): email for email in roles or {}}
        self._roles = {email.casefold(): role for email, role in (roles or {}).items()}
        self.emails = tuple(email for email, role in (roles or {}).items() if role == "operator")
        """Those who may change keys, as the configuration writes them."""

    def person(self, stated: str | None, known: str) -> str:
        """Whose change it is: *known* by the connection (`OPERATOR` for no one), else as *stated*;
        an operator as the configuration writes them.

        Raises InvalidKey.
        """
        if known != OPERATOR and stated is not None and stated.casefold() != known.casefold():
            raise InvalidKey("by: the connection is another person's; leave it out")
        person = known if known != OPERATOR else stated or OPERATOR
        if self._roles and self._roles.get(person.casefold()) != "operator":
            more = f" and {len(self.emails) - MAX_NAMED} more" * (len(self.emails) > MAX_NAMED)
            raise InvalidKey(
                f"by: {quoted(person)} is no operator who may change keys: name one of"
                f" {', '.join(self.emails[:MAX_NAMED])}{more} (operators, in the configuration)"
            )
        return self._written.get(person.casefold(), person)

    def role_of(self, known: str) -> OperatorRole:
        """What a person may do whom the connection names. Raises Forbidden for one who is not
        configured.
        """
        if not self._roles:
            return "operator"
        role = self._roles.get(known.casefold())
        if role is None:
            raise Forbidden("the connection names a person who is not one of the configured operators")
        return role


ANYONE: Final = Operators()
"""None are configured."""
