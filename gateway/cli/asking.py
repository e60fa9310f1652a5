"""What a command asks: of the gateway that runs on the data directory, over its admin listener, or of the files when none runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import click

from gateway.app import wall_ms
from gateway.config import Config
from gateway.config_values import TcpAddress, UnixAddress
from gateway.dead_letters import operate
from gateway.errors import GatewayError
from gateway.list_conventions import BadListRequest
from gateway.web.session import TOKEN_FILE
from spool.errors import SpoolError, SpoolLocked
from spool.sqlite.database import DATABASE
from spool.sqlite.operating import at_rest

TIMEOUT_S = 3600.0
"""Replaying millions of dead letters takes minutes; a gateway that is gone is noticed at once."""


async def ask_spool(
    config: Config,
    method: str,
    path: str,
    *,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The answer of `gateway.dead_letters.operate`, wherever the spool is. Raises ClickException with the reason."""
    if not (config.data_dir / DATABASE).exists():
        raise click.ClickException(f"{config.data_dir} holds no spool: name the gateway's with --data-dir or --config")
    try:
        with at_rest(config.data_dir, wall_ms) as operator:
            return await operate(operator, method, path, query=query, body=body, now_ms=wall_ms)
    except SpoolLocked as error:
        return await ask_gateway(config, error, method, path, query, body)
    except (SpoolError, GatewayError, BadListRequest) as error:
        raise click.ClickException(str(error)) from error


async def ask_gateway(
    config: Config,
    locked: SpoolLocked,
    method: str,
    path: str,
    query: Sequence[tuple[str, str]],
    body: Mapping[str, Any] | None,
) -> dict[str, Any]:
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
        raise click.ClickException(str(answer.get("error", {}).get("message", f"HTTP {response.status}")))
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


def token_of(config: Config) -> str:
    path = config.data_dir / TOKEN_FILE
    try:
        return path.read_text().strip()
    except OSError as error:
        raise click.ClickException(
            f"{path} cannot be read ({error.strerror}): run this as the gateway's user"
        ) from error
