"""`devices`: list, show, block, unblock, enroll, forget, ping."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click
from rich.table import Table

from gateway.admin import devices
from gateway.admin.operation import Operation
from gateway.cli.keys import person
from gateway.cli.printing import plain, print_table
from gateway.cli.requests import DEVICES, ask
from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.config.model import Config

LIST_LIMIT = 50
CHANGES: Final[Mapping[str, Operation[devices.Devices, Any]]] = {
    "block": devices.BLOCK,
    "unblock": devices.UNBLOCK,
    "enroll": devices.ENROLL,
    "forget": devices.FORGET,
}


class Filters(NamedTuple):
    """The options of the list."""

    state: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    limit: int | None = None

    def query(self) -> list[tuple[str, str]]:
        pairs = [("state", state) for state in self.state] + [("kind", kind) for kind in self.kind]
        return [*pairs, ("limit", str(self.limit or LIST_LIMIT))]


async def print_list(config: Config, filters: Filters, *, as_json: bool) -> int:
    answer = await ask(config, DEVICES, devices.LIST, query=filters.query())
    if as_json:
        click.echo(json.dumps(answer))
    else:
        print_devices(answer)
    return 0


def print_devices(answer: Mapping[str, Any]) -> None:
    """Print devices as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("device", "state", "kind", "last contact", "enrolled", "reason"):
        table.add_column(name, no_wrap=name != "reason")
    for device in answer["devices"]:
        cells = (device["device_id"], device["state"], device["kind"], device["last_contact_at"])
        # A device names itself: its name may hold terminal sequences.
        table.add_row(*(plain(cell) for cell in (*cells, device["enrolled_at"] or "", device["reason"] or "")))
    print_table(table)
    total, shown = answer["pagination"]["total_count"], answer["pagination"]["item_count"]
    click.echo(f"{shown} of {total} devices")


async def print_device(config: Config, device_id: str, *, as_json: bool) -> int:
    answer = await ask(config, DEVICES, devices.SHOW, path={"id": device_id})
    click.echo(json.dumps(answer) if as_json else json.dumps(answer, indent=2))
    return 0


async def change(config: Config, device_id: str, verb: str, *, as_json: bool) -> int:
    """*verb* is a name of `CHANGES`."""
    answer = await ask(config, DEVICES, CHANGES[verb], path={"id": device_id}, body={"by": person(None)})
    if as_json:
        click.echo(json.dumps(answer))
    elif verb == "forget":
        click.echo(f"{answer['device_id']} is forgotten; at its next contact it is new")
    else:
        click.echo(f"{answer['device_id']} is {answer['state']}")
    return 0


async def enroll_all(config: Config, *, as_json: bool) -> int:
    answer = await ask(config, DEVICES, devices.ENROLL_ALL, body={"all": True})
    click.echo(
        json.dumps(answer)
        if as_json
        else f"{plural(answer['enrolling'], 'device is', 'devices are')} enrolled anew, one after the other"
    )
    return 0


async def ping(config: Config, device_id: str, *, as_json: bool) -> int:
    """0 when the upstream knows the device."""
    answer = await ask(config, DEVICES, devices.PING, path={"id": device_id})
    message = f": {harmless(answer['message'])}" if answer.get("message") else ""
    click.echo(json.dumps(answer) if as_json else f"{answer['device_id']}: {answer['answer']}{message}")
    return 0 if answer["answer"] == "known" else 1
