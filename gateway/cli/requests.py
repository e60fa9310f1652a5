"""What a command asks: of the gateway that runs on the data directory, over its admin listener, or of the files when none runs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from gateway.admin.dead_letters import operate
from gateway.admin.keys import INBOUND_PATH, SERVICE_PATH, Store
from gateway.admin.keys import operate as operate_keys
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.contract.errors import GatewayError
from gateway.keys.control_store import INBOUND, OF_SERVICE, keys_at_rest
from gateway.keys.errors import KeyStoreError
from gateway.lists.conventions import BadListRequest
from spool.data_dir import DATABASE
from spool.errors import SpoolError, SpoolLocked
from spool.sqlite.replay.operator import at_rest


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
    """The answer of `gateway.admin.dead_letters.operate`, wherever the spool is. Raises ClickException with the reason."""
    if not (config.data_dir / DATABASE).exists():
        raise click.ClickException(f"{config.data_dir} holds no spool: name the gateway's with --data-dir or --config")
    try:
        with at_rest(config.data_dir, wall_ms) as operator:
            return await operate(operator, method, path, query=query, body=body, now_ms=wall_ms)
    except SpoolLocked as error:
        from gateway.cli.admin_client import ask_gateway  # noqa: PLC0415 nothing at rest must cost an HTTP client's imports

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
    """The answer of `gateway.admin.keys.operate`, wherever the keys are. Raises ClickException with the reason.

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
        from gateway.cli.admin_client import ask_gateway, has_token  # noqa: PLC0415 as above

        if place.of_service and not has_token(place.config):
            raise click.ClickException(f"{data_dir}: the local service runs there alone; stop it first") from error
        return await ask_gateway(place.config, error, method, path + below, query, body)
    except (SpoolError, GatewayError, KeyStoreError, BadListRequest, OSError) as error:
        raise click.ClickException(str(error)) from error
