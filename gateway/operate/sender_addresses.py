"""Where senders reach this gateway, and what they paste with these addresses."""

from typing import Any, Final, NamedTuple

from gateway.config.values import Address, TcpAddress
from gateway.operate.parts import Running
from gateway.products.connecting import KEY, connection

EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 compared, not bound
UNKNOWN: Final = "GATEWAY"
"""In place of the address of a listener that is off or has a Unix socket."""


class Addresses(NamedTuple):
    http: str
    """Base URL of the senders' listener, with `http.base_path`."""
    grpc: str
    """`host:port`."""
    grpc_scheme: str
    missing: tuple[str, ...]
    """Listeners that no sender of another process reaches by an address, each as a sentence."""


def addresses(running: Running, host: str) -> Addresses:
    """*host*: name of this machine for senders, for a listener that is bound to every address."""
    config, tls = running.config, running.config.tls
    scheme = "http" if tls.http is None else "https"
    missing = [
        f"listen.{name} is {'off' if address is None else address}"
        for name, address in (("http", running.http), ("grpc", running.grpc))
        if not isinstance(address, TcpAddress)
    ]
    return Addresses(
        http=f"{scheme}://{reached(running.http, host)}{config.http.base_path.rstrip('/')}",
        grpc=reached(running.grpc, host),
        grpc_scheme="http" if tls.grpc is None else "https",
        missing=tuple(missing),
    )


def reached(address: Address, host: str) -> str:
    """`host:port` for a sender."""
    if not isinstance(address, TcpAddress):
        return UNKNOWN
    if address.host in EVERYWHERE:
        return str(TcpAddress(host, address.port))
    return str(address)


def connection_at(name: str, at: Addresses, key: str = KEY) -> dict[str, Any] | None:
    """What the sender of that name needs at these addresses; None where none has it.

    `missing` has the listeners that its snippets name and that have no address.
    """
    found = connection(name, at.http, at.grpc, key)
    if found is None:
        return None
    snippets = [{**each, "text": with_tls(each["text"], at)} for each in found["snippets"]]
    missing = at.missing if any(UNKNOWN in each["text"] for each in snippets) else ()
    return {**found, "snippets": snippets, "missing": missing}


def with_tls(text: str, at: Addresses) -> str:
    """Snippets name the gRPC listener as one without TLS."""
    return text.replace(f"http://{at.grpc}", f"{at.grpc_scheme}://{at.grpc}")
