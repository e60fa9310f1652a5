"""What a command asks of the running gateway, over its admin listener."""

from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import click

from gateway.cli.asking import Refused
from gateway.config import Config
from gateway.config_values import TcpAddress, UnixAddress
from gateway.web.session import TOKEN_FILE
from spool.errors import SpoolLocked

TIMEOUT_S = 3600.0
"""Replaying millions of dead letters takes minutes; a gateway that is gone is noticed at once."""


async def ask_gateway(
    config: Config,
    locked: SpoolLocked,
    method: str,
    path: str,
    query: Sequence[tuple[str, str]],
    body: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Its answer. *locked*: what says that one runs. Raises Refused, ClickException with the reason."""
    connector, base = reach(config, locked)
    headers = {"Authorization": token_of(config)}
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S, sock_connect=10)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.request(method, base + path, params=list(query), json=body, headers=headers) as response,
        ):
            answer: dict[str, Any] = await response.json()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise click.ClickException(
            f"{locked}; {base} does not answer ({type(error).__name__}): give the --config that it runs with,"
            " or TELEMETRY_GATEWAY_LISTEN_ADMIN"
        ) from error
    if not response.ok:
        raise Refused(response.status, answer)
    return answer


def reach(config: Config, locked: SpoolLocked) -> tuple[aiohttp.BaseConnector, str]:
    """How to connect to the admin listener, and its base URL."""
    match config.listen.admin:
        case TcpAddress() as address:
            return aiohttp.TCPConnector(), f"http://{address}"
        case UnixAddress() as address:
            return aiohttp.UnixConnector(str(address.path)), "http://localhost"
        case _:
            raise click.ClickException(f"{locked}; and its admin listener is off: stop it first, or turn that on")


def has_token(config: Config) -> bool:
    """Whether a gateway ever ran on the data directory."""
    return (config.data_dir / TOKEN_FILE).exists()


def token_of(config: Config) -> str:
    path = config.data_dir / TOKEN_FILE
    try:
        return path.read_text().strip()
    except OSError as error:
        raise click.ClickException(
            f"{path} cannot be read ({error.strerror}): run this as the gateway's user"
        ) from error
