"""Who sends a request to the admin listener, where the connection itself states it: the e-mail in
the client's certificate, or in a header of a trusted proxy. Either only where it is configured.
"""

from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from aiohttp import web

from gateway.common.contract.errors import Unauthenticated
from gateway.config.model import OperatorIdentity

UNIX = "unix"
"""Among the trusted proxies: processes that may open the admin listener's Unix socket."""

IdentityOf = Callable[[web.Request], str | None]


def no_identity(_: web.Request) -> None:
    """Where nothing is configured."""


def trusted_by(options: OperatorIdentity) -> Callable[[web.Request], bool]:
    """Whether a request comes from a trusted proxy."""
    networks = [ip_network(each, strict=False) for each in options.trusted_proxies if each != UNIX]

    def is_trusted(request: web.Request) -> bool:
        if request.remote is None:
            return UNIX in options.trusted_proxies
        address = ip_address(request.remote)
        return any(address in network for network in networks)

    return is_trusted


def identity_reader(options: OperatorIdentity) -> IdentityOf:
    """How the person behind a request is known."""
    is_trusted = trusted_by(options)

    def identity(request: web.Request) -> str | None:
        """The e-mail; None where nothing states one. Raises Unauthenticated for two headers."""
        if options.certificate and request.transport is not None:
            email = email_in(request.transport.get_extra_info("peercert"))
            if email is not None:
                return email
        if options.header is None or not is_trusted(request):
            return None
        values = request.headers.getall(options.header, [])
        if len(values) > 1:
            raise Unauthenticated("the proxy's header names the person twice", reason="keys_differ")
        return values[0].strip() or None if values else None

    return identity


def email_in(certificate: Mapping[str, Any] | None) -> str | None:
    """The e-mail address in a client's certificate, as `ssl` gives that: of its alternative names,
    else its common name where that is one.
    """
    if not certificate:
        return None
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "email"]
    names += [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    return next((name for name in names if "@" in name), None)
