"""The worker's side of `gateway.ingest.parsing.process`: reads payloads from its standard input until that ends, and answers each.

A frame is a list of jobs, and so are its answers, in the same order. A payload that can never be read is an answer, and so
is one that met another fault: the gateway reads that one itself.
"""

import gc
import marshal
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

from gateway.contract.errors import BadPayload
from gateway.ingest.parsing.calls import PARSERS
from gateway.ingest.parsing.points import pack_metrics
from gateway.ingest.parsing.process import HEADER, frame
from gateway.ingest.parsing.sources import parse_source
from gateway.normalise.context import NO_MACHINES, Context, Machines, UserPolicy
from gateway.pricing.file import PriceFile
from gateway.pricing.prices import Prices
from gateway.sources.catalogue import SOURCES, sources_with
from gateway.sources.source import Source

GC_YOUNGEST = 50_000


class Setup(TypedDict):
    """What does not change from payload to payload."""

    users: str
    user_secret: bytes
    price_file: str | None
    prefer_metrics: list[str]
    mapping: dict[str, Any] | None
    """Of `sources.generic`."""
    machine_secret: bytes
    """Empty where no machine is named."""
    price_list: bool
    own_device: str | None
    """As `gateway.normalise.context.Context` has it."""


Job = tuple[str, bool, bytes, int, str, str | None, str | None, str, tuple[tuple[str, str], ...]]
"""`traces`, `logs`, `metrics` or a source (`gateway.ingest.parsing.sources.kind_of`); whether it is JSON; the body; when it was received, in ms and as text; the inbound key's name, and what counting knows it by; the peer; what the key fixes."""
READERS: dict[str, Callable[..., tuple[Any, ...]]] = {**PARSERS, "metrics": pack_metrics}
Answer = tuple[Any, Any]
"""The fields of a Packed, PackedMetrics or PackedSource, and model -> calls without a price; or None, and why the payload can never be read; or None twice."""


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # they reach the whole group; the gateway decides when to stop
        signal.signal(number, signal.SIG_IGN)
    source, target = os.fdopen(0, "rb", buffering=1 << 16), os.fdopen(1, "wb", buffering=0)
    setup: Setup = read(source)
    users = UserPolicy(setup["users"], setup["user_secret"])  # type: ignore[arg-type]  # our own parent wrote it
    machines = Machines(setup["machine_secret"])
    prices = Prices(has_list=setup["price_list"])
    price_file = None if setup["price_file"] is None else PriceFile(Path(setup["price_file"]), prices)
    prefer_metrics = frozenset(setup["prefer_metrics"])
    sources = sources_with(setup["mapping"])
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNGEST, 50, 100)
    write(target, "ready")
    while True:
        jobs: list[Job] = read(source)
        if price_file is not None:
            price_file.look()
        write(
            target, [answer(job, users, prices, prefer_metrics, sources, machines, setup["own_device"]) for job in jobs]
        )


def answer(
    job: Job,
    users: UserPolicy,
    prices: Prices,
    prefer_metrics: frozenset[str],
    sources: Mapping[str, Source] = SOURCES,
    machines: Machines = NO_MACHINES,
    own_device: str | None = None,
) -> Answer:
    kind, json, body, received_at_ms, received_at, key, counted_as, peer, key_fixes = job
    context = Context(
        received_at_ms,
        received_at,
        key,
        counted_as,
        users=users,
        peer=peer,
        key_fixes=dict(key_fixes),
        machines=machines,
        own_device=own_device,
    )
    try:
        read = READERS.get(kind) or partial(parse_source, kind, sources=sources)
        packed = read(body, json=json, context=context, prices=prices, prefer_metrics=prefer_metrics)
    except BadPayload as error:
        return None, str(error)
    except Exception:  # noqa: BLE001 the gateway reads it itself and meets the same fault, where it is told without the payload's text
        return None, None
    unpriced = dict(prices.unpriced)
    prices.unpriced.clear()
    return tuple(packed), unpriced


def read(source: BinaryIO) -> Any:
    """The next frame. Ends the process when there is none: the gateway is gone."""
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        sys.exit(0)
    (size,) = HEADER.unpack(header)
    return marshal.loads(source.read(size))  # noqa: S302 our own parent wrote it


def write(target: BinaryIO, value: object) -> None:
    data = memoryview(frame(value))
    while data:
        data = data[target.write(data) :]


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the gateway is gone
        main()
