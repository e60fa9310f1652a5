"""Related reports of every shape, size, order and split, to find one that costs more than its
share: `python -m tests.fault.worst_clusters --minutes 10 --seed 7`.

Each round builds one load of up to `MAX_REPORTS` and counts it in a real spool and ledger, beside
as many unrelated reports in the same requests. Prints a line of JSON for the worst rounds of each
shape: `work` is the CPU time for one report over that of an unrelated one, `stall_s` the longest
time for which nothing else ran on the event loop. Exit code 1 when `work` is over `WORK`, when
`stall_s` is over `STALL_S`, or when a total is wrong.
"""

import argparse
import asyncio
import json
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gateway.pipeline.core import PIECE_CALLS
from gateway.rules.call import Call
from tests.support.calls import call, link
from tests.support.spool_rig import SETTLE_MS, Rig

WORK = 50.0
"""CPU time for a report of a cluster over that of an unrelated one."""
STALL_S = 0.5
ATTEMPTS = 3
"""What a busy machine adds does not repeat; what a shape costs does."""
LOOK_S = 0.005
MAX_REPORTS = 12_000
FEWEST = 600


class Load(NamedTuple):
    """Calls and links to send, and how many calls they are; None where only the most is known."""

    calls: Sequence[Call]
    truth: int | None
    links: Sequence[bytes] = ()


def unrelated(n: int, chance: random.Random) -> Load:
    return Load([call(f"s{i}", trace=f"t{i}", response=f"r{i}", at=(i, i + 900)) for i in range(n)], n)


def one_response(n: int, chance: random.Random) -> Load:
    """A server whose every answer has one id; the times lie close together or apart."""
    step = chance.choice((0, 1, 50, 2000))
    scopes = chance.choice((1, 2, 40))
    calls = [
        call(f"s{i}", trace=f"t{i}", response="r", scope=f"x{i % scopes}", tokens=(i + 1, 5), at=_at(i, step))
        for i in range(n)
    ]
    return Load(calls, n)


def a_few_responses(n: int, chance: random.Random) -> Load:
    """Ids that are used again after a while, as those of a cache are."""
    ids = chance.choice((3, 20, 200))
    calls = [call(f"s{i}", trace=f"t{i}", response=f"r{i % ids}", tokens=(i + 1, 5), at=_at(i, 50)) for i in range(n)]
    return Load(calls, n)


def one_call(n: int, chance: random.Random) -> Load:
    """One call that is reported over and over."""
    scopes = chance.choice((1, 2, 300))
    return Load([call(f"s{i}", trace=f"t{i}", response="r", scope=f"x{i % scopes}") for i in range(n)], 1)


def one_request(n: int, chance: random.Random) -> Load:
    scopes = chance.choice((2, 30, n))
    calls = [
        call(f"s{i}", trace=f"t{i}", request="q", scope=f"x{i % scopes}", tokens=(i + 1, 5), at=_at(i, 3))
        for i in range(n)
    ]
    return Load(calls, n)


def requests_and_responses(n: int, chance: random.Random) -> Load:
    """Each report is tied to the one before by one id, to the next by the other."""
    calls = [
        call(
            f"s{i}",
            trace=f"t{i}",
            response=f"r{i // 2}",
            request=f"q{(i + 1) // 2}",
            scope=f"x{i % 3}",
            service=f"v{i % 3}",
            tokens=(i + 1, 5),
        )
        for i in range(n)
    ]
    return Load(calls, None)


