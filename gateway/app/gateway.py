"""One running gateway.

Start: lock and open the spool, rebuild the ledger, embed the service if there is no upstream, start
the lanes, and only then take requests. Stop goes the other way: take no more, answer what is under
way, let sends land, close the files.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Self

from gateway.app.building import Build, Stop, open_tls
from gateway.app.delivering import Delivering, start_delivering
from gateway.app.listening import Listening, start_listening
from gateway.app.stores import Stores, open_stores
from gateway.app.watching import Watching, start_watching
from gateway.common.wall_clock import wall_ms
from gateway.config.changes import changed, with_changes
from gateway.config.model import Config
from gateway.observability.metrics import LaneStatus
from gateway.observability.telemetry.assembly import tracer_of
from gateway.serve.assembly import build_gate, build_receiver, open_routes
from gateway.serve.quotas import ChargedBefore, Quotas


class Gateway:
    """`start` makes one in a running loop; `stop` it in the same."""

    def __init__(
        self, build: Build, stores: Stores, delivering: Delivering, watching: Watching, listening: Listening
    ) -> None:
        self.spool, self.prices, self.keys, self.devices = stores.spool, stores.prices, stores.keys, stores.devices
        self.intake, self.settler = delivering.ingest.intake, delivering.ingest.settler
        self.lanes, self.service = delivering.delivery.lanes, delivering.delivery.service
        self.relay = delivering.relay
        self.status, self.usage, self.budgets = watching.status, watching.usage, watching.budgets
        self.billing = watching.billing
        self.receiver, self.admin, self.access = listening.receiver, listening.admin, listening.access
        self.ports = listening.live.ports
        self._build, self._stores, self._listening = build, stores, listening

    @classmethod
    async def start(
        cls,
        config: Config,
        *,
        now_ms: Callable[[], int] = wall_ms,
        monotonic_s: Callable[[], float] = time.monotonic,
        opened: Callable[[Build], Awaitable[Stores]] = open_stores,
        is_inner: bool = False,
    ) -> Self:
        """*now_ms* is the wall clock; *monotonic_s* measures how long a lane is stuck. *opened*:
        what it keeps. *is_inner*: as `Build` has it.

        Raises CannotStart, SpoolError, OSError; what was opened by then is closed again.
        """
        stack = AsyncExitStack()
        try:
            tls, tracer = open_tls(config, now_ms), tracer_of(config.telemetry)
            build = Build(config, stack, Stop(), now_ms, monotonic_s, tls, tracer, is_inner)
            stores = await opened(build)
            delivering = await start_delivering(build, stores)
            gate, senders = build_gate(config, stores.keys), stores.senders.senders
            quotas = ChargedBefore(monotonic_s) if is_inner else Quotas(monotonic_s)
            receiver = build_receiver(
                config, delivering.ingest.intake, gate, now_ms=now_ms, senders=senders, tracer=tracer, quotas=quotas
            )
            watching = await start_watching(build, stores, delivering, receiver)
            listening = await start_listening(build, stores, delivering, watching, receiver)
        except BaseException:
            await stack.aclose()
            raise
        return cls(build, stores, delivering, watching, listening)

    def lanes_at_start(self) -> Mapping[str, LaneStatus]:
        return self.status.lanes()

    async def stop(self) -> None:
        await self._build.stack.aclose()

    @property
    def config(self) -> Config:
        """In force, after the last reload."""
        return self._listening.live.config

    @property
    def stop_wanted(self) -> asyncio.Event:
        """Set when the gateway must not go on; its owner then stops it."""
        return self._build.stop.wanted

    @property
    def stop_reason(self) -> str | None:
        """Why it is set; None for a signal."""
        return self._build.stop.reason

    def reload(self, config: Config) -> list[str]:
        """Take from *config* what can change while the gateway runs; the changed options that
        need a restart.

        Raises KeyFault for a secret that cannot be read, with nothing changed.
        """
        running = with_changes(self.config, config)
        routes = open_routes(running, self.intake, self._listening.further)
        if running.upstream is not None and not self.lanes.use_keys(running.upstream):
            running = running.model_copy(update={"upstream": self.config.upstream})
        self.receiver.use(*routes)
        for tls in self._build.tls.values():
            tls.reload()
        if self._stores.price_file is not None:
            self._stores.price_file.reload()
        self._listening.live.config = running
        return changed(running, config)
