"""`normalise --explain`: what became of each item of one payload, and why.

The explaining is `gateway.pipeline.explain`'s.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click
import orjson

from gateway.cli.normalising import DEFAULTS, SENDER, apart, decompressed, forwarded, take
from gateway.common.contract.errors import GatewayError
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.pipeline.explain.explain import EXPLAINERS, Sent, explainer_of, explanations
from gateway.pipeline.explain.outcomes import further_reports
from gateway.pipeline.explain.story import Explanation, Single, as_object, lines
from gateway.pipeline.explain.watch import WatchedCounting
from gateway.products.source import SOURCES_PATH, Source
from gateway.rules.context import Context
from spool.clock import rfc3339_ms


class Explained(NamedTuple):
    items: list[Explanation]
    records: list[bytes]
    edge: dict[str, int]
    """Items by outcome."""
    reasons: dict[str, int]
    """`<outcome>.<reason>` -> items."""


def print_explanations(
    body: bytes, path: str, content_type: str, content_encoding: str, config: Config, *, as_json: bool
) -> int:
    """Every item on stdout, the counts on stderr; 0 when the payload could be read."""
    if explainer_of(path) is None:
        known = ", ".join([*(f"/v1/{x}" for x in EXPLAINERS), f"{SOURCES_PATH}/NAME"])
        raise click.UsageError(f"{path} cannot be explained; known are {known}")
    try:
        explained = asyncio.run(explain_payloads([(body, path, content_type, content_encoding)], config))
    except GatewayError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    for text in printed(explained.items, as_json=as_json):
        click.echo(text)
    counts = ", ".join(f"{outcome} {n}" for outcome, n in Counter(x.outcome for x in explained.items).items())
    click.echo(
        f"received {len(explained.items)}, {counts}" if counts else f"there is nothing in it that {path} reads",
        err=True,
    )
    return 0


def printed(items: Sequence[Explanation], *, as_json: bool) -> list[str]:
    return [_json(item) if as_json else "\n".join(lines(item)) + "\n" for item in items]


def _json(item: Explanation) -> str:
    return orjson.dumps(as_object(item)).decode()


async def explain_payloads(payloads: Sequence[tuple[bytes, str, str, str]], config: Config = DEFAULTS) -> Explained:
    """Each item of several (body, path, Content-Type, Content-Encoding) that arrive within one
    settle time. Raises GatewayError.
    """
    now_ms = wall_ms()
    taken: list[list[Single]] = []
    async with apart(WatchedCounting, lambda: now_ms, config=config) as gateway:
        context = Context(now_ms, rfc3339_ms(now_ms), users=gateway.users, peer=SENDER.peer, tags=gateway.tags)
        reports = gateway.counting.ledger.reports
        for number, payload in enumerate(payloads):
            receipt = await take(gateway.intake, *payload)
            singles = _singles(payload, number, context, gateway.sources)
            taken.append([*singles, *further_reports(reports, receipt.items - len(singles), number)])
        records = await forwarded(gateway)
        counting, spool = gateway.counting, gateway.spool
        items = explanations(taken, counting.ledger, counting.aggregates, records, context)
        return Explained(items, records, dict(spool.edge()), dict(spool.reasons()))


def _singles(
    payload: tuple[bytes, str, str, str], number: int, context: Context, sources: Mapping[str, Source]
) -> list[Single]:
    body, path, content_type, content_encoding = payload
    explain = explainer_of(path, sources)
    if explain is None:
        raise click.UsageError(f"{path} cannot be explained")
    plain = decompressed(body, content_encoding)
    return list(explain(Sent(plain, "json" in content_type.lower(), number), context))
