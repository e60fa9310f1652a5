"""`devices`: list, show, block, unblock, enroll, forget, ping."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import click
from rich.table import Table

from gateway.admin.devices import LIST_PATH, operate
from gateway.cli.keys import person
from gateway.cli.printing import harmless, plain, print_table
from gateway.common.plural import plural
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.contract.errors import GatewayError
from gateway.devices.offline import at_rest
from gateway.keys.control_store import INBOUND
from gateway.keys.errors import DatabaseUnavailable
from gateway.lists.conventions import BadListRequest
from spool.errors import SpoolError, SpoolLocked
from spool.sqlite.reading import age_at_rest

LIST_LIMIT = 50


class Filters(NamedTuple):
    """As the options say."""

    state: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    limit: int | None = None

    def query(self) -> list[tuple[str, str]]:
        pairs = [("state", state) for state in self.state] + [("kind", kind) for kind in self.kind]
        return [*pairs, ("limit", str(self.limit or LIST_LIMIT))]


async def ask_devices(
    config: Config,
    method: str,
    path: str,
    *,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The answer of `gateway.admin.devices.operate`, wherever the devices are. Raises ClickException with the reason."""
    database = config.data_dir / INBOUND.database
    if not database.exists():
        raise click.ClickException(
            f"{config.data_dir} holds no devices: name the gateway's with --data-dir or --config"
        )
    try:
        async with at_rest(
            config.data_dir, database, lambda: age_at_rest(config.data_dir, wall_ms()), wall_ms
        ) as devices:
            return await operate(devices, method, path, query=query, body=body)
    except SpoolLocked as error:
        from gateway.cli.admin_client import ask_gateway  # noqa: PLC0415 nothing at rest must cost an HTTP client's imports

        return await ask_gateway(config, error, method, path, query, body)
    except (SpoolError, GatewayError, DatabaseUnavailable, BadListRequest) as error:
        raise click.ClickException(str(error)) from error


async def print_list(config: Config, filters: Filters, *, as_json: bool) -> int:
    answer = await ask_devices(config, "GET", LIST_PATH, query=filters.query())
    if as_json:
        click.echo(json.dumps(answer))
    else:
        print_devices(answer)
    return 0


def print_devices(answer: Mapping[str, Any]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("device", "state", "kind", "last contact", "enrolled", "reason"):
        table.add_column(name, no_wrap=name != "reason")
    for device in answer["devices"]:
        cells = (device["device_id"], device["state"], device["kind"], device["last_contact_at"])
        # A device names itself: its name may hold what a terminal obeys.
        table.add_row(*(plain(cell) for cell in (*cells, device["enrolled_at"] or "", device["reason"] or "")))
    print_table(table)
    total, shown = answer["pagination"]["total_count"], answer["pagination"]["item_count"]
    click.echo(f"{shown} of {total} devices")


async def print_device(config: Config, device_id: str, *, as_json: bool) -> int:
    answer = await ask_devices(config, "GET", path_of(device_id))
    click.echo(json.dumps(answer) if as_json else json.dumps(answer, indent=2))
    return 0


async def change(config: Config, device_id: str, verb: str, *, as_json: bool) -> int:
    """`block`, `unblock`, `enroll` or `forget`."""
    answer = await ask_devices(config, "POST", f"{path_of(device_id)}/{verb}", body={"by": person(None)})
    if as_json:
        click.echo(json.dumps(answer))
    elif verb == "forget":
        click.echo(f"{answer['device_id']} is forgotten; if it speaks again, it is new")
    else:
        click.echo(f"{answer['device_id']} is {answer['state']}")
    return 0


async def enroll_all(config: Config, *, as_json: bool) -> int:
    answer = await ask_devices(config, "POST", f"{LIST_PATH}/enroll", body={"all": True})
    click.echo(
        json.dumps(answer)
        if as_json
        else f"{plural(answer['enrolling'], 'device is', 'devices are')} enrolled anew, one after the other"
    )
    return 0


async def ping(config: Config, device_id: str, *, as_json: bool) -> int:
    """0 when the service knows the device."""
    answer = await ask_devices(config, "POST", f"{path_of(device_id)}/ping")
    said = f": {harmless(answer['message'])}" if answer.get("message") else ""
    click.echo(json.dumps(answer) if as_json else f"{answer['device_id']}: {answer['answer']}{said}")
    return 0 if answer["answer"] == "known" else 1


def path_of(device_id: str) -> str:
    return f"{LIST_PATH}/{quote(device_id, safe='')}"
