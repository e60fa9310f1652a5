"""What a command asks: of the gateway that runs on the data directory, over its admin listener, or of the files when none runs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import aiohttp
import click

from gateway.config import Config
from gateway.config_values import TcpAddress, UnixAddress
from gateway.dead_letters import operate
from gateway.errors import GatewayError
from gateway.keys.admin import INBOUND_PATH, SERVICE_PATH, Store
from gateway.keys.admin import operate as operate_keys
from gateway.keys.control import INBOUND, OF_SERVICE, keys_at_rest
from gateway.keys.errors import KeyStoreError
from gateway.lists.conventions import BadListRequest
from gateway.wall_clock import wall_ms
from gateway.web.session import TOKEN_FILE
from spool.errors import SpoolError, SpoolLocked
from spool.sqlite.database import DATABASE
from spool.sqlite.operating import at_rest

TIMEOUT_S = 3600.0
"""Replaying millions of dead letters takes minutes; a gateway that is gone is noticed at once."""


class Refused(click.ClickException):
    """The gateway answered with an error."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        super().__init__(str(answer.get("error", {}).get("message", f"HTTP {status}")))
        self.answer = answer


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


class KeyPlace(NamedTuple):
    """Whose keys a command is about."""

    config: Config
    of_service: bool
    """The local service's, in place of the senders'."""


async def ask_keys(
    place: KeyPlace,
    method: str,
    below: str = "",
    *,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The answer of `gateway.keys.admin.operate`, wherever the keys are. Raises ClickException with the reason.

    Only a new key makes the files, so that a mistaken directory is told.
    """
    data_dir = place.config.data_dir
    files, path = (OF_SERVICE, SERVICE_PATH) if place.of_service else (INBOUND, INBOUND_PATH)
    if (method, below) != ("POST", "") and not (data_dir / files.database).exists():
        raise click.ClickException(f"{data_dir} holds no keys: name the gateway's with --data-dir or --config")
    try:
        async with keys_at_rest(data_dir, files, wall_ms) as keys:
            return await operate_keys(Store(keys), method, below, query=query, body=body)
    except SpoolLocked as error:
        if place.of_service and not (data_dir / TOKEN_FILE).exists():
            raise click.ClickException(f"{data_dir}: the local service runs there alone; stop it first") from error
        return await ask_gateway(place.config, error, method, path + below, query, body)
    except (SpoolError, GatewayError, KeyStoreError, BadListRequest, OSError) as error:
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


def token_of(config: Config) -> str:
    path = config.data_dir / TOKEN_FILE
    try:
        return path.read_text().strip()
    except OSError as error:
        raise click.ClickException(
            f"{path} cannot be read ({error.strerror}): run this as the gateway's user"
        ) from error
