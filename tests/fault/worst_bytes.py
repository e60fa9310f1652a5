"""Looks for the bytes that cost the gateway's own process most CPU, for each of its decoders:
`python -m tests.fault.worst_bytes --minutes 10 --seed 7 --transport http --reader native`.

Bodies are made of the grammar of their format (`tests.support.grammars`): kinds of values,
lengths, nesting, repetition, order. Each is sent to a real gateway, and what costs more for its
bytes than the last is changed further. Prints a line of JSON for each worst one, in the end the
worst of each decoder as large as it may be, and a table.

The cost is the CPU of the gateway's own process, less that of an honest sender who sends 130 kB
all the while, `REQUEST_S`, and `COUNTED_S` or `ITEM_S` for each item that the body brought: those
are limited by `limits.max_items`. Exit code 1 when a body costs more than `SMALL_S` and more than
`BYTE_US` a byte, when the event loop is busy for more than `STALL_S`, when the honest sender waits
for more than `HONEST_S`, again beside the same bodies, or when a process that reads bodies ended.
A body counts when it costs as much three times in a row.
"""

import argparse
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from gateway.common.in_thread import HERE_BYTES
from tests.support.gateway_process import GatewayProcess, Upstream
from tests.support.grammars.decoders import Decoder, decoders_of
from tests.support.grammars.tree import Node, Shape, changed
from tests.support.large_sender import LargeSender
from tests.support.process_cpu import cpu_s
from tests.support.raw_posts import Posts, Sent
from tests.support.stillness import Stillness

BYTE_US = 0.05
SMALL_S = 0.03
"""What any body may cost: the gateway reads small ones itself, and decompresses 1 024 members."""
REQUEST_S = 0.004
COUNTED_S = 60e-6
ITEM_S = 15e-6
"""An item that is rejected or ignored."""
STALL_S = 0.05
HONEST_S = 0.5
TRIES = 3
FRESH = 25
"""Bodies as senders post them, of each decoder, with which the search begins."""
KEPT_SHAPES = 8
"""Of each decoder; the next one is made of one of them."""
SIZES = (HERE_BYTES, 70_000, 250_000, 1_000_000, 4_000_000)
LARGEST = 16_000_000
"""Of the bodies that the worst of a decoder are tried with in the end."""
SETTLED_S = 0.01
"""CPU in 50 ms at which nothing is left of a body."""
LOOKS = 40
CONFIG = {
    "auth": "none",
    "listen": {**dict.fromkeys(("http", "grpc", "admin"), "127.0.0.1:0"), "service": "off"},
}
NOWHERE = Upstream("http://127.0.0.1:9", "tgk_none")
"""What is kept is not sent on: that costs by the record, later."""


class Cost(NamedTuple):
    n_bytes: int
    """Of the body, plain or as it was sent, whichever is longer."""
    net_s: float
    """CPU of the own process for its bytes."""
    stall_s: float
    """The longest time for which the event loop answered no one."""
    status: int
    counted: int
    others: int
    cpu_s: float
    took_s: float

    @property
    def us(self) -> float:
        """CPU for a byte."""
        return self.net_s * 1e6 / self.n_bytes

    def faults(self) -> Iterator[str]:
        """What is not as it must be."""
        if self.net_s > max(SMALL_S, BYTE_US * 1e-6 * self.n_bytes):
            yield f"{self.net_s * 1e3:.0f} ms, {self.us:.3f} us a byte"
        if self.stall_s > STALL_S:
            yield f"the event loop is busy for {self.stall_s * 1e3:.0f} ms"
        if self.status >= 500:
            yield f"answered {self.status}"


class Found(NamedTuple):
    cost: Cost
    shape: Shape


