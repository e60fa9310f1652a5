"""Options of single sign-on at the admin listener."""

from typing import Final, Self

from pydantic import Field, field_validator, model_validator
from yarl import URL

from gateway.access.operators import OperatorRole
from gateway.access.record import PERSON_MAX_CHARS
from gateway.access.sign_in import SignInRule, SignInRules
from gateway.common.contract.reach import is_limiting, reach_faults, reach_of
from gateway.config.options import Options
from gateway.config.values import DurationS, SecretOption

CALLBACK: Final = "/login/callback"
"""Where a provider sends the browser back to."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
HOUR_S: Final = 3600.0


def is_safe_url(url: str) -> bool:
    """Whether nobody on the way reads or changes what is sent there, and what comes back."""
    try:
        found = URL(url)
    except ValueError:
        return False
    return bool(found.host) and (found.scheme == "https" or (found.scheme == "http" and found.host in LOOPBACK))


class SignInRole(Options):
    """What those of a group may do, or the person with an e-mail."""

    group: str | None = Field(default=None, min_length=1, max_length=256)
    email: str | None = Field(default=None, pattern=r"^[^@\s]+@[^@\s]+$", max_length=PERSON_MAX_CHARS)
    role: OperatorRole = "viewer"
    """`viewer`: reads, and changes nothing."""
    limits: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Of a viewer: it sees the calls of these alone, such as `{team: [checkout]}`."""

    @field_validator("limits")
    @classmethod
    def limits_are_dimensions(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        if unknown := [name for name in value if not is_limiting(name)]:
            raise ValueError(f"limits: {', '.join(unknown)}: team, project or a tag is needed")
        if faults := reach_faults(value, "limits"):
            raise ValueError("; ".join(faults))
        return value

    @model_validator(mode="after")
    def one_of_both(self) -> Self:
        if (self.group is None) == (self.email is None):
            raise ValueError("one of group and email is needed")
        if self.role == "operator" and self.limits:
            raise ValueError("limits: an operator sees everything; the role viewer is needed")
        return self

    @property
    def rule(self) -> SignInRule:
        return SignInRule(self.group, self.email, self.role, reach_of(self.limits))


class Oidc(Options):
    """Sign-in by OpenID Connect, by the authorization code flow with PKCE."""

    issuer: str
    """As the provider's tokens have it; discovery is below it."""
    client_id: str = Field(min_length=1, max_length=256)
    client_secret: SecretOption | None = Field(default=None, repr=False)
    """None for a public client."""
    redirect_uri: str
    """Where browsers reach this gateway's `/login/callback`; the provider has it in its list."""
    scopes: tuple[str, ...] = ("openid", "email")
    """What is asked for; some providers have the groups in a scope of their own."""
    groups_claim: str = Field(default="groups", min_length=1, max_length=256)
    """Of the ID token; dots lead inside, as in `realm_access.roles`."""
    session_s: DurationS = Field(default=8 * HOUR_S, alias="session", ge=300, le=12 * HOUR_S)
    """After which a person signs in again, with the groups of then."""

    @field_validator("issuer", "redirect_uri")
    @classmethod
    def safe(cls, value: str) -> str:
        if not is_safe_url(value):
            raise ValueError("an https URL is needed, or http on loopback")
        return value

    @field_validator("redirect_uri")
    @classmethod
    def of_this_gateway(cls, value: str) -> str:
        found = URL(value)
        if found.path != CALLBACK or found.query_string or found.fragment:
            raise ValueError(f"an address that ends with {CALLBACK} is needed")
        return value

    @field_validator("scopes")
    @classmethod
    def has_openid(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in value:
            raise ValueError("openid has to be among them")
        return value


class SignIn(Options):
    """Single sign-on at the admin listener: people come without a token."""

    host_names: tuple[str, ...] = ()
    """Further names by which browsers reach the listener, besides that of `oidc.redirect_uri`."""
    groups_header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,64}$")
    """In which the proxies of `operator_identity.trusted_proxies` name the person's groups, with
    commas between, such as `X-Forwarded-Groups`."""
    oidc: Oidc | None = None
    roles: tuple[SignInRole, ...] = ()
    """The first that fits counts; who fits none is refused."""

    @model_validator(mode="after")
    def someone_has_a_role(self) -> Self:
        if (self.groups_header is not None or self.oidc is not None) and not self.roles:
            raise ValueError("roles: at least one is needed, or nobody could sign in")
        return self

    @property
    def hosts(self) -> frozenset[str]:
        """In lower case."""
        own = None if self.oidc is None else URL(self.oidc.redirect_uri).host
        return frozenset(name.lower() for name in (*self.host_names, *([own] if own else [])))

    @property
    def rules(self) -> SignInRules:
        return SignInRules([each.rule for each in self.roles])
