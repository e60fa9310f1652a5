"""What is due now and then of a spool in memory."""

from collections.abc import Collection, Mapping

from spool.dead_letters import DeadLetterSummary, ReasonCount
from spool.record import AI_TELEMETRY, OWN_LANES, UNIT_COST, Lane
from spool.settings import SpoolSettings
from spool.settling import Position
from tests.support.spool_in_memory.disk import AGAIN, ONCE_MORE, Disk, Frozen, Stretch


def expire(disk: Disk, lane: Lane, received_before_ms: int, leased: Collection[str]) -> None:
    """Give up what came before then and is not under way; of what is sent once more nothing is
    counted but that.
    """
    state, expired = disk.lanes[lane], 0
    for chunk in disk.ready(lane):
        if chunk.received_ms >= received_before_ms:
            break
        expired += sum(1 for _ in chunk.left(state.next.idx if chunk.seq == state.next.seq else 0))
        state.next = Position(chunk.seq + 1, 0)
    old = [x for x in (*state.frozen, *state.again) if _newest_ms(disk, x) < received_before_ms]
    given_up = [x for x in old if isinstance(x, Stretch) or x.batch.batch_id not in leased]
    state.frozen = [x for x in state.frozen if x not in given_up]
    state.again = [x for x in state.again if x not in given_up]
    expired += sum(len(x.positions) for x in given_up if x.origin != ONCE_MORE)
    disk.beside[lane, "sent_again.given_up"] += sum(len(x.positions) for x in given_up if x.origin == ONCE_MORE)
    counters = disk.counters.lane(lane)
    counters.pending -= expired
    counters.expired += expired


def _newest_ms(disk: Disk, of: Frozen | Stretch) -> int:
    return max(disk.chunks[position.seq].received_ms for position in of.positions)


def give_up_sending_once_more(disk: Disk) -> None:
    """But for what is under way: its room is needed for what was not delivered."""
    for lane, state in disk.lanes.items():
        given_up = [x for x in state.again if x.origin == ONCE_MORE]
        state.again = [x for x in state.again if x.origin != ONCE_MORE]
        disk.beside[lane, "sent_again.given_up"] += sum(len(x.positions) for x in given_up)


def reclaim(disk: Disk, settings: SpoolSettings, now_ms: int, kept_after: Mapping[Lane, int], *, at_once: bool) -> None:
    """Delete the chunks that every lane is done with and that are old enough; *at_once*, all of
    them.
    """
    before_ms = now_ms if at_once else now_ms - max(settings.keep_delivered_ms, settings.window_ms)
    for own in OWN_LANES:
        needed = min(disk.lanes[lane].first_needed() for lane in disk.followers(own))
        for chunk in disk.of(own, 0, min(needed - 1, kept_after.get(own, needed))):
            if before_ms <= chunk.received_ms <= now_ms:
                break
            del disk.chunks[chunk.seq]
    again = {at.seq for state in disk.lanes.values() for at in state.sent_again(AGAIN)}
    disk.chunks = {
        seq: chunk for seq, chunk in disk.chunks.items() if seq in again or not chunk.lane.startswith("again:")
    }


def bound_letters(disk: Disk, settings: SpoolSettings, now_ms: int) -> None:
    """Those that are too old go, and the oldest of those that take too much."""
    old = [letter for letter in disk.letters if letter.shown.buried_ms < now_ms - settings.keep_dead_letters_ms]
    disk.forget_letters(old, "dead_letters.expired")
    while (kept := disk.size_of_letters()) > disk.letter_bytes:
        disk.forget_letters(disk.letters[:1], "dead_letters.expired")
    needed = disk.letter_bytes if disk.size_bytes() > settings.max_bytes else min(disk.letter_bytes, kept)
    disk.letter_bytes = max(settings.dead_letter_bytes, needed)


def summary(disk: Disk, reasons: tuple[ReasonCount, ...]) -> DeadLetterSummary:
    counts = tuple(sorted((lane, name, n) for (lane, name), n in disk.beside.items() if n))
    waiting = sorted((lane, len(state.sent_again(ONCE_MORE))) for lane, state in disk.lanes.items())
    return DeadLetterSummary(reasons, counts, tuple((lane, n) for lane, n in waiting if n))


def oldest_pending_ms(disk: Disk, lane: Lane) -> int | None:
    state = disk.lanes[lane]
    times: list[int | None] = [chunk.received_ms for chunk in disk.of(state.source, state.first_pending())[:1]]
    times += [disk.chunks[at.seq].received_ms for at in state.sent_again(AGAIN)]
    if state.source == AI_TELEMETRY:
        times += [held.received_ms for held in disk.held.values()]
    if lane == UNIT_COST:
        times += [stream.oldest_ms() for stream in disk.streams.values()]
    return min((at for at in times if at is not None), default=None)
