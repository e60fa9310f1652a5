"""Connect a sender: what to paste into each, with the addresses of this very gateway."""

from typing import Any, Final, NamedTuple

from aiohttp import web
from yarl import URL

from gateway.admin.parts import STORES, Running, running_of
from gateway.admin.site.view import View
from gateway.config.values import Address, TcpAddress
from gateway.contract.errors import NotFound
from gateway.sources.catalogue import SOURCES
from gateway.sources.connecting import KEY, SNIPPET_IN, described, described_sender
from gateway.sources.otlp_senders import OTLP_SENDERS

LIST: Final = "/connect"
ONE: Final = LIST + "/{name}"
EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 compared, not bound
UNKNOWN: Final = "GATEWAY"
"""Stands for the address of a listener that is off or has a Unix socket."""


class Addresses(NamedTuple):
    http: str
    """Base URL of the senders' listener, with `http.base_path`."""
    grpc: str
    """`host:port`."""
    grpc_scheme: str
    missing: tuple[str, ...]
    """Listeners that no sender of another process reaches by an address, each as a sentence."""


def addresses(running: Running, host: str) -> Addresses:
    """*host*: name by which the page was asked, for a listener that is bound to every address."""
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


def asked_host(request: web.Request) -> str:
    """The name in Host, without its port."""
    return URL(f"http://{request.host}").host or UNKNOWN


async def load(request: web.Request) -> dict[str, Any]:
    keys = request.app[STORES].keys
    return {
        "addresses": addresses(running_of(request), asked_host(request)),
        "gateways": [(source.name, source.title) for source in SOURCES.values()],
        "senders": [(sender.name, sender.title) for sender in OTLP_SENDERS.values()],
        "is_open": keys is not None and not keys.keys.ever_created(),
    }


async def load_one(request: web.Request) -> dict[str, Any]:
    return connected(request.match_info["name"], addresses(running_of(request), asked_host(request)))


def connected(name: str, at: Addresses) -> dict[str, Any]:
    """The template's context of one sender. Raises NotFound."""
    if (source := SOURCES.get(name)) is not None:
        found = described(source, at.http)
        found["snippets"] = [{"language": found["language"], "file": "", "text": found["snippet"]}]
    elif (sender := OTLP_SENDERS.get(name)) is not None:
        found = described_sender(sender, at.http, at.grpc)
    else:
        raise NotFound("no sender has this name")
    snippets = [{**each, "text": with_tls(each["text"], at), "place": place_of(each)} for each in found["snippets"]]
    missing = at.missing if any(UNKNOWN in each["text"] for each in snippets) else ()
    return {"sender": found, "snippets": snippets, "missing": missing, "key": KEY}


def with_tls(text: str, at: Addresses) -> str:
    """Snippets name the gRPC listener as one without TLS."""
    return text.replace(f"http://{at.grpc}", f"{at.grpc_scheme}://{at.grpc}")


def place_of(snippet: dict[str, str]) -> str:
    """Where the snippet belongs, in words."""
    return snippet["file"] or SNIPPET_IN.get(snippet["language"], "")


VIEW: Final = View(path=LIST, title="Connect", template="connect.html", load=load)
DETAIL: Final = View(
    path=ONE, title="Connect a sender", template="connect_one.html", load=load_one, in_navigation=False, below=LIST
)
VIEWS: Final = (VIEW, DETAIL)
