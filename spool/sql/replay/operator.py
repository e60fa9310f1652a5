"""What an operator asks of a spool: list dead letters, put them back, drop them, send
again what was delivered.

The same verbs for an open spool (`SqliteSpool.operator`) and for the files of a stopped gateway
(`at_rest`). Each goes by pages, one commit a page: a kill between two of them leaves every record
in one place, and the rest to be asked for again.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from spool.counters import Counters
from spool.dead_letters import Chosen, DeadLetter, LetterPage, Place, ReasonCount, Requeued, SortKey
from spool.errors import NoSuchLane
from spool.forgetting import Forgotten
from spool.record import DEVICES, UNIT_COST, Lane
from spool.sql import dead_letter_rows, forgetting, rows
from spool.sql.connection import Connection
from spool.sql.replay import dead_letters, ranges
from spool.sql.replay.dead_letters import Tried

T = TypeVar("T")

STATE_LANES = (DEVICES, UNIT_COST)
"""Lanes that deliver a present state (a heartbeat, a running total), which would be wrong later."""


class Ask(Protocol):
    """Runs an operation in a commit of its own or with others."""

    def __call__(self, operation: Callable[[Connection, Counters], T], /) -> Awaitable[T]: ...


class SqlDeadLetters:
    """`spool.store.DeadLetterStore`; made by `SqliteSpool.operator` or `spool.sqlite.at_rest`."""

    def __init__(
        self,
        ask: Ask,
        *,
        number_chunk: Callable[[Connection], int],
        now_ms: Callable[[], int],
        wake: Callable[[Lane], None],
        erase: Callable[[Any], object] = lambda _: None,
    ) -> None:
        """*number_chunk*, called inside an operation, gives the number of a new chunk; *wake*
        notifies a lane that something is ready. *erase*: from here on a connection overwrites what
        it deletes.
        """
        self._erase = erase
        self._ask = ask
        self._number_chunk = number_chunk
        self._now_ms = now_ms
        self._wake = wake

    async def lanes(self) -> list[Lane]:
        """Those that are set up."""
        return await self._ask(_lanes)

    async def reasons(self) -> list[ReasonCount]:
        return await self._ask(lambda connection, _: dead_letters.by_reason(connection))

    async def letter_lanes(self) -> list[Lane]:
        """Those that are set up, and those that dead letters are left of."""
        left = await self._ask(lambda connection, _: dead_letters.lanes(connection))
        return sorted({*await self.lanes(), *left})

    async def missing(self, ids: Sequence[int]) -> list[int]:
        """Those of *ids* that no dead letter has."""
        return await self._ask(lambda connection, _: dead_letters.missing(connection, ids))

    async def count(self, chosen: Chosen) -> int:
        return await self._ask(lambda connection, _: dead_letters.count(connection, chosen))

    async def page(
        self, chosen: Chosen, *, sort: SortKey, descending: bool, beyond: Place | None, most: int
    ) -> LetterPage:
        return await self._ask(
            lambda connection, _: dead_letters.page(
                connection, chosen, sort=sort, descending=descending, beyond=beyond, most=most
            )
        )

    async def find(
        self,
        chosen: Chosen,
        *,
        sort: SortKey = "buried_at",
        descending: bool = False,
        beyond: Place | None = None,
        most: int,
    ) -> list[DeadLetter]:
        """Up to *most* of the *chosen* in order, from the first *beyond* a place on."""
        found = partial(dead_letters.find, sort=sort, descending=descending, beyond=beyond, most=most)
        return await self._ask(lambda connection, _: found(connection, chosen))

    async def forget_user(self, users: Collection[str], *, dry_run: bool) -> Forgotten:
        """Remove *users*, as records name them, from what nothing depends on."""
        found, through_seq = Forgotten(), -1
        while True:
            page = await self._ask(partial(self._forget_in_chunks, users, through_seq, dry_run))
            found += page.found
            if page.through_seq is None:
                break
            through_seq = page.through_seq
        return found + await self._ask(
            lambda connection, _: forgetting.forget_in_dead_letters(connection, users, dry_run=dry_run)
        )

    def _forget_in_chunks(
        self,
        users: Collection[str],
        after_seq: int,
        dry_run: bool,  # noqa: FBT001 bound by `partial`
        connection: Connection,
        _: Counters,
    ) -> forgetting.Page:
        self._erase(connection)
        return forgetting.forget_in_chunks(connection, users, after_seq, dry_run=dry_run)

    async def replay_dead_letters(self, chosen: Chosen, most: int | None = None) -> Requeued:
        """Make up to *most* of the *chosen* pending again, oldest first, under their own record ids
        in new batches. Raises NoSuchLane.
        """
        await self._refuse_unknown(chosen.lanes)
        through_id = await self._ask(lambda connection, _: dead_letter_rows.last_id(connection))
        lanes = await self.lanes()
        replayed: dict[Lane, int] = {}
        for lane in lanes:
            if chosen.lanes and lane not in chosen.lanes:
                continue
            left = None if most is None else most - sum(replayed.values())
            if n := await self._requeue_all(chosen, lane, left, through_id):
                replayed[lane] = n
        # A total that was tried and is still there had to stay (`unit_totals.requeue`).
        done = [lane for lane in lanes if lane != UNIT_COST or sum(replayed.values()) == most]
        skipped = await self._ask(lambda connection, _: dead_letters.count_left(connection, chosen, done, through_id))
        return Requeued(replayed, skipped)

    async def _requeue_all(self, chosen: Chosen, lane: Lane, most: int | None, through_id: int) -> int:
        """Up to *most* of *lane*'s, page by page; how many."""
        requeued = after_id = 0
        while left := _left(most, requeued):
            tried = await self._requeue(chosen, lane, left, after_id, through_id)
            if tried.last_id is None:
                break
            requeued, after_id = requeued + tried.requeued, tried.last_id
            self._wake(lane)
        return requeued

    async def _requeue(self, chosen: Chosen, lane: Lane, most: int, after_id: int, through_id: int) -> Tried:
        def requeue(connection: Connection, counters: Counters) -> Tried:
            seq, now_ms = self._number_chunk(connection), self._now_ms()
            return dead_letters.requeue(
                connection, counters, chosen, lane, seq, now_ms, most=most, after_id=after_id, through_id=through_id
            )

        return await self._ask(requeue)

    async def drop_dead_letters(self, chosen: Chosen, most: int | None = None) -> int:
        """Delete up to *most* of the *chosen* for good, oldest first; how many.

        They stay counted as dead_lettered. Raises NoSuchLane.
        """
        await self._refuse_unknown(chosen.lanes)
        through_id = await self._ask(lambda connection, _: dead_letter_rows.last_id(connection))
        dropped = 0
        while left := _left(most, dropped):
            drop = partial(dead_letters.drop, most=left, through_id=through_id)
            n = await self._ask(lambda connection, _, drop=drop: drop(connection, chosen))  # type: ignore[misc]  # the default binds the loop's page
            if not n:
                break
            dropped += n
        return dropped

    async def _refuse_unknown(self, lanes: Sequence[Lane]) -> None:
        known = await self.letter_lanes()
        if not set(lanes) <= set(known):
            raise NoSuchLane(f"lane: one of {', '.join(known)} is needed")

    async def replay_delivered(self, lanes: Sequence[Lane], received_from_ms: int) -> dict[Lane, int]:
        """Send again what the *lanes* delivered of the records received at that time or later, as
        far as they are still here.

        Lane -> records. They stay counted as delivered, whatever comes of it. Raises
        NoSuchLane for one that must not.
        """
        for lane in lanes:
            await self._refuse_replay(lane)
        return {lane: await self._replay_lane(lane, received_from_ms) for lane in dict.fromkeys(lanes)}

    async def count_delivered(self, lanes: Sequence[Lane], received_from_ms: int) -> dict[Lane, int]:
        """Lane -> records that `replay_delivered` would send again. Raises NoSuchLane."""
        for lane in lanes:
            await self._refuse_replay(lane)
        return {lane: await self._replay_lane(lane, received_from_ms, is_dry=True) for lane in dict.fromkeys(lanes)}

    async def _refuse_replay(self, lane: Lane) -> None:
        if lane in STATE_LANES:
            raise NoSuchLane(f"lane {lane} reports the state of things: what it sent before must not be sent again")
        known = await self.lanes()
        if lane not in known:
            names = ", ".join(sorted(set(known) - set(STATE_LANES)))
            raise NoSuchLane(f"lane: one of {names} is needed")

    async def _replay_lane(self, lane: Lane, received_from_ms: int, *, is_dry: bool = False) -> int:
        lo = await self._ask(lambda connection, _: ranges.first_delivered(connection, lane, received_from_ms))
        upto = await self._ask(lambda connection, _: rows.lane_row(connection, lane).next)
        records = 0
        page = ranges.count_delivered if is_dry else ranges.send_delivered
        while lo is not None:
            n, lo = await self._ask(lambda connection, _, lo=lo: page(connection, lane, lo, upto))  # type: ignore[misc]  # as above
            records += n
            if not is_dry:
                self._wake(lane)
        return records


def _left(most: int | None, done: int) -> int:
    return dead_letters.PAGE_RECORDS if most is None else most - done


def _lanes(connection: Connection, _: Counters) -> list[Lane]:
    return [name for (name,) in connection.execute("SELECT name FROM lane ORDER BY name")]
