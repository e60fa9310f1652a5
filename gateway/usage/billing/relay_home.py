"""Where relayed billing drops are kept, as this room uses it: those that senders gave to this
gateway.

Drops of one connection go out in the order in which they were accepted. A part of a FOCUS day stays
here as `sent` until the upstream has the whole day: where it lost a part, all of them go out again.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypedDict

from gateway.common.contract.json_types import Count, Month, Time
from gateway.common.lists.conventions import Filterable, ListRequest, ListShape, Page, Sort
from gateway.common.storage.home import Home
from spool.clock import rfc3339_ms

DAY_MS: Final = 86_400_000
KNOWN_MS: Final = 7 * DAY_MS
"""For so long a delivered drop is listed, and a repeat of its request known."""
MAX_WAITING_BYTES: Final = 128 << 20
"""Of drops that wait for the upstream."""
MAX_REFUSED_BYTES: Final = 64 << 20
"""Of drops that the upstream refused; the oldest are given up first."""

State = Literal["waiting", "sent", "delivered", "refused", "expired"]
STATES: Final[tuple[State, ...]] = ("waiting", "sent", "delivered", "refused", "expired")


class NewDrop(NamedTuple):
    drop_id: str
    connection: str
    body: bytes
    content: bytes
    """sha256 of the body."""
    repeat_key: bytes | None
    month: str
    row_count: int
    operation: str
    source_day: str | None
    """None for what is no part of a FOCUS day; as the next."""
    division: str | None
    key_name: str | None


class Kept(NamedTuple):
    """What became of a drop, or of the one that it repeats."""

    outcome: Literal["kept", "duplicate", "reused", "full"]
    """`reused`: its repeat key was another drop's. `full`: there is no room."""
    drop_id: str = ""


class Waiting(NamedTuple):
    """The next drop of a connection."""

    drop_id: str
    body: bytes
    operation: str
    accepted_at_ms: int
    generation: int
    attempts: int


class Queue(NamedTuple):
    """The drops of one connection."""

    connection: str
    waiting: int
    """With those of which the upstream lacks other parts."""
    waiting_bytes: int
    refused: int


class RelayedDrop(TypedDict):
    id: str
    connection: str
    month: Month
    operation: str
    row_count: Count
    bytes: Count
    key: str | None
    """Name of the key under which it came; null on open intake."""
    state: State
    """`sent`: the upstream has it, and lacks other parts of its day. `expired`: given up for
    room."""
    refused: str | None
    """Why the upstream refused it."""
    accepted_at: Time
    ended_at: Time | None


class RelayedRow(NamedTuple):
    """What the list has of a drop."""

    drop_id: str
    connection: str
    month: str
    operation: str
    row_count: int
    n_bytes: int
    key_name: str | None
    state: State
    refused: str | None
    accepted_at_ms: int
    ended_at_ms: int | None


RELAYED_LIST: Final = ListShape(
    root="relayed",
    sort_keys=("accepted_at", "connection"),
    default_sort=Sort("accepted_at", "desc"),
    filters=(Filterable("state", STATES),),
)


def relayed_item(row: RelayedRow) -> RelayedDrop:
    return {
        "id": row.drop_id, "connection": row.connection, "month": row.month, "operation": row.operation,
        "row_count": row.row_count, "bytes": row.n_bytes, "key": row.key_name, "state": row.state,
        "refused": row.refused, "accepted_at": rfc3339_ms(row.accepted_at_ms),
        "ended_at": None if row.ended_at_ms is None else rfc3339_ms(row.ended_at_ms),
    }  # fmt: skip


class RelayRows(Protocol):
    """What is kept of relayed drops, inside one commit or snapshot."""

    def keep(self, new: NewDrop, now_ms: int) -> Kept:
        """Keep *new* behind all others, unless it is a repeat or there is no room."""

    def connections(self) -> list[str]:
        """Those for which drops wait."""

    def next_waiting(self, to: str) -> Waiting | None: ...

    def has_other_parts(self, drop_id: str) -> bool:
        """Whether the upstream was sent every other part of the day of this one."""

    def delivered(self, drop_id: str, *, is_partial: bool, now_ms: int) -> None:
        """The upstream has the drop. *is_partial*: it lacks other parts of the day; without, the
        day is in force, and its parts are not needed any more.
        """

    def give_back(self, drop_id: str, *, answered: bool, all_parts: bool) -> None:
        """The drop goes out again, under another idempotency key where the upstream *answered*;
        *all_parts*: so do the parts of its day that were sent.
        """

    def refuse(self, drop_id: str, why: str, now_ms: int) -> int:
        """The upstream refuses the drop. How many older refused ones were given up for its room."""

    def retry(self, drop_id: str) -> str | None:
        """Send a refused drop again, in its old place; its connection, None where it is not
        refused.
        """

    def remove(self, drop_id: str) -> bool:
        """Give up a drop that waits or was refused; False where there is none."""

    def queues(self) -> Sequence[Queue]:
        """By connection, of those with drops that wait or were refused."""

    def page(self, request: ListRequest) -> Page:
        """Its items are `RelayedDrop`."""


RelayHome = Home[RelayRows]