def co_instrumented(n: int, chance: random.Random) -> Load:
    """Co-instrumented spans of calls that are all equal."""
    step = chance.choice((0, 1, 20))
    calls = [call(f"s{i}", trace=f"t{i // 2}", scope=f"x{i % 2}", at=_at(i // 2, step)) for i in range(n // 2 * 2)]
    return Load(calls, n // 2)


def star(n: int, chance: random.Random) -> Load:
    calls = [call(f"s{i}", parent="root", tokens=(i + 1, 20)) for i in range(n)]
    tokens = chance.choice(((sum(range(1, n + 1)), 20 * n), (None, None), (3, 3)))
    return Load([call("root", tokens=tokens), *calls], n)


def chain(n: int, chance: random.Random) -> Load:
    """Calls below one another; each states the same."""
    return Load([call(f"s{i}", parent=f"s{i - 1}" if i else "") for i in range(n)], 1)


def ladder(n: int, chance: random.Random) -> Load:
    """Calls below one another through spans that are no calls, each of other usage."""
    calls = [call(f"s{i}", parent=f"l{i}", tokens=(n - i + 1, 5)) for i in range(n)]
    links = [link("t", f"l{i}", f"s{i - 1}" if i else "") for i in range(n)]
    return Load(calls, None, links)


def tree(n: int, chance: random.Random) -> Load:
    width = chance.choice((2, 5, 40))
    return Load([call(f"s{i}", parent=f"s{(i - 1) // width}" if i else "") for i in range(n)], None)


def links_only(n: int, chance: random.Random) -> Load:
    """One call above spans that are none."""
    links = [link("t", f"l{i}", chance.choice(("root", f"l{i - 1}")) if i else "root") for i in range(n)]
    return Load([call("root"), call("other", trace="u")], 2, links)


def ancestors_of_a_star(n: int, chance: random.Random) -> Load:
    above = n // 2
    calls = [call(f"s{i}", parent=f"s{i - 1}" if i else "") for i in range(above)]
    return Load([*calls, *(call(f"leaf{i}", parent=f"s{above - 1}") for i in range(n - above))], n - above)


def raw_spans(n: int, chance: random.Random) -> Load:
    repeats = [
        call(f"s{i}", parent="root", repeats=True, scope="litellm", response=f"r{i}", tokens=(i + 1, 3))
        for i in range(n)
    ]
    return Load([call("root", response="r"), *repeats], n + 1)


def logs_in_one_span(n: int, chance: random.Random) -> Load:
    logs = [call("", event=f"e{i}", parent="root", log=True, tokens=(i + 1, 3), at=_at(i, 1)) for i in range(n)]
    return Load([call("root", tokens=(5, 5)), *logs], None)


def versions(n: int, chance: random.Random) -> Load:
    """Spans that are reported again up to ten times."""
    calls = [call(f"s{i % max(1, n // 10)}", tokens=(i + 1, 5)) for i in range(n)]
    return Load(calls, max(1, n // 10))


def product_ways(n: int, chance: random.Random) -> Load:
    """Two ways to report of one product in one session."""
    calls = [
        call(f"s{i}", trace=f"t{i}", product="p", session="one", rank=1 + i % 2, tokens=(i + 1, 5), log=bool(i % 2))
        for i in range(n)
    ]
    return Load(calls, None)


def anything(n: int, chance: random.Random) -> Load:
    """All relations at once, between reports chosen at random."""
    calls = [
        call(
            f"s{i}",
            trace=f"t{chance.randrange(3)}",
            parent=f"s{chance.randrange(n)}" if chance.random() < 0.6 else "",
            response=f"r{chance.randrange(n // 3)}" if chance.random() < 0.5 else None,
            request=f"q{chance.randrange(n // 3)}" if chance.random() < 0.3 else None,
            scope=f"x{chance.randrange(3)}",
            tokens=(chance.randrange(1, 5), 5),
            at=_at(chance.randrange(n), 7),
            log=chance.random() < 0.1,
            repeats=chance.random() < 0.1,
        )
        for i in range(n)
    ]
    return Load(calls, None)


SHAPES: tuple[Callable[[int, random.Random], Load], ...] = (
    one_response,
    a_few_responses,
    one_call,
    one_request,
    requests_and_responses,
    co_instrumented,
    star,
    chain,
    ladder,
    tree,
    links_only,
    ancestors_of_a_star,
    raw_spans,
    logs_in_one_span,
    versions,
    product_ways,
    anything,
)


def _at(i: int, step_ms: int) -> tuple[int, int]:
    return i * step_ms, i * step_ms + 900


class Outcome(NamedTuple):
    cpu_s: float
    stall_s: float
    billed: int


async def counted(load: Load, requests: Sequence[int], *, is_gradual: bool, folder: Path) -> Outcome:
    """Send *load* in requests of that many reports and settle it.

    *is_gradual*: a tenth of the settle time passes after each.
    """
    rig = await Rig.opened(folder)
    stalls = _Stalls()
    watching = asyncio.create_task(stalls.watch())
    began = time.process_time()
    at, links = 0, list(load.links)
    share = -(-len(links) // max(1, len(requests)))
    for size in requests:
        await rig.send(*load.calls[at : at + size], links=links[:share])
        at, links = at + size, links[share:]
        if is_gradual:
            await rig.settle(after_ms=SETTLE_MS // 10)
    await rig.settle()
    await rig.settle()
    cpu_s = time.process_time() - began
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    billed = (await rig.totals())[0]
    await rig.close()
    return Outcome(cpu_s, stalls.longest_s, billed)


class _Stalls:
    """The most CPU between two turns of the event loop."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        while True:
            began = time.process_time()
            await asyncio.sleep(LOOK_S)
            self.longest_s = max(self.longest_s, time.process_time() - began)


def _split(n: int, chance: random.Random) -> list[int]:
    size = chance.choice((25, 400, PIECE_CALLS))
    return [min(size, n - at) for at in range(0, n, size)]


def _in_order(calls: Sequence[Call], order: str, chance: random.Random) -> list[Call]:
    found = list(calls) if order != "backwards" else list(reversed(calls))
    if order == "shuffled":
        chance.shuffle(found)
    return found


async def one_round(shape: Callable[[int, random.Random], Load], chance: random.Random) -> dict[str, object]:
    """Count one load of that shape; what was chosen and seen."""
    n = int(FEWEST * (MAX_REPORTS / FEWEST) ** chance.random())
    order = chance.choice(("forwards", "backwards", "shuffled"))
    is_gradual = chance.random() < 0.3
    load = shape(n, chance)
    calls = _in_order(load.calls, order, chance)
    requests = _split(len(calls), chance)
    items = len(calls) + len(load.links)
    sizes = [min(requests[0], items - at) for at in range(0, items, requests[0])]
    plain = unrelated(items, chance)
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory() as folder:
            sent = load._replace(calls=calls)
            related = await counted(sent, requests, is_gradual=is_gradual, folder=Path(folder, "a"))
            beside = await counted(plain, sizes, is_gradual=is_gradual, folder=Path(folder, "b"))
        work = related.cpu_s / beside.cpu_s
        if work <= WORK and related.stall_s <= STALL_S:
            break
    seen: dict[str, object] = {
        "shape": shape.__name__,
        "n": n,
        "order": order,
        "request": requests[0],
        "gradual": is_gradual,
        "work": round(work, 2),
        "us": round(related.cpu_s / items * 1e6),
        "stall_s": round(related.stall_s, 3),
        "billed": related.billed,
    }
    if load.truth is not None and not is_gradual and related.billed != load.truth:
        seen["fault"] = f"{related.billed} calls for {load.truth}"
    elif work > WORK:
        seen["fault"] = "work"
    elif related.stall_s > STALL_S:
        seen["fault"] = "stall"
    return seen


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def main(minutes: float, seed: int, only: str | None) -> int:
    chance = random.Random(seed)
    _say({"seed": seed})
    worst: dict[str, float] = {}
    faults = rounds = 0
    ends = time.monotonic() + 60 * minutes
    shapes = [shape for shape in SHAPES if only in {None, shape.__name__}]
    while time.monotonic() < ends:
        seen = await one_round(shapes[rounds % len(shapes)], chance)
        rounds += 1
        faults += "fault" in seen
        if "fault" in seen or seen["work"] > worst.get(str(seen["shape"]), 0):  # type: ignore[operator]
            worst[str(seen["shape"])] = max(worst.get(str(seen["shape"]), 0), seen["work"])  # type: ignore[call-overload]
            _say(seen)
    _say({"rounds": rounds, "faults": faults, "worst": worst})
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--shape", help="only this one")
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.minutes, options.seed, options.shape)))
