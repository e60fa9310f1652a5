"""The part of a gateway of a cell that may own it: while it has the lease, a whole gateway runs on
the database, and counts what the edges keep in the journal.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Final

import structlog

from exporters.keyring import KeyFault
from gateway.app.building import Build
from gateway.app.cell.seen_turn import SeenTurn
from gateway.app.gateway import Gateway
from gateway.app.stores import Stores
from gateway.common.contract.errors import CannotStart
from gateway.common.contract.journal import JournalStore
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.traceback_summary import places
from gateway.config.model import Config, Tls
from gateway.config.values import Address, TcpAddress
from gateway.observability.metrics import CellMember, CellStatus
from gateway.pipeline.journal.form import shared_form
from gateway.pipeline.journal.owner import JournalReader, OwnerSpool
from gateway.pipeline.journal.waiting import Waiting
from gateway.pipeline.journal.waiting_senders import WaitingSenders, published
from gateway.stores.postgres.cell import LOOK_S, NOBODY, Member, Owner, Ownership, PostgresCell, Taken, renews_every_s
from spool.errors import SpoolError

log = structlog.get_logger()

START_AGAIN_S: Final = 5.0
"""After a start as the owner that failed, others go first."""
WILDCARDS: Final = frozenset({"0.0.0.0", "::", "[::]"})  # noqa: S104 - they are recognised, not bound

Opened = Callable[
    [Callable[[], CellStatus], Build, Ownership, Callable[[], None]], Awaitable[tuple[Stores, OwnerSpool]]
]
"""(the cell's status, build, the right to write, what is called when that is lost) -> what the
owner keeps."""


class Owning:
    """Use on the event loop's thread; `run` it until the gateway stops."""

    def __init__(
        self,
        build: Build,
        cell: PostgresCell,
        journal: JournalStore,
        opened: Opened,
        waiting: Waiting,
        waiting_senders: WaitingSenders,
    ) -> None:
        self._build, self._cell, self._journal, self._opened = build, cell, journal, opened
        self._waiting, self._waiting_senders = waiting, waiting_senders
        self._seen = SeenTurn(build.config.data_dir)
        self._newer_form: int | None = None
        """Of a row that this release does not read."""
        self._config, self._lease_s = inner_config(build.config), build.config.store.lease_s
        self.gateway: Gateway | None = None
        """While this process owns the cell."""
        self.owns = False
        """Whether other gateways reach it as the owner."""
        self.reader: JournalReader | None = None
        self.owner = NOBODY
        self.members: list[Member] = []
        """As of the last look."""
        self.takeovers = 0
        """By this process."""

    async def run(self) -> None:
        """Look who owns the cell, and own it while nobody else does."""
        try:
            while True:
                taken = await self._taken()
                if taken is not None:
                    await self._own(taken)
                await asyncio.sleep(LOOK_S)
        finally:
            await self._seen.write()

    async def _taken(self) -> Taken | None:
        try:
            await self._look()
            taken = None if self._gives_way() else await self._cell.take(self._seen_turn())
            if taken is not None:
                await self._look()
            await self._cell.note_itself(None, None)
        except DatabaseUnavailable as error:
            log.warning("the cell cannot be asked", error=str(error))
            return None
        return taken

    async def _look(self) -> None:
        self.owner, self.members = await self._cell.owner(), await self._cell.members()
        self._waiting.bytes_per_s = self.owner.bytes_per_s
        self._waiting_senders.waits_ms = json.loads(self.owner.waiting_senders or "{}")
        await self._seen.note(self.owner.cell_id, self.owner.turn)

    def _seen_turn(self) -> int:
        return self._seen.of(self.owner.cell_id)

    def _gives_way(self) -> bool:
        """Whether the journal has rows that another gateway reads, and this one does not."""
        form, me = self._newer_form, self._cell.member
        return form is not None and any(x.is_alive and x.id != me and form in x.forms for x in self.members)

    def form(self) -> int:
        """Of the rows that are written now: gateways of an older release read them as well."""
        return shared_form([each.forms for each in self.members if each.is_alive])

    async def _own(self, taken: Taken) -> None:
        """Own the cell until the lease is lost, or this task is cancelled."""
        log.info("cell taken", epoch=taken.epoch, why=taken.why)
        self.takeovers += 1
        lost = asyncio.Event()
        renewing = asyncio.create_task(self._renew(taken.epoch, lost), name="lease of the cell")
        try:
            await self._serve(taken, lost)
        finally:
            await _ended(renewing)
            self.owner = self.owner._replace(member=None, http=None, admin=None, is_alive=False)
            with suppress(DatabaseUnavailable):
                await self._cell.release(taken.epoch)

    async def _serve(self, taken: Taken, lost: asyncio.Event) -> None:
        ownership = self._cell.ownership(taken.epoch, self._seen_turn)
        spools: list[OwnerSpool] = []

        async def opened(build: Build) -> Stores:
            stores, spool = await self._opened(self.status, build, ownership, lost.set)
            spools.append(spool)
            return stores

        began_s = time.monotonic()
        try:
            async with AsyncExitStack() as stack:
                self.gateway = gateway = await self._started(opened)
                stack.push_async_callback(self._stop)
                self.reader = JournalReader(
                    self._journal, gateway.intake.front, spools[0], gateway.receiver.outcomes.senders
                )
                reading = asyncio.create_task(self.reader.run(), name="counting of the journal")
                stack.push_async_callback(_ended, reading)
                await self._announce()
                self.owns = True
                log.info("cell owned", epoch=taken.epoch, took_s=round(time.monotonic() - began_s, 1))
                await self._until(lost, gateway.stop_wanted)
        except (CannotStart, SpoolError, DatabaseUnavailable, OSError) as error:
            log.error("the cell could not be owned", epoch=taken.epoch, error=str(error))  # noqa: TRY400 - it says what to do
            with suppress(DatabaseUnavailable):
                await self._cell.release(taken.epoch)  # others go first
            await asyncio.sleep(START_AGAIN_S)
        if lost.is_set():
            why = (
                "another gateway took it, the lease was not renewed, or the database is as it was at an earlier moment"
            )
            if self._gives_way():
                why = "rows of the journal are of a newer release, and another gateway reads them"
            log.warning("cell lost", epoch=taken.epoch, why=why)

    async def _started(self, opened: Callable[[Build], Awaitable[Stores]]) -> Gateway:
        build, config = self._build, self._config
        gateway = await Gateway.start(
            config, now_ms=build.now_ms, monotonic_s=build.monotonic_s, opened=opened, is_inner=True
        )
        if self._config is not config:  # reloaded meanwhile
            try:
                gateway.reload(self._config)
            except KeyFault as fault:
                log.error("not reloaded: the configuration before stays", error=str(fault))  # noqa: TRY400 - it says what to do
        return gateway

    @staticmethod
    async def _until(*events: asyncio.Event) -> None:
        waiting = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    async def _stop(self) -> None:
        gateway, self.gateway, self.reader, self.owns = self.gateway, None, None, False
        assert gateway is not None  # noqa: S101 - it was started
        try:
            await gateway.stop()
        except (SpoolError, DatabaseUnavailable, ExceptionGroup) as error:  # what a fenced owner would still write
            log.info("the owner's last notes were not kept", error=type(error).__name__, at=places(error))

    async def _announce(self) -> None:
        """Where this owner listens for the other gateways."""
        assert self.gateway is not None  # noqa: S101 - it was started
        http, admin = [await self._reachable(each) for each in (self.gateway.ports.http, self.gateway.ports.admin)]
        rate = None if self.reader is None else self.reader.progress.bytes_per_s
        senders = published(self.gateway.settler.aggregates.waiting_senders_ms())
        await self._cell.note_itself(http, admin, rate, senders)
        await self._look()

    async def _reachable(self, address: Address) -> str:
        assert isinstance(address, TcpAddress)  # noqa: S101 - the configuration allows no other
        host = await self._cell.own_host() if address.host in WILDCARDS else address.host
        return str(TcpAddress(host, address.port))

    def alive(self) -> int:
        """Gateways of the cell, this one included."""
        return max(1, sum(each.is_alive for each in self.members))

    def status(self) -> CellStatus:
        """As the owner shows it."""
        owner, names = self.owner, {each.id: each.name for each in self.members}
        return {
            "owner": None if owner.member is None else names.get(owner.member),
            "epoch": owner.epoch,
            "why": owner.why,
            "since_s": owner.since_s,
            "members": [member_status(each, owner) for each in self.members],
            "journal_bytes": self._waiting.journal_bytes,
            "behind_s": None if self.reader is None else self.reader.progress.behind_s,
        }

    def reload(self, config: Config) -> None:
        """Raises KeyFault for a secret that cannot be read, with nothing changed."""
        inner = inner_config(config)
        if self.gateway is not None:
            self.gateway.reload(inner)
        self._config = inner

    async def _renew(self, epoch: int, lost: asyncio.Event) -> None:
        """A database that does not answer loses nobody the cell: its commits fail as well."""
        while True:
            await asyncio.sleep(renews_every_s(self._lease_s))
            try:
                if not await self._cell.renew(epoch, self._seen_turn()):
                    lost.set()
                elif self.gateway is not None:
                    await self._announce()
                    self._newer_form = None if self.reader is None else self.reader.newer_form
                    if self._gives_way():
                        lost.set()
            except DatabaseUnavailable as error:
                log.warning("the lease could not be renewed", error=str(error))


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def member_status(member: Member, owner: Owner) -> CellMember:
    return {
        "name": member.name,
        "release": member.release,
        "owns": member.id == owner.member,
        "alive": member.is_alive,
        "up_s": max(0.0, member.up_s),  # below 0: by a clock that was ahead
        "silent_s": max(0.0, member.silent_s),
    }


def inner_config(config: Config) -> Config:
    """Of the gateway that runs while this process owns the cell: other gateways are its senders."""
    internal = config.store.internal
    listen = config.listen.model_copy(
        update={"http": internal.http, "grpc": None, "admin": internal.admin, "service": None}
    )
    return config.model_copy(update={"listen": listen, "tls": Tls()})
