"""Who owns a cell: one gateway at a time counts, by a lease on the clock of the database.

The lease alone fences nothing: each commit of the owner names its epoch, and one that names an
epoch of the past fails (`Ownership.fence`, `Ownership.share_fence`). So a process that was stopped
for longer than its lease can do no more than send once again what was frozen, under the same ids.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeVar

from gateway.common.contract.errors import CannotStart
from gateway.stores.postgres.database import PostgresConnection, PostgresDatabase
from gateway.stores.sql.database import make_tables
from spool.errors import Fenced

T = TypeVar("T")

FORGET_S: Final = 24 * 3600
"""After which a member that was not seen is forgotten."""
ALIVE_S: Final = 10
"""A member that was seen within this time is alive."""
LOOK_S: Final = 0.5
"""How often a gateway looks who owns the cell, and notes that it is alive itself."""
MAX_RENEW_S: Final = 2.0
MAX_LEASE_S: Final = 60
"""By the configuration. One that ends later is of a clock that was ahead, as of the server before a
failover."""

_TAKE: Final = (
    "UPDATE cell SET epoch = epoch + 1, turn = turn + 1, owner = ?, since = clock_timestamp(),"
    " until = clock_timestamp() + make_interval(secs => ?),"
    " why = CASE WHEN epoch = 0 THEN 'start' WHEN owner IS NULL THEN 'released' ELSE 'expired' END"
    " WHERE (owner IS NULL OR until < clock_timestamp() OR until > clock_timestamp() + make_interval(secs => ?))"
    " AND moved_to IS NULL AND turn >= ? RETURNING epoch, why"
)
_RENEW: Final = "UPDATE cell SET until = clock_timestamp() + make_interval(secs => ?), turn = turn + 1 WHERE epoch = ? AND owner = ? AND turn >= ?"
_RELEASE: Final = "UPDATE cell SET owner = NULL, until = clock_timestamp() WHERE epoch = ? AND owner = ?"
_SHARE: Final = "SELECT 1 FROM cell WHERE epoch = ? AND owner = ? AND turn >= ? FOR KEY SHARE"
_OWNER: Final = (
    "SELECT cell.epoch, cell.owner, nullif(cell.why, ''), extract(epoch FROM clock_timestamp() - cell.since)::float8,"
    " cell.until > clock_timestamp(), member.http, member.admin,"
    " CASE WHEN cell.until > clock_timestamp() THEN (to_jsonb(member) ->> 'bytes_per_s')::float8 END,"
    " to_jsonb(cell) ->> 'id', coalesce((to_jsonb(cell) ->> 'turn')::bigint, 0),"
    " CASE WHEN cell.until > clock_timestamp() THEN to_jsonb(member) ->> 'waiting_senders' END"
    " FROM cell LEFT JOIN member ON member.id = cell.owner"
)
_MEMBERS: Final = (
    "SELECT id, name, release, extract(epoch FROM clock_timestamp() - started_at)::float8,"
    " extract(epoch FROM clock_timestamp() - seen_at)::float8, forms, secrets FROM member ORDER BY started_at, id"
)
_NOTE: Final = (
    "INSERT INTO member (id, name, release, forms, http, admin, secrets, bytes_per_s, waiting_senders, started_at, seen_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, clock_timestamp(), clock_timestamp()) ON CONFLICT (id) DO UPDATE SET"
    " release = excluded.release, forms = excluded.forms, secrets = excluded.secrets,"
    " http = excluded.http, admin = excluded.admin, bytes_per_s = excluded.bytes_per_s,"
    " waiting_senders = excluded.waiting_senders, seen_at = excluded.seen_at"
)


Why = Literal["start", "released", "expired"]


class Taken(NamedTuple):
    """The cell came to this process."""

    epoch: int
    why: Why
    """`start`: nobody ever had it; `released`: the owner before gave it back; `expired`: its lease
    ran out."""


class Owner(NamedTuple):
    """Who owns the cell, as of now."""

    epoch: int
    member: str | None
    """None between two owners."""
    why: Why | None
    """As in `Taken`; None before the first owner."""
    since_s: float | None
    is_alive: bool
    """Whether its lease runs."""
    http: str | None
    """Where it listens for other members; None while it does not yet."""
    admin: str | None
    bytes_per_s: float | None
    """What it counts of the journal; None while it keeps up, and once its lease ended."""
    cell_id: str | None
    """Which cell this is; None where a release that does not know made it."""
    turn: int
    """How many commits owners of the cell made."""
    waiting_senders: str | None
    """JSON: sender -> for how many ms it must wait; None for none, and once its lease ended."""


NOBODY: Final = Owner(
    0,
    None,
    None,
    None,
    is_alive=False,
    http=None,
    admin=None,
    bytes_per_s=None,
    cell_id=None,
    turn=0,
    waiting_senders=None,
)
"""Before the first owner."""


class Member(NamedTuple):
    """A gateway of the cell."""

    id: str
    name: str
    release: str
    up_s: float
    silent_s: float
    forms: Sequence[int]
    secrets: Mapping[str, str]

    @property
    def is_alive(self) -> bool:
        return abs(self.silent_s) < ALIVE_S  # below 0: seen by a clock that was ahead


@dataclass(frozen=True)
class Itself:
    """This process, as a member."""

    id: str
    name: str
    release: str
    forms: Sequence[int]
    secrets: Mapping[str, str]
    """Name of a file that must be equal on all members -> digest."""


class Ownership(NamedTuple):
    """The right to write what only the owner writes, while nobody else took it, and while the
    database is not as it was before what this process saw.
    """

    member: str
    epoch: int
    lease_s: float
    seen_turn: Callable[[], int]

    def fence(self, connection: PostgresConnection) -> None:
        """Begin a commit of the owner's spool, which renews the lease. Raises Fenced."""
        if not connection.execute(_RENEW, (self.lease_s, self.epoch, self.member, self.seen_turn())).rowcount:
            raise self._fenced()

    def share_fence(self, connection: PostgresConnection) -> None:
        """Begin another commit of the owner: a new owner waits until it ends. Raises Fenced."""
        if connection.execute(_SHARE, (self.epoch, self.member, self.seen_turn())).fetchone() is None:
            raise self._fenced()

    def _fenced(self) -> Fenced:
        return Fenced(f"epoch {self.epoch} of the cell ended, or its database is as it was at an earlier moment")


