"""What a person may do who signed in elsewhere: by the groups and e-mail that a trusted proxy or an
identity provider states. Pure.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from gateway.access.operators import OperatorRole
from gateway.common.contract.errors import Forbidden
from gateway.common.contract.reach import EVERYTHING, Reach


class SignInRule(NamedTuple):
    """Exactly one of group and e-mail is given."""

    group: str | None
    email: str | None
    role: OperatorRole
    reach: Reach = EVERYTHING
    """What a viewer sees; an operator sees everything."""

    def fits(self, groups: Collection[str], email: str | None) -> bool:
        if self.email is not None:
            return email is not None and self.email.casefold() == email.casefold()
        return self.group in groups


class SignedIn(NamedTuple):
    person: str
    role: OperatorRole
    reach: Reach = EVERYTHING


class SignInRules:
    def __init__(self, rules: Sequence[SignInRule]) -> None:
        self._rules = tuple(rules)

    def of(self, person: str, groups: Collection[str], *, email: str | None) -> SignedIn:
        """By the first rule that fits; *email*: None where nobody verified it. Raises Forbidden
        where none fits.
        """
        for rule in self._rules:
            if rule.fits(groups, email):
                return SignedIn(person, rule.role, rule.reach)
        raise Forbidden(
            "nobody gave you a role here: none of your groups, nor your e-mail, is in sign_in.roles of the"
            " configuration",
            reason="no_role",
        )
