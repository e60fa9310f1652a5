"""`telemetry-gateway devices`: machines that send telemetry or heartbeats."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from rich.table import Table

from gateway.cli.asking import ask, person
from gateway.cli.groups import Group
from gateway.cli.options import config_of, config_option, data_dir_option, json_option
from gateway.cli.printing import plain, print_table
from gateway.common.plural import plural
from gateway.common.printable import harmless

if TYPE_CHECKING:
    from gateway.config.model import Config

LIST_LIMIT = 50
CHANGES: Final = {
    "block": "blockDevice",
    "unblock": "unblockDevice",
    "enroll": "enrollDeviceAnew",
    "forget": "forgetDevice",
}
"""Verb -> id of the operation."""


class Filters(NamedTuple):
    """The options of the list."""

    state: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    sort_key: str | None = None
    desc: bool = False
    limit: int | None = None

    def query(self) -> list[tuple[str, str]]:
        pairs = [("state", state) for state in self.state] + [("kind", kind) for kind in self.kind]
        pairs += [("sort_key", self.sort_key)] if self.sort_key else []
        pairs += [("sort_order", "desc")] if self.desc else []
        return [*pairs, ("limit", str(self.limit or LIST_LIMIT))]


async def print_list(config: "Config", filters: Filters, *, as_json: bool) -> int:
    answer = await ask(config, "listDevices", query=filters.query())
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


async def print_device(config: "Config", device_id: str, *, as_json: bool) -> int:
    answer = await ask(config, "readDevice", path={"id": device_id})
    click.echo(json.dumps(answer) if as_json else json.dumps(answer, indent=2))
    return 0


async def change(config: "Config", device_id: str, verb: str, *, as_json: bool) -> int:
    """*verb* is a name of `CHANGES`."""
    answer = await ask(config, CHANGES[verb], path={"id": device_id}, body={"by": person(None)})
    if as_json:
        click.echo(json.dumps(answer))
    elif verb == "forget":
        click.echo(f"{answer['device_id']} is forgotten; at its next contact it is new")
    else:
        click.echo(f"{answer['device_id']} is {answer['state']}")
    return 0


async def enroll_all(config: "Config", *, as_json: bool) -> int:
    answer = await ask(config, "enrollAllDevices", body={"all": True})
    click.echo(
        json.dumps(answer)
        if as_json
        else f"{plural(answer['enrolling'], 'device is', 'devices are')} enrolled again, one after the other"
    )
    return 0


async def ping(config: "Config", device_id: str, *, as_json: bool) -> int:
    """0 when the upstream knows the device."""
    answer = await ask(config, "pingDeviceUpstream", path={"id": device_id})
    message = f": {harmless(answer['message'])}" if answer.get("message") else ""
    click.echo(json.dumps(answer) if as_json else f"{answer['device_id']}: {answer['answer']}{message}")
    return 0 if answer["answer"] == "known" else 1


@click.group(cls=Group)
def devices() -> None:
    """Machines that send, and their enrolment at the service."""


@devices.command("list")
@config_option
@data_dir_option
@click.option("--state", multiple=True, help="Such as enrolled, offline, blocked; may be repeated.")
@click.option("--kind", multiple=True, help="workstation, server or gateway; may be repeated.")
@click.option("--sort", "sort_key", help="device_id, state, kind, first_seen_at, last_contact_at or enrolled_at.")
@click.option("--desc", is_flag=True, help="In descending order.")
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many; default 50.")
@json_option
def devices_list(config_file: Path | None, data_dir: Path | None, as_json: bool, **filters: Any) -> None:  # noqa: FBT001 a flag of the command line
    """List devices, by id unless --sort names something else."""
    sys.exit(asyncio.run(print_list(config_of(config_file, data_dir), Filters(**filters), as_json=as_json)))


@devices.command("show")
@config_option
@data_dir_option
@json_option
@click.argument("device_id", metavar="DEVICE")
def devices_show(config_file: Path | None, data_dir: Path | None, as_json: bool, device_id: str) -> None:  # noqa: FBT001 as above
    """Show a device: state, reason, enrolment, what it reported."""
    sys.exit(asyncio.run(print_device(config_of(config_file, data_dir), device_id, as_json=as_json)))


def _device_command(verb: str, meaning: str) -> None:
    @devices.command(verb, help=meaning)
    @config_option
    @data_dir_option
    @json_option
    @click.argument("device_id", metavar="DEVICE")
    def command(config_file: Path | None, data_dir: Path | None, as_json: bool, device_id: str) -> None:  # noqa: FBT001 as above
        sys.exit(asyncio.run(change(config_of(config_file, data_dir), device_id, verb, as_json=as_json)))


_device_command("block", "Refuse its data, also after restarts, until it is unblocked.")
_device_command("unblock", "End its block or quarantine and enrol it again.")
_device_command("forget", "Forget it and end its block; at its next contact it is new.")


@devices.command("enroll")
@config_option
@data_dir_option
@json_option
@click.option("--all", "every", is_flag=True, help="Enrol every device, after the service lost them all.")
@click.argument("device_id", metavar="[DEVICE]", required=False)
def devices_enroll(
    config_file: Path | None,
    data_dir: Path | None,
    as_json: bool,  # noqa: FBT001 as above
    every: bool,  # noqa: FBT001 as above
    device_id: str | None,
) -> None:
    """Enrol one device again, or all with --all.

    At the rate of devices.enroll_per_s.
    """
    if every == (device_id is not None):
        raise click.UsageError("name one device, or give --all")
    config = config_of(config_file, data_dir)
    asked = (
        enroll_all(config, as_json=as_json)
        if device_id is None
        else change(config, device_id, "enroll", as_json=as_json)
    )
    sys.exit(asyncio.run(asked))


@devices.command("ping")
@config_option
@data_dir_option
@json_option
@click.argument("device_id", metavar="DEVICE")
def devices_ping(config_file: Path | None, data_dir: Path | None, as_json: bool, device_id: str) -> None:  # noqa: FBT001 as above
    """Ask the service whether it knows the device. Exit code 0 when it does."""
    sys.exit(asyncio.run(ping(config_of(config_file, data_dir), device_id, as_json=as_json)))