class Search:
    """The worst bodies of one decoder so far."""

    def __init__(self, decoder: Decoder, chance: Random) -> None:
        self.decoder = decoder
        self.worst: list[Found] = []
        self.tried = 0
        self._chance = chance
        self._sizes = [size for size in SIZES if size <= decoder.max_bytes]
        self._fresh = chance.sample(list(decoder.seeds), min(FRESH, len(decoder.seeds)))

    def next(self) -> tuple[Shape, int]:
        """The next body to try, and its size."""
        self.tried += 1
        size = self._chance.choice(self._sizes)
        if self._fresh:
            return self._fresh.pop(), size
        known = [found.shape for found in self.worst]
        if not known or self._chance.random() < 0.2:
            known = list(self.decoder.seeds)
        return changed(self._chance.choice(known), self.decoder.grammar, self._chance, self.decoder.seeds), size

    def note(self, found: Found) -> None:
        self.worst = sorted((*self.worst, found), key=lambda each: each.cost.us, reverse=True)[:KEPT_SHAPES]

    def unit(self, shape: Shape) -> bytes:
        """The beginning of what fills a body of *shape*."""
        return self.decoder.grammar.write(Node(shape.root.kind, below=(shape.unit()._replace(times=1),)))[:120]


class Done(NamedTuple):
    """A body that was sent."""

    began_s: float
    ended_s: float
    made: Callable[[], Sent]


class Trial:
    """One gateway, and what bodies cost it."""

    def __init__(self, gateway: GatewayProcess, transport: str) -> None:
        self._gateway = gateway
        self._posts = Posts(gateway, transport)
        self._rest_cpu = 0.0
        """CPU a second of the gateway with nothing but the honest sender."""
        self.done: list[Done] = []

    def rest(self, seconds: float = 5.0) -> None:
        """Learn what the gateway costs with nothing but the honest sender."""
        began_s, cpu = time.monotonic(), self._cpu_s()
        with Stillness(self._gateway):
            time.sleep(seconds)  # what is measured
        self._rest_cpu = (self._cpu_s() - cpu) / (time.monotonic() - began_s)

    def cost(self, sent: Sent) -> Cost:
        before = self._items()
        began_s, cpu = time.monotonic(), self._cpu_s()
        with Stillness(self._gateway) as stillness:
            status = self._posts.post(sent)
            took_s = time.monotonic() - began_s
            self._settle()
        spent_s = self._cpu_s() - cpu
        rest_s = self._rest_cpu * (time.monotonic() - began_s)
        counted, others = (max(0, now - then) for now, then in zip(self._items(), before, strict=True))
        net_s = spent_s - rest_s - REQUEST_S - counted * COUNTED_S - others * ITEM_S
        n_bytes = max(1, len(sent.body), len(sent.plain))
        return Cost(n_bytes, max(0.0, net_s), stillness.longest_s, status, counted, others, spent_s, took_s)

    def confirmed(self, sent: Sent, cost: Cost) -> Cost:
        """The least of several tries: the machine may be at other work."""
        for _ in range(TRIES - 1):
            again = self.cost(sent)
            cost = again._replace(net_s=min(cost.net_s, again.net_s), stall_s=min(cost.stall_s, again.stall_s))
        return cost

    def _cpu_s(self) -> float:
        return cpu_s(self._gateway.process.pid)

    def _settle(self) -> None:
        """Wait until there is hardly any work left."""
        for _ in range(LOOKS):
            cpu = self._cpu_s()
            time.sleep(0.05)  # what is measured
            if self._cpu_s() - cpu < SETTLED_S:
                return

    def _items(self) -> tuple[int, int]:
        """Counted and other items of all requests so far, the honest sender's too."""
        edge = self._gateway.status()["edge"]
        counted = edge["kept"] + edge["duplicate"]
        return counted, edge["received"] - counted


def search(gateway: GatewayProcess, options: argparse.Namespace) -> list[str]:
    """What is not as it must be; prints what it finds."""
    chance, faults = Random(options.seed), []
    searches = [Search(decoder, chance) for decoder in decoders_of(options.transport) if options.only in decoder.name]
    trial = Trial(gateway, options.transport)
    with LargeSender(gateway, options.transport) as honest:
        trial.rest()
        ends_s = time.monotonic() + 60 * options.minutes
        while time.monotonic() < ends_s:
            for each in searches:
                faults += tried(trial, each)
        for each in searches:
            faults += tried_large(trial, each)
    faults += waits_that_return(trial, honest, gateway, options.transport)
    faults += [f"the honest sender was answered {status}" for status in honest.others]
    faults += [line[28:] for line in gateway.log.read_text().splitlines() if "worker ended" in line]
    for each in searches:
        worst = max((found.cost.us for found in each.worst if found.cost.n_bytes > HERE_BYTES), default=None)
        say({"decoder": each.decoder.name, "tried": each.tried, "worst": worst and round(worst, 4)})
    say({"honest": {"sent": honest.sent, "slowest_s": round(honest.slowest_s, 3)}})
    return faults


