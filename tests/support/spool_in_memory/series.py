"""`spool.store.SeriesStore` in memory."""

from collections.abc import Awaitable, Callable, Sequence

from spool.record import AI_TELEMETRY
from spool.series import Ending, Held, NewHeld, SeriesRow, SightingRow
from spool.store import ItemCounts
from tests.support.spool_in_memory.committing import Committing
from tests.support.spool_in_memory.disk import Chunk, Disk


class SeriesInMemory:
    def __init__(self, spool: Committing) -> None:
        self._spool = spool

    async def series(self, keys: Sequence[bytes]) -> list[SeriesRow]:
        return await self._spool.ask(lambda disk: [disk.series[key] for key in keys if key in disk.series])

    def keep(
        self,
        held: Sequence[NewHeld],
        series: Sequence[SeriesRow],
        sightings: Sequence[SightingRow],
        counts: ItemCounts,
        received_ms: int,
    ) -> Awaitable[None]:
        def keep(disk: Disk) -> None:
            disk.series |= {row.key: row for row in series}
            _see(disk, sightings)
            for new in held:
                disk.last_held += 1
                disk.held[disk.last_held] = Held(disk.last_held, received_ms, new.facts, new.record)
            for lane in disk.followers(AI_TELEMETRY):
                disk.counters.keep(lane, len(held))
            disk.counters.add(counts)

        return self._spool.ask(keep)

    def note(self, sightings: Sequence[SightingRow]) -> Awaitable[None]:
        return self._spool.ask_with_appends(lambda disk, _: _see(disk, sightings))

    async def sightings(self, seen_after_ms: int, most: int) -> list[SightingRow]:
        def read(disk: Disk) -> list[SightingRow]:
            found = [SightingRow(whose, at_ms) for whose, at_ms in disk.sightings.items() if at_ms > seen_after_ms]
            return sorted(found, key=lambda row: row.seen_ms)[-most:]

        return await self._spool.ask(read)

    async def oldest_held_ms(self) -> int | None:
        return await self._spool.ask(lambda disk: min((x.received_ms for x in disk.held.values()), default=None))

    async def held_count(self) -> int:
        return await self._spool.ask(lambda disk: len(disk.held))

    async def due(self, received_through_ms: int, most: int) -> list[Held]:
        def read(disk: Disk) -> list[Held]:
            found = [x for x in disk.held.values() if x.received_ms <= received_through_ms]
            return sorted(found, key=lambda x: (x.received_ms, x.held_id))[:most]

        return await self._spool.ask(read)

    async def turn_back(self, now_ms: int) -> None:
        def turn_back(disk: Disk) -> None:
            disk.held = {i: x._replace(received_ms=min(x.received_ms, now_ms)) for i, x in disk.held.items()}

        await self._spool.ask(turn_back)

    async def end(self, endings: Sequence[Ending], now_ms: int, announce: Callable[[int], None]) -> None:
        seq = 0
        if any(ending.outcome is None for ending in endings):
            seq = self._spool.number_chunk()
            announce(seq)

        def end(disk: Disk) -> None:
            known = [ending for ending in endings if disk.held.pop(ending.held_id, None) is not None]
            for ending in known:
                if ending.outcome is not None:
                    disk.counters.drop(disk.followers(AI_TELEMETRY), ending.outcome)
            if released := [ending.record for ending in known if ending.outcome is None]:
                disk.add(Chunk(seq, AI_TELEMETRY, now_ms, released))

        await self._spool.ask(end)

    async def forget(self, now_ms: int, seen_before_ms: int) -> int:
        def forget(disk: Disk) -> int:
            before = len(disk.series) + len(disk.sightings)
            disk.series = {key: row for key, row in disk.series.items() if row.until_ms >= now_ms}
            disk.sightings = {whose: at for whose, at in disk.sightings.items() if at >= seen_before_ms}
            return before - len(disk.series) - len(disk.sightings)

        return await self._spool.ask(forget)


def _see(disk: Disk, sightings: Sequence[SightingRow]) -> None:
    for whose, seen_ms in sightings:
        disk.sightings[whose] = max(seen_ms, disk.sightings.get(whose, 0))
