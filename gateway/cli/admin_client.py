"""A request of a command to the running gateway, over its admin listener."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import click
from yarl import URL

from gateway.cli.options import RefusedByGateway
from gateway.common.tls import context_to
from gateway.config.model import Config
from gateway.config.values import TcpAddress, UnixAddress
from gateway.operate.address_file import Written, running_listener
from gateway.operate.operation import AnyOperation
from gateway.operate.session import TOKEN_FILE
from spool.errors import SpoolLocked

LOGIN_LINKS: Final = "/v2/login-links"
TIMEOUT_S = 3600.0
"""Replaying millions of dead letters takes minutes; a gateway that is gone is noticed at once."""


async def ask_gateway(
    config: Config,
    locked: SpoolLocked,
    operation: AnyOperation,
    path: Mapping[str, str],
    query: Sequence[tuple[str, str]],
    body: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The gateway's answer; *locked* is the reason to ask it. Raises Refused,
    ClickException with the reason.
    """
    headers = {} if operation.open and not has_token(config) else {"Authorization": token_of(config)}
    connector, base = reach(config, locked)
    url = URL(base + operation.url(path), encoded=True)
    return await asked(connector, operation.method, url, locked, headers=headers, params=list(query), json=body)


async def login_link(config: Config, locked: SpoolLocked, role: str) -> str:
    """A link that opens the page once, for a browser, as *role*. Raises as `ask_gateway`, and where
    the page has no address of a browser.
    """
    connector, base = reach(config, locked)
    if isinstance(connector, aiohttp.UnixConnector):
        await connector.close()
        raise click.ClickException("listen.admin is a Unix socket, which no browser opens: set host:port")
    headers = {"Authorization": token_of(config)}
    answer = await asked(connector, "POST", URL(base + LOGIN_LINKS), locked, headers=headers, json={"role": role})
    return f"{base}{answer['path']}"


async def asked(
    connector: aiohttp.BaseConnector, method: str, url: URL, locked: SpoolLocked, **request: Any
) -> dict[str, Any]:
    """The answer to one request; as `ask_gateway`."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S, sock_connect=10)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.request(method, url, **request) as response,
        ):
            answer: dict[str, Any] = {} if response.status == HTTPStatus.NO_CONTENT else await response.json()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise click.ClickException(unanswered(locked, str(url.origin()), error)) from error
    if response.status == HTTPStatus.UNAUTHORIZED:
        raise click.ClickException(
            f"{url.origin()} does not take the token of {TOKEN_FILE} in the data directory: where the file was changed,"
            " restart the gateway; where another gateway listens there, correct listen.admin"
        )
    if not response.ok:
        raise RefusedByGateway(response.status, answer)
    return answer


def reach(config: Config, locked: SpoolLocked) -> tuple[aiohttp.BaseConnector, str]:
    """A connector to the admin listener, and its base URL.

    Raises ClickException where it is not known.
    """
    found = admin_listener(config)
    try:
        tls = None if found.tls is None else context_to(found.tls)
    except OSError as error:  # ssl.SSLError is one
        raise click.ClickException(f"tls.admin: its files cannot be read: {error.strerror}") from error
    match found.address:
        case TcpAddress() as address if tls is not None:
            return aiohttp.TCPConnector(ssl=tls), f"https://{address}"
        case TcpAddress() as address:
            return aiohttp.TCPConnector(), f"http://{address}"
        case UnixAddress() as address if tls is None:
            return aiohttp.UnixConnector(str(address.path)), "http://localhost"
        case _:
            raise click.ClickException(
                f"{locked}; no admin listener of it is known: name its address in"
                " TELEMETRY_GATEWAY_LISTEN_ADMIN, or stop the gateway first"
            )


def admin_listener(config: Config) -> Written:
    """Its address: what the configuration names, but for port 0, which names none; else what
    the running gateway wrote.

    The default is not tried: another process that listens there would get the token.
    """
    named, tls = config.listen.admin, config.tls.admin
    written = running_listener(config.data_dir)
    if "admin" in config.listen.model_fields_set and not (isinstance(named, TcpAddress) and named.port == 0):
        if tls is not None:
            return Written(named, tls.files("tls.admin"))
        return Written(named, None if written is None else written.tls)
    return written or Written(None, None)


def unanswered(locked: SpoolLocked, base: str, error: Exception) -> str:
    return (
        f"{locked}; {base} does not answer ({type(error).__name__}): without listen.admin and"
        " TELEMETRY_GATEWAY_LISTEN_ADMIN the command uses the address that the gateway wrote"
    )


def has_token(config: Config) -> bool:
    """Whether a gateway ever ran on the data directory."""
    return (config.data_dir / TOKEN_FILE).exists()


def token_of(config: Config) -> str:
    path = config.data_dir / TOKEN_FILE
    try:
        return path.read_text().strip()
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        remedy = "restart the gateway, which makes it" if is_gone else "run this as the gateway's user"
        raise click.ClickException(f"{path} cannot be read ({error.strerror}): {remedy}") from error
