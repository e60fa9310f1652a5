"""The parser process: parses payloads from its standard input until that ends,
and answers each (`frames`).
"""

import gc
import marshal
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from gateway.common.contract.errors import BadPayload, Overloaded, TooLarge
from gateway.common.signals import RELOAD, STOP, ignore
from gateway.common.traceback_summary import places
from gateway.pipeline.parsing.cpu_limit import end_limit, limit_cpu
from gateway.pipeline.parsing.event_frames import read_events, read_records
from gateway.pipeline.parsing.frames import BEHIND, UNFORESEEN, Answer, Job, Setup, opened, pack
from gateway.pipeline.parsing.parse import ParseRules, parse
from gateway.pipeline.parsing.pipe import HEADER, frame
from gateway.products.catalogue import add_plugged_sources, sources_with
from gateway.read.limits import ParseLimits
from gateway.rules.context import Context, Machines, UserPolicy
from gateway.rules.tags import Tags
from gateway.usage.events.checks import EventRules
from gateway.usage.pricing.file import PriceFile
from gateway.usage.pricing.own import BadPriceFile
from gateway.usage.pricing.prices import Prices

GC_YOUNGEST: Final = 50_000


class Reader:
    """What does not change from body to body."""

    def __init__(self, setup: Setup) -> None:
        limits = ParseLimits(*setup["limits"])
        route, replaces_brackets, dimensions = setup["events"]
        self.prices = Prices(has_list=setup["price_list"])
        self.price_file = None if setup["price_file"] is None else PriceFile(Path(setup["price_file"]), self.prices)
        self._events = EventRules(route, replaces_brackets, frozenset(dimensions), limits)  # type: ignore[arg-type]  # our own parent wrote it
        self._context = Context(
            0,
            "",
            users=UserPolicy(setup["users"], setup["user_secret"]),  # type: ignore[arg-type]  # as above
            machines=Machines(setup["machine_secret"]),
            own_device=setup["own_device"],
            limits=limits,
            tags=Tags(setup["tags"]),
        )
        self._rules = ParseRules(self.prices, frozenset(setup["prefer_metrics"]), sources_with(setup["mapping"]))

    def read(self, job: Job) -> tuple[Any, ...]:
        """What *job* came to, packed. Raises what its decoder raises."""
        match job.kind:
            case "payload":
                return pack(parse(*opened(job, self._context), self._rules))
            case "events":
                return read_events(job, self._events)
            case "records":
                return read_records(job, self._events)
            case _:
                raise KeyError(job.kind)


def main() -> None:
    """The parser's process: frames from standard input, answers
    to standard output, until its end.
    """
    for number in (*STOP, RELOAD):  # they reach the whole group; the gateway decides when to stop
        ignore(number)
    source, target = os.fdopen(0, "rb", buffering=1 << 16), own_output()
    add_plugged_sources()
    setup: Setup = read(source)
    if hasattr(os, "nice"):
        os.nice(setup["niceness"])
    reader = Reader(setup)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNGEST, 50, 100)
    write(target, "ready")
    while True:
        jobs: list[Any] = read(source)
        if jobs[-1] == BEHIND:
            jobs = [(jobs[0][0], read_bytes(source), jobs[0][2])]
        if reader.price_file is not None:
            reload_if_changed(reader.price_file)
        write(target, [answer(Job(*job), reader) for job in jobs])
        del jobs  # else a body stays until the next one


def own_output() -> BinaryIO:
    """Standard output for frames alone: what a library prints may quote a payload, and is lost."""
    nowhere = os.open(os.devnull, os.O_WRONLY)  # before the copy, which else is standard error where that is closed
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(nowhere, 1)
    return output


def reload_if_changed(price_file: PriceFile) -> None:
    """As the gateway's own process does, which logs it."""
    with suppress(BadPriceFile, OSError):
        if price_file.is_changed():
            price_file.read()


def answer(job: Job, reader: Reader) -> Answer:
    """The answer to one job."""
    limit_cpu(len(job.body))
    try:
        packed = reader.read(job)
    except (BadPayload, TooLarge) as error:
        return None, ((TooLarge if isinstance(error, TooLarge) else BadPayload).__name__, str(error))
    except MemoryError:
        return None, (Overloaded.__name__, "there is no memory to read the body: send less in one request")
    except Exception as error:  # noqa: BLE001 as `Answer` has it: an error's text may quote the payload
        return None, (UNFORESEEN, type(error).__name__, places(error))
    finally:
        end_limit()
    unpriced = dict(reader.prices.unpriced)
    reader.prices.unpriced.clear()
    return packed, unpriced


def read(source: BinaryIO) -> Any:
    """The next frame. Ends the process when there is none: the gateway is gone."""
    return marshal.loads(read_bytes(source))  # noqa: S302 our own parent wrote it


def read_bytes(source: BinaryIO) -> bytes:
    """What follows the next header. Ends the process as `read` does."""
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        sys.exit(0)
    (size,) = HEADER.unpack(header)
    return source.read(size)


def write(target: BinaryIO, value: object) -> None:
    data = memoryview(frame(value))
    while data:
        data = data[target.write(data) :]


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the gateway is gone
        main()