def tried(trial: Trial, each: Search) -> Iterator[str]:
    """Send the next body; what is wrong with what it cost."""
    shape, size = each.next()
    made = partial(each.decoder.sent, shape, size)
    sent, began_s = made(), time.monotonic()
    cost, worst_us = trial.cost(sent), max((found.cost.us for found in each.worst), default=0.0)
    if cost.us > worst_us or any(cost.faults()):
        cost = trial.confirmed(sent, cost)
    trial.done.append(Done(began_s, time.monotonic(), made))
    if cost.us > worst_us or any(cost.faults()):
        say(line_of(each, cost, sent, shape))
    each.note(Found(cost, shape))
    yield from (f"{each.decoder.name}: {fault}" for fault in cost.faults())


def tried_large(trial: Trial, each: Search) -> Iterator[str]:
    """The worst of a decoder, as large as they may be."""
    for found in each.worst[:2]:
        made = partial(each.decoder.sent, found.shape, min(LARGEST, each.decoder.max_bytes))
        sent, began_s = made(), time.monotonic()
        cost = trial.confirmed(sent, trial.cost(sent))
        trial.done.append(Done(began_s, time.monotonic(), made))
        say(line_of(each, cost, sent, found.shape))
        yield from (f"{each.decoder.name}: {fault}" for fault in cost.faults())


def waits_that_return(trial: Trial, honest: LargeSender, gateway: GatewayProcess, transport: str) -> Iterator[str]:
    """For each wait that was too long, the bodies that were under way are sent again: the machine
    may have been at other work.
    """
    for began_s, waited_s in honest.waits:
        if waited_s <= HONEST_S:
            continue
        bodies = [each.made() for each in trial.done if each.began_s < began_s + waited_s and began_s < each.ended_s]
        say({"waited_s": round(waited_s, 2), "beside": [described(sent) for sent in bodies]})
        with LargeSender(gateway, transport) as again:
            for sent in bodies * TRIES:
                trial.cost(sent)
        if again.slowest_s > HONEST_S:
            yield f"an honest body waited for {waited_s:.2f} s, and again for {again.slowest_s:.2f} s"


def described(sent: Sent) -> str:
    return f"{len(sent.plain)} bytes, {len(sent.body)} on the wire: {sent.plain[:60]!r}"


def line_of(each: Search, cost: Cost, sent: Sent, shape: Shape) -> dict[str, object]:
    return {
        "decoder": each.decoder.name,
        "us": round(cost.us, 4),
        "cpu_s": round(cost.cpu_s, 3),
        "stall_s": round(cost.stall_s, 3),
        "took_s": round(cost.took_s, 2),
        "bytes": len(sent.plain),
        "wire": len(sent.body),
        "status": cost.status,
        "counted": cost.counted,
        "others": cost.others,
        "begins": repr(sent.plain[:60]),
        "repeats": repr(each.unit(shape)),
    }


def say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.worst_bytes", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--transport", choices=("http", "grpc"), default="http")
    parser.add_argument("--reader", choices=("native", "python"), default="native")
    parser.add_argument("--only", default="", help="decoders with this in their name")
    options = parser.parse_args()
    say({"seed": options.seed, "transport": options.transport, "reader": options.reader})
    os.environ["TELEMETRY_GATEWAY_READER"] = options.reader
    with (
        tempfile.TemporaryDirectory() as folder,
        GatewayProcess(Path(folder), config=CONFIG, upstream=NOWHERE, settle="10m") as gateway,
    ):
        faults = search(gateway, options)
    say({"faults": sorted(set(faults))})
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
