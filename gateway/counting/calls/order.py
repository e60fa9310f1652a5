"""Which of a product's ways to report a call is counted (rule 4's numbered order). Pure, bounded.

Of each sender's session the lowest rank seen so far is counted; once something of it was forwarded,
the rank of that stays, whatever comes later. When the way that counts falls silent for `HOLD_MS`
(its exporter was switched off, for example), the others are weighed again, so that nothing is lost
for good. Sessions are compared where both sides state one, and so are places: a report without a
session stands for all sessions of its group, and so does a report that is compared with it. (Codex'
logs state the host and the session, its spans neither.)

Keys for what was stated, for reports that state none, and for all reports together hold that, of
sessions times places. Their value is the time of the last report of the way that counts (s, from
bit 16), the rank that is fixed, and the lowest seen.
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

from gateway.counting.calls.table import MASK, new_table

HOLD_MS = 5 * 60 * 1000
"""Longer than two exporters of one process are apart, retries included; shorter than
anyone waits for their figures."""
_MS_PER_S = 1000
_HOLD_S = HOLD_MS // _MS_PER_S
_RANK = 0xFF
_FIXED_BIT = 8
_TIME_BIT = 16
_NONE = 1 << 32
_ANY = 1 << 33
"""Beyond all fingerprints of sessions and places."""
_CLOCK = 0
"""No key: a change of the time of the last report."""
MAX_CHANGES = 20_000
"""By the latest reports, that can be taken back: some 3 MiB."""


class _Change(NamedTuple):
    seq: int
    """Of the chunk whose report made it."""
    key: int
    before: int
    after: int


class SignalPrecedence:
    """Group, session and place (0 where not stated) -> the lowest rank seen, and the rank that
    something was forwarded with.
    """

    __slots__ = ("_changes", "_forgotten_seq", "_now_s", "_table")

    def __init__(self, max_keys: int) -> None:
        self._table = new_table(max_keys, with_values=True)
        self._now_s = 0
        self._changes: deque[_Change] = deque()
        self._forgotten_seq = 0
        """The last chunk of which a change is no longer among these."""

    def __len__(self) -> int:
        return len(self._table)

    def see(self, group: int, session: int, rank: int, now_ms: int, *, place: int = 0, seq: int = 0) -> None:
        """A report of *rank* was received; it stands in chunk *seq*."""
        now_s = now_ms // _MS_PER_S
        if now_s != self._now_s:
            self._changes.append(_Change(seq, _CLOCK, self._now_s, now_s))
            self._now_s = now_s
        find, swap = self._table.find, self._table.swap
        for key in _remembered_keys(group, session, place):
            state = before = find(key)
            at_s = state >> _TIME_BIT
            if abs(now_s - at_s) > _HOLD_S:
                state = at_s = 0
            seen = state & _RANK
            if not 0 < seen <= rank:
                seen = rank
            fixed = state >> _FIXED_BIT & _RANK
            if rank == (fixed or seen):
                at_s = now_s
            after = at_s << _TIME_BIT | fixed << _FIXED_BIT | seen
            if after != state:
                swap(key, after)
                self._changes.append(_Change(seq, key, before, after))
        while len(self._changes) > MAX_CHANGES:
            self._forgotten_seq = max(self._forgotten_seq, self._changes.popleft().seq)

    def can_take_back(self, seqs: Collection[int]) -> bool:
        """Whether every change by reports of the chunks *seqs* is still known."""
        return min(seqs, default=self._forgotten_seq + 1) > self._forgotten_seq

    def take_back(self, seqs: Collection[int]) -> None:
        """The reports of the chunks *seqs*, the latest, were not received."""
        kept: deque[_Change] = deque()
        while self._changes:
            change = self._changes.pop()
            if change.seq in seqs:
                self._restore(change)
            else:
                kept.appendleft(change)
        self._changes = kept

    def _restore(self, change: _Change) -> None:
        if change.key == _CLOCK:
            self._now_s = change.before
            return
        state, fixed = self._table.find(change.key), change.after >> _FIXED_BIT & _RANK
        now_fixed = state >> _FIXED_BIT & _RANK
        if now_fixed == fixed:
            self._table.swap(change.key, change.before)
        else:  # fixed since by a call that stands
            self._table.swap(change.key, state & ~_RANK | (change.before & _RANK or now_fixed))

    def fix(self, group: int, session: int, rank: int, *, place: int = 0) -> list[int]:
        """A call is taken from a report of *rank*: from now on that is the way that
        counts. The first one stays.

        Returns the keys that this fixed, for `unfix`.
        """
        fixed: list[int] = []
        for key in _remembered_keys(group, session, place):
            state = self._fresh(key)
            if not state >> _FIXED_BIT & _RANK:
                self._set(key, state, fixed=rank)
                fixed.append(key)
        return fixed

    def fix_again(self, group: int, session: int, rank: int, *, place: int = 0) -> None:
        """A report of *rank* is known to have been taken, alone or with others of its call:
        of these the lowest counts.
        """
        for key in _remembered_keys(group, session, place):
            state = self._fresh(key)
            self._set(key, state, fixed=min(state >> _FIXED_BIT & _RANK or rank, rank))

    def unfix(self, keys: Iterable[int]) -> None:
        """What fixed these keys came to nothing."""
        for key in keys:
            self._set(key, self._table.find(key), fixed=0)

    def counted(self, group: int, session: int, *, place: int = 0) -> int:
        """The rank that counts for a report of this group, session
        and place; 0 where nothing is known.
        """
        fixed, seen = 0, _RANK
        is_known = False
        places = _fitting(place)
        for stated in _fitting(session):
            for where in places:
                state = self._fresh(hash((group, stated, where)) & MASK or 1)
                if state:
                    is_known = True
                    seen = min(seen, state & _RANK)
                    rank = state >> _FIXED_BIT & _RANK
                    if rank and not 0 < fixed <= rank:
                        fixed = rank
        return fixed or (seen if is_known else 0)

    def _fresh(self, key: int) -> int:
        """The state under *key*; 0 where the way that counted fell silent."""
        state = self._table.find(key)
        return state if abs(self._now_s - (state >> _TIME_BIT)) <= _HOLD_S else 0

    def _set(self, key: int, state: int, *, fixed: int) -> None:
        at_s = state >> _TIME_BIT or self._now_s
        self._table.swap(key, at_s << _TIME_BIT | fixed << _FIXED_BIT | (state & _RANK or fixed))


def _remembered_keys(group: int, session: int, place: int) -> tuple[int, int, int, int]:
    """The keys under which a report is remembered."""
    session, place = session or _NONE, place or _NONE
    return (
        hash((group, session, place)) & MASK or 1,
        hash((group, session, _ANY)) & MASK or 1,
        hash((group, _ANY, place)) & MASK or 1,
        hash((group, _ANY, _ANY)) & MASK or 1,
    )


def _fitting(stated: int) -> tuple[int, ...]:
    """What other reports may state without contradicting *stated*."""
    return (stated, _NONE) if stated else (_ANY,)
