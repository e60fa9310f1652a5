"""`telemetry-gateway devices`: machines that send telemetry or heartbeats."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from gateway.cli.groups import Group
from gateway.cli.options import config_of, config_option, data_dir_option, json_option


@click.group(cls=Group)
def devices() -> None:
    """Machines that send, and their enrolment at the service."""


@devices.command("list")
@config_option
@data_dir_option
@click.option("--state", multiple=True, help="Such as enrolled, offline, blocked; may be repeated.")
@click.option("--kind", multiple=True, help="workstation, server or gateway; may be repeated.")
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many; default 50.")
@json_option
def devices_list(config_file: Path | None, data_dir: Path | None, as_json: bool, **filters: Any) -> None:  # noqa: FBT001 a flag of the command line
    """List devices by id."""
    from gateway.cli.devices import Filters, print_list  # noqa: PLC0415 starting the other commands must not cost its imports

    sys.exit(asyncio.run(print_list(config_of(config_file, data_dir), Filters(**filters), as_json=as_json)))


@devices.command("show")
@config_option
@data_dir_option
@json_option
@click.argument("device_id", metavar="DEVICE")
def devices_show(config_file: Path | None, data_dir: Path | None, as_json: bool, device_id: str) -> None:  # noqa: FBT001 as above
    """Show a device: state, reason, enrolment, what it reported."""
    from gateway.cli.devices import print_device  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_device(config_of(config_file, data_dir), device_id, as_json=as_json)))


def _device_command(verb: str, meaning: str) -> None:
    @devices.command(verb, help=meaning)
    @config_option
    @data_dir_option
    @json_option
    @click.argument("device_id", metavar="DEVICE")
    def command(config_file: Path | None, data_dir: Path | None, as_json: bool, device_id: str) -> None:  # noqa: FBT001 as above
        from gateway.cli.devices import change  # noqa: PLC0415 as above

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
    from gateway.cli.devices import change, enroll_all  # noqa: PLC0415 as above

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
    from gateway.cli.devices import ping  # noqa: PLC0415 as above

    sys.exit(asyncio.run(ping(config_of(config_file, data_dir), device_id, as_json=as_json)))
