"""One running gateway of a cell."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Final, Self

import structlog

from gateway.app.building import Build, Stop, open_tls
from gateway.app.cell.edge import EdgeParts, start_edge
from gateway.app.cell.home import CellHome, open_home
from gateway.app.cell.owning import Owning
from gateway.app.cell.serving import bound
from gateway.app.cell.stores import open_owned
from gateway.app.delivering import NOTE_ACCESS_S
from gateway.app.listening import Ports
from gateway.common.maintenance import Maintained, maintain
from gateway.common.tls import LOOK_EVERY_S
from gateway.common.wall_clock import wall_ms
from gateway.config.changes import changed, with_changes
from gateway.config.model import Config
from gateway.observability.metrics import LaneStatus
from gateway.operate.session import open_access
from gateway.pipeline.assembly import metrics_settings
from gateway.pipeline.journal.waiting import Waiting
from gateway.pipeline.journal.waiting_senders import WaitingSenders
from gateway.serve.http.to_owner import OwnerClient
from gateway.stores.postgres.clock import DatabaseClock

log = structlog.get_logger()

STOP_S: Final = 10.0
"""For what a stop still writes."""


class CellGateway:
    """`start` makes one in a running loop; `stop` it in the same."""

    def __init__(self, build: Build, home: CellHome, parts: EdgeParts, owning: Owning, ports: Ports) -> None:
        self.config, self.ports, self.owning, self.keys = build.config, ports, owning, home.keys
        """As `Gateway` has them."""
        self.receiver, self.edge = parts.receiver, parts.edge
        self._build, self._parts, self._home = build, parts, home

    @classmethod
    async def start(
        cls,
        config: Config,
        *,
        now_ms: Callable[[], int] = wall_ms,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> Self:
        """As `Gateway.start`; *now_ms* counts until the database's clock is known. Raises
        DatabaseUnavailable and PepperMismatch too.
        """
        stack = AsyncExitStack()
        try:
            clock = DatabaseClock(now_ms)
            build = Build(config, stack, Stop(), clock, monotonic_s, open_tls(config, now_ms), None)
            home = await open_home(build, clock)
            build.run(clock.follow(home.shared), "time of the cell")
            access = open_access(config.data_dir, config.metrics_token, home.keys.viewer_tokens())
            waiting, senders_waiting = Waiting(), WaitingSenders(metrics_settings(config))
            owning = Owning(build, home.cell, home.journal, partial(open_owned, home), waiting, senders_waiting)
            senders, operators = OwnerClient(lambda: owning.owner.http), OwnerClient(lambda: owning.owner.admin, None)
            for client in (senders, operators):
                stack.push_async_callback(client.close)
                build.run(client.run(), "answers of former owners")
            parts = await start_edge(build, home, senders, owning, waiting, senders_waiting)
            ports = await bound(build, parts, owning, home.keys, access, operators)
            build.run(owning.run(), "owner of the cell")
            build.run(maintain(upkeep(build, home, parts)), "maintenance")
        except BaseException:
            await stack.aclose()
            raise
        return cls(build, home, parts, owning, ports)

    def lanes_at_start(self) -> Mapping[str, LaneStatus]:
        """The owner has lanes, which says so when it owns the cell."""
        return {}

    async def stop(self) -> None:
        """What the database has not answered after `STOP_S` is given up: its sender does not know
        the outcome, and sends the same again.
        """
        ended = asyncio.Event()
        giving_up = asyncio.create_task(self._give_up_unless(ended), name="a database that hangs")
        try:
            await self._build.stack.aclose()
        finally:
            ended.set()
            await giving_up

    async def _give_up_unless(self, ended: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await ended.wait()
        if not ended.is_set():
            log.warning("the database does not answer; what waits for it is given up")
            await asyncio.gather(*(give_up() for give_up in self._home.give_up))

    @property
    def stop_wanted(self) -> asyncio.Event:
        """As `Gateway` has it."""
        return self._build.stop.wanted

    @property
    def stop_reason(self) -> str | None:
        return self._build.stop.reason

    def reload(self, config: Config) -> list[str]:
        """As `Gateway.reload`."""
        running = with_changes(self.config, config)
        self.owning.reload(running)
        self.receiver.use(*self._parts.routes(running))
        for tls in self._build.tls.values():
            tls.reload()
        if self._parts.price_file is not None:
            self._parts.price_file.reload()
        self.config = running
        return changed(running, config)


def upkeep(build: Build, home: CellHome, parts: EdgeParts) -> list[Maintained]:
    """What is to be done now and then."""
    maintained = [Maintained("keys", home.keys.flush_last_accessed, every_s=NOTE_ACCESS_S)]
    if parts.price_file is not None:
        maintained.append(Maintained("prices", parts.price_file.run_maintenance))
    return maintained + [
        Maintained(f"tls.{name}", tls.run_maintenance, LOOK_EVERY_S) for name, tls in build.tls.items()
    ]
