"""`connect`: a key for a sender, what to paste, and what became of its first call."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import click

from gateway.cli.admin_client import ask_gateway
from gateway.cli.asking import person
from gateway.cli.keys import KeyPlace, create_or_ask
from gateway.cli.sources import print_snippets, unknown_source
from gateway.common.contract.scopes import SEND_AI_TELEMETRY
from gateway.common.printable import harmless
from gateway.config.model import Config
from gateway.config.values import TcpAddress
from gateway.fleet.senders.first_call import WAITING_REMEDY, FirstCall, first_call
from gateway.operate import calls, senders
from gateway.operate.operation import AnyOperation
from gateway.operate.parts import Running
from gateway.operate.sender_addresses import Addresses, addresses, connection_at
from spool.clock import rfc3339_ms
from spool.data_lock import held_by
from spool.errors import SpoolLocked

LOOK_S: Final = 1.0
DONE: Final = "arrived"


class Asked(NamedTuple):
    """What the command line states."""

    sender: str
    key_name: str | None
    address: str | None
    grpc_address: str | None
    wait_s: float
    by: str | None
    is_sure: bool
    as_json: bool


async def connect(config: Config, asked: Asked) -> int:
    """0 once a call with tokens arrived, 1 where none did in time. Raises ClickException."""
    at = addresses_for(config, asked)
    if connection_at(asked.sender, at) is None:
        raise unknown_source(asked.sender)
    locked = running_gateway(config)
    key = await made_key(config, asked)
    found = connection_at(asked.sender, at, key["secret"])
    assert found is not None  # noqa: S101 it was found above
    if asked.as_json:
        click.echo(json.dumps({"key": key["name"], "snippets": found["snippets"], "missing": found["missing"]}))
    else:
        print_connection(found, key["name"])
    return await wait(config, locked, key, asked)


def addresses_for(config: Config, asked: Asked) -> Addresses:
    """As senders on this machine reach the listeners, unless the command line has others.

    Raises UsageError where a listener has a port that only the gateway knows.
    """
    at = addresses(Running(config, config.listen.http, config.listen.grpc), "127.0.0.1")
    for option, listener, given in (
        ("--address", config.listen.http, asked.address),
        ("--grpc-address", config.listen.grpc, asked.grpc_address),
    ):
        if given is None and isinstance(listener, TcpAddress) and listener.port == 0:
            raise click.UsageError(f"the configuration has port 0: name the gateway's address with {option}")
    return at._replace(http=(asked.address or at.http).rstrip("/"), grpc=asked.grpc_address or at.grpc)


def running_gateway(config: Config) -> SpoolLocked:
    """The lock that it holds. Raises ClickException where none runs."""
    owner = held_by(config.data_dir)
    if owner is None:
        raise click.ClickException(f"no gateway runs on {config.data_dir}: start it with `telemetry-gateway run`")
    return SpoolLocked(f"{config.data_dir} is used by process {owner}")


async def made_key(config: Config, asked: Asked) -> dict[str, Any]:
    name = asked.key_name or f"{asked.sender} {rfc3339_ms(time.time_ns() // 1_000_000)[:19]}"
    body = {"name": name, "managed": [SEND_AI_TELEMETRY], "by": person(asked.by)}
    return await create_or_ask(KeyPlace(config, of_service=False), body, is_sure=asked.is_sure)


def print_connection(found: dict[str, Any], key: str) -> None:
    click.echo(f"{found['title']}: paste this. It has the new key “{key}”, whose secret is shown only now.")
    for each in found["missing"]:
        click.echo(f"{each}: put an address that the sender reaches in its place.", err=True)
    print_snippets(found["snippets"])
    click.echo(f"\nMore: docs/senders/{found['name']}.md\n")


# ---- the first call


async def wait(config: Config, locked: SpoolLocked, key: dict[str, Any], asked: Asked) -> int:
    say = say_json if asked.as_json else say_text
    if not asked.as_json:
        click.echo("Waiting for the first call (Ctrl-C ends; the key stays) ...", err=True)
    last = FirstCall("waiting", "Nothing arrived.", WAITING_REMEDY)
    try:
        async with asyncio.timeout(asked.wait_s):
            async for last in looks(config, locked, key):
                if last.state != "waiting":
                    say(last)
                if last.state == DONE:
                    return 0
    except TimeoutError:
        if last.state == "waiting" or asked.as_json:
            say(last)
    return 1


async def looks(config: Config, locked: SpoolLocked, key: dict[str, Any]) -> AsyncIterator[FirstCall]:
    """What became of the first call, whenever that changed."""
    before = None
    while True:
        found = await look(config, locked, key)
        if found != before:
            yield found
        before = found
        await asyncio.sleep(LOOK_S)


async def look(config: Config, locked: SpoolLocked, key: dict[str, Any]) -> FirstCall:
    async def ask(operation: AnyOperation, *query: tuple[str, str]) -> dict[str, Any]:
        return await ask_gateway(config, locked, operation, {}, query, None)

    settled = await ask(calls.LIST, ("key", key["name"]), ("limit", "20"))
    own = await ask(senders.LIST, ("key", key["name"]), ("limit", "100"))
    refused = await ask(senders.LIST, ("warning", "refused"), ("limit", "100"))
    return first_call(key["name"], key["created_at"], [*own["senders"], *refused["senders"]], settled["calls"])


def say_json(found: FirstCall) -> None:
    click.echo(json.dumps(found._asdict()))


def say_text(found: FirstCall) -> None:
    click.echo(found.text)
    if found.call is not None:
        for name, value in found.figures():
            click.echo(f"  {name:<14} {harmless(value)}")
    if found.remedy:
        click.echo(f"  -> {found.remedy}")
