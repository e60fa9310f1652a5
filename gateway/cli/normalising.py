"""`normalise`: one payload through the real path, in a spool of its own that is gone afterwards."""

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import click

from gateway.common.contract.errors import GatewayError
from gateway.common.contract.intake import Receipt, Sender
from gateway.common.contract.unit_cost import Target
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.pipeline.assembly import Secrets, build_intake, event_rules, generic_mapping
from gateway.pipeline.intake import GatewayIntake
from gateway.pipeline.metrics import Settings as MetricsSettings
from gateway.pipeline.settle import Settler
from gateway.products.catalogue import SOURCES, sources_with
from gateway.products.source import Source
from gateway.rules.context import UserPolicy
from gateway.rules.tags import Tags
from gateway.serve.content_encoding import decoder_for
from gateway.usage.events.intake import Metering
from gateway.usage.pricing.file import PriceFile
from gateway.usage.pricing.prices import Prices
from spool.record import AI_TELEMETRY, UNIT_COST, USAGE_EVENTS
from spool.settings import SpoolSettings
from spool.sqlite.spool import SqliteSpool
from spool.unit_cost import Rules

SOURCE_PATH = re.compile(r"/v1/sources/([\w-]+)/?")
UNIT_COST_PATH = re.compile(r"/v1/unit-cost(?:/(allocation|metric)/([^/]+)(?:/(sum|replace|delete))?)?/?")
SENDER = Sender(key=None, peer="normalise")
DEFAULTS = Config()


def print_records(body: bytes, path: str, content_type: str, content_encoding: str, config: Config) -> int:
    """Records on stdout, rejections and the counts on stderr; 0 when the payload could be read."""
    try:
        records, receipt, outcomes = asyncio.run(
            records_of_payloads([(body, path, content_type, content_encoding)], config)
        )
    except GatewayError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    for record in records:
        click.echo(record.decode())
    for rejection in receipt.rejected:
        click.echo(f"rejected {rejection.position}: {rejection.reason}", err=True)
    counts = ", ".join(f"{outcome} {n}" for outcome, n in outcomes.items() if n)
    click.echo(counts or f"there is nothing in it that {path} reads", err=True)
    return 0


async def records_of_payloads(
    payloads: list[tuple[bytes, str, str, str]], config: Config = DEFAULTS
) -> tuple[list[bytes], Receipt, dict[str, int]]:
    """Of payloads (body, path, Content-Type, Content-Encoding) that arrive within one
    settle time: the records as they would be forwarded, what was received and rejected,
    and the items by outcome.
    """
    async with apart(Settler, config=config) as gateway:
        receipts = [await take(gateway.intake, *payload) for payload in payloads]
        records = await forwarded(gateway)
        items = sum(receipt.items for receipt in receipts)
        rejected = tuple(rejection for receipt in receipts for rejection in receipt.rejected)
        return records, Receipt(items, rejected), dict(gateway.spool.edge())


CountingT = TypeVar("CountingT", bound=Settler)


class Apart(NamedTuple, Generic[CountingT]):
    """What counts payloads, in a folder of its own that is gone afterwards."""

    spool: SqliteSpool
    counting: CountingT
    intake: GatewayIntake
    users: UserPolicy
    tags: Tags
    sources: Mapping[str, Source]


@asynccontextmanager
async def apart(
    kind: type[CountingT], now_ms: Callable[[], int] = wall_ms, *, config: Config = DEFAULTS
) -> AsyncIterator[Apart[CountingT]]:
    """A gateway without its network, counting by *kind*.

    Of *config*: the mapping of `generic`, prices, and what is kept of users.
    """
    with tempfile.TemporaryDirectory(prefix="telemetry-gateway-") as folder:
        spool = SqliteSpool(Path(folder), SpoolSettings(linger_ms=0, reserve_bytes=0), now_ms=now_ms)
        try:
            prices = Prices()
            if config.pricing.file is not None:
                PriceFile(config.pricing.file, prices)
            counting = kind(
                spool,
                settle_ms=0,
                window_ms=600_000,
                max_keys=100_000,
                now_ms=now_ms,
                metrics=MetricsSettings(settle_ms=0),
                price=prices.price,
            )
            secrets = Secrets(user=os.urandom(32), machine=b"")
            metering = Metering(spool.events(Rules()), event_rules(config), now_ms=now_ms)
            intake = build_intake(config, spool, counting, prices, metering, now_ms=now_ms, secrets=secrets)
            users = UserPolicy(config.attributes.user, secrets.user)
            sources = sources_with(generic_mapping(config))
            yield Apart(spool, counting, intake, users, Tags(config.tags), sources)
        finally:
            await spool.close()


async def forwarded(gateway: Apart[CountingT]) -> list[bytes]:
    """Settle all that was taken; the records as they would be forwarded."""
    await gateway.counting.settle_due(wall_ms() + 1)
    records: list[bytes] = []
    for lane in (AI_TELEMETRY, USAGE_EVENTS):
        while batch := await gateway.spool.freeze(lane, max_records=1000, max_bytes=1 << 22):
            records += batch.records
    totals = gateway.spool.unit_cost()
    while batch := await totals.freeze(UNIT_COST, max_records=1000, max_bytes=1 << 22):
        records += batch.records
        await totals.ack(batch)
    return records


def decompressed(body: bytes, content_encoding: str) -> bytes:
    """Raises GatewayError."""
    decode = decoder_for(content_encoding)
    return body if decode is None else b"".join(decode(body))


async def take(intake: GatewayIntake, body: bytes, path: str, content_type: str, content_encoding: str) -> Receipt:
    """Give one payload to the part of the intake that *path* names. Raises GatewayError."""
    plain = decompressed(body, content_encoding)
    json = "json" in content_type.lower()
    source = SOURCE_PATH.fullmatch(path)
    if source is not None:
        if source[1] not in SOURCES:
            raise click.UsageError(f"no source is named {source[1]!r}; `telemetry-gateway sources` lists them")
        return await intake.source(source[1], plain, sender=SENDER)
    totals = UNIT_COST_PATH.fullmatch(path)
    if totals is not None:
        target = None if totals[1] is None else Target(totals[1], totals[2], totals[3] or "sum")  # type: ignore[arg-type]  # as the pattern has them
        return await intake.unit_cost(target, plain, sender=SENDER)
    match path.rstrip("/").rpartition("/")[2]:
        case "traces":
            return await intake.traces(plain, json=json, sender=SENDER)
        case "logs":
            return await intake.logs(plain, json=json, sender=SENDER)
        case "metrics":
            return await intake.metrics(plain, json=json, sender=SENDER)
        case "events":
            return await intake.events(plain, sender=SENDER)
        case _:
            raise click.UsageError(
                f"nothing is known to read {path}; known are /v1/traces, /v1/logs, /v1/metrics, /v1/events,"
                " /v1/unit-cost, /v1/unit-cost/KIND/STREAM/OPERATION and /v1/sources/NAME"
            )
