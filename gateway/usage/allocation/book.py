"""The definitions of allocation: their versions, which one of each target is applied, and what
rules would move.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC
from typing import Final, NamedTuple, Self

from gateway.common.body import RefusedValue
from gateway.common.contract.errors import BadPayload, NameInUse, NotFound
from gateway.usage.allocation.body import NewDefinition, NewVersion, Preview, check_match
from gateway.usage.allocation.home import AllocationHome, AllocationRows
from gateway.usage.allocation.rules_json import without_users
from gateway.usage.sums.allocation import Definition, involved
from gateway.usage.sums.bounds import MAX_GROUPS
from gateway.usage.sums.figures import Breakdown, UsageSums
from gateway.usage.sums.names import Name
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.ranges import ms_of, range_of, times_of
from gateway.usage.sums.timespan import TimeRange
from gateway.usage.views.view import SLASH, two_times

MAX_VERSIONS: Final = 200
"""Of one target; older ones are deleted."""
MAX_TARGETS: Final = 22
NO_SUCH_TARGET: Final = "no rules give this target: they have to be made first"
NO_SUCH_VERSION: Final = "no version of this target has this number, or it is no longer kept"
TAKEN: Final = "target: it has rules already: add a version to them"


class Moved(NamedTuple):
    """What rules would move."""

    within: TimeRange
    before: Breakdown
    """By the target, as calls bring it."""
    applied: Breakdown
    """By the rules that are applied now."""
    after: Breakdown
    of_rules: Sequence[UsageSums]
    """What each rule gives away, in the order of the rules."""

    def rows(self) -> "list[MovedName]":
        """Names whose sums differ, the highest cost after it first."""
        sides = [{group.names[0]: group.sums for group in each.groups} for each in self.sides]
        names = dict.fromkeys(name for side in reversed(sides) for name in side)
        rows = [MovedName(name, *(side.get(name) for side in sides)) for name in names]
        return [row for row in rows if not row.before == row.applied == row.after]

    @property
    def sides(self) -> tuple[Breakdown, ...]:
        return self.before, self.applied, self.after


class MovedName(NamedTuple):
    """The sums of a name of the target; None where it has none."""

    name: Name
    before: UsageSums | None
    applied: UsageSums | None
    after: UsageSums | None


class Allocations:
    """Open with `Allocations.open`."""

    def __init__(self, home: AllocationHome, now_ms: Callable[[], int], versions: Sequence[Definition]) -> None:
        self._home = home
        self.now_ms = now_ms
        self._versions = versions

    @classmethod
    async def open(cls, home: AllocationHome, now_ms: Callable[[], int]) -> Self:
        """Raises DatabaseUnavailable."""
        return cls(home, now_ms, await home.read(lambda rows: rows.every()))

    def current(self) -> list[Definition]:
        """The version of each target that is applied."""
        return [*{each.target: each for each in self._versions}.values()]

    def versions(self, target: str) -> list[Definition]:
        """The latest last. Raises NotFound."""
        found = [each for each in self._versions if each.target == target]
        if not found:
            raise NotFound(NO_SUCH_TARGET)
        return found

    def version(self, target: str, number: int) -> Definition:
        """Raises NotFound."""
        for each in self.versions(target):
            if each.version == number:
                return each
        raise NotFound(NO_SUCH_VERSION)

    async def create(self, body: NewDefinition, *, by: str) -> Definition:
        """Raises NameInUse."""
        made = Definition(body.target, 1, body.as_rules(), body.note, self.now_ms(), by)

        def change(rows: AllocationRows) -> list[Definition]:
            if any(each.target == body.target for each in rows.every()):
                raise NameInUse(TAKEN)
            rows.put(made)
            return rows.every()

        self._versions = await self._home.commit(change)
        return made

    async def add_version(self, target: str, body: NewVersion, *, by: str) -> Definition:
        """It is applied from now on, to every day. Raises BadPayload, NotFound."""
        try:
            check_match(target, body.rules)
        except RefusedValue as error:
            raise BadPayload(str(error)) from None
        now_ms = self.now_ms()

        def change(rows: AllocationRows) -> tuple[Definition, list[Definition]]:
            last = max((each.version for each in rows.every() if each.target == target), default=None)
            if last is None:
                raise NotFound(NO_SUCH_TARGET)
            made = Definition(target, last + 1, body.as_rules(), body.note, now_ms, by)
            rows.put(made)
            rows.drop(target, made.version - MAX_VERSIONS)
            return made, rows.every()

        made, self._versions = await self._home.commit(change)
        return made

    async def forget_users(self, users: Collection[str], *, dry_run: bool) -> int:
        """Take *users* out of the rules of all versions. How many versions named one of them."""

        def change(rows: AllocationRows) -> tuple[int, list[Definition]]:
            changed = [left for each in rows.every() if (left := without_users(each, users)) is not None]
            for each in () if dry_run else changed:
                rows.put(each)
            return len(changed), rows.every()

        count, self._versions = await (self._home.read(change) if dry_run else self._home.commit(change))
        return count


async def moved(queries: UsageQueries, asked: Preview) -> Moved:
    """What the rules of *asked* would move, in place of those that are applied now. Raises
    BadListRequest, Overloaded.
    """
    candidate = Definition(asked.target, 0, asked.as_rules())
    within = within_of(asked.range, queries.now_ms())
    await queries.refresh()
    async with queries.apart() as apart:
        before = await apart.allocated(()).by(asked.target, within=within, limit=MAX_GROUPS)
        has_rules = bool(involved(queries.allocations(), [asked.target]))
        applied = await apart.by(asked.target, within=within, limit=MAX_GROUPS) if has_rules else before
        after = await apart.allocated([candidate]).by(asked.target, within=within, limit=MAX_GROUPS)
        of_rules = await apart.given_away(candidate, within)
    return Moved(within, before, applied, after, of_rules)


def within_of(text: str, now_ms: int) -> TimeRange:
    """Of a range's word, or of two times of UTC. Raises BadListRequest."""
    if SLASH in text:
        start, end = two_times(text, UTC)
    else:
        start, end = times_of(range_of(text), now_ms)
    return TimeRange.of(ms_of(start), ms_of(end))