class PostgresCell:
    """Open with `PostgresCell.open`. Every method raises DatabaseUnavailable."""

    def __init__(self, database: PostgresDatabase, itself: Itself, lease_s: float) -> None:
        self._database, self._itself, self._lease_s = database, itself, lease_s
        self._under_way: list[float] = []
        """When each commit began that is not answered yet."""

    async def _timed(self, change: Callable[[PostgresConnection], T]) -> T:
        """Of a commit that waits for no other gateway."""
        began_s = time.monotonic()
        self._under_way.append(began_s)
        try:
            return await self._database.commit(change)
        finally:
            self._under_way.remove(began_s)

    def unanswered_s(self) -> float:
        """For how long a sign of life has waited for its commit, as while the standbys are gone."""
        now_s = time.monotonic()
        return now_s - min(self._under_way, default=now_s)

    @classmethod
    async def open(cls, database: PostgresDatabase, itself: Itself, lease_s: float) -> "PostgresCell":
        """Missing tables are made; what a killed process of this member noted is gone. Raises
        CannotStart where a process that runs has the same id.
        """
        await make_tables(database, "cell")
        cell = cls(database, itself, lease_s)
        await cell._refuse_same_id()
        await cell.leave()
        return cell

    async def _refuse_same_id(self) -> None:
        """One that runs notes itself again within a short time; one that was killed does not."""
        before = await self._noted()
        if before is None or not before.is_alive:
            return
        waited_s = renews_every_s(self._lease_s) + LOOK_S
        await asyncio.sleep(waited_s)
        after = await self._noted()
        if after is not None and after.silent_s < before.silent_s + waited_s / 2:
            raise CannotStart(
                f"the gateway on {after.name} runs with the same instance-id: this data directory is a copy of its own;"
                " delete the file instance-id in the copy"
            )

    async def _noted(self) -> Member | None:
        return next((each for each in await self.members() if each.id == self._itself.id), None)

    @property
    def member(self) -> str:
        """The id of this process."""
        return self._itself.id

    async def moved_to(self) -> str | None:
        """Where what the cell held was moved; None where it is here."""
        row = await self._database.read(lambda c: c.execute("SELECT moved_to FROM cell").fetchone())
        return None if row is None else row[0]

    async def take(self, seen_turn: int = 0) -> Taken | None:
        """Own the cell, where nobody does; None where somebody does, where it was moved, and where
        it is as it was before *seen_turn*.
        """
        parameters = self._itself.id, self._lease_s, MAX_LEASE_S, seen_turn
        row = await self._database.commit(lambda c: c.execute(_TAKE, parameters).fetchone())
        return None if row is None else Taken(*row)

    async def renew(self, epoch: int, seen_turn: int = 0) -> bool:
        """Lengthen the lease of this process; False where another one took the cell, and where the
        cell is as it was before *seen_turn*.
        """
        parameters = self._lease_s, epoch, self._itself.id, seen_turn
        return await self._timed(lambda c: c.execute(_RENEW, parameters).rowcount > 0)

    async def release(self, epoch: int) -> None:
        """Give the cell back, so that another member takes it at once."""
        await self._database.commit(lambda c: c.execute(_RELEASE, (epoch, self._itself.id)))

    def ownership(self, epoch: int, seen_turn: Callable[[], int] = lambda: 0) -> Ownership:
        return Ownership(self._itself.id, epoch, self._lease_s, seen_turn)

    async def owner(self) -> Owner:
        return await self._database.read(owner_in)

    async def members(self) -> list[Member]:
        """Oldest first, also those that are silent."""
        return await self._database.read(members_in)

    async def note_itself(
        self,
        http: str | None,
        admin: str | None,
        bytes_per_s: float | None = None,
        waiting_senders: Mapping[str, int] | None = None,
    ) -> None:
        """This process is alive; as the owner, where it listens for other members, what it counts
        while it is behind, and for how many ms a sender of too many series must wait.
        """
        me = self._itself
        forms, digests = json.dumps(list(me.forms)), json.dumps(dict(me.secrets))
        waiting = json.dumps(dict(waiting_senders)) if waiting_senders else None
        row = me.id, me.name, me.release, forms, http, admin, digests, bytes_per_s, waiting

        def note(connection: PostgresConnection) -> None:
            connection.execute(_NOTE, row)
            connection.execute(
                "DELETE FROM member WHERE seen_at < clock_timestamp() - make_interval(secs => ?)", (FORGET_S,)
            )

        await self._timed(note)

    async def own_host(self) -> str:
        """The address by which the database sees this process; loopback where both are on one
        machine.
        """
        row = await self._database.read(lambda c: c.execute("SELECT host(inet_client_addr())").fetchone())
        return "127.0.0.1" if row is None or row[0] is None else str(row[0])

    async def leave(self) -> None:
        """This process is no member any more."""
        await self._database.commit(lambda c: c.execute("DELETE FROM member WHERE id = ?", (self._itself.id,)))


def renews_every_s(lease_s: float) -> float:
    """How often an owner renews its lease and notes that it is alive."""
    return min(lease_s / 5, MAX_RENEW_S)


def owner_in(connection: PostgresConnection) -> Owner:
    """As `PostgresCell.owner`, of the cell that *connection* sees."""
    row = connection.execute(_OWNER).fetchone()
    return NOBODY if row is None else Owner(*row)


def members_in(connection: PostgresConnection) -> list[Member]:
    """As `PostgresCell.members`, of the cell that *connection* sees."""
    rows = connection.execute(_MEMBERS).fetchall()
    return [Member._make((*row[:5], json.loads(row[5]), json.loads(row[6]))) for row in rows]
