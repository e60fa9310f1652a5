"""What settling reads from the spool and writes to it: positions, changes, evidence. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

MERGED: Final = "kept.merged"
"""Outcome of a record that stands for several observations of its call."""
MOVED: Final = "kept.moved"
"""Outcome of a record that waits on in a later chunk: it left its
position, and counts as before."""


class Position(NamedTuple):
    """A record: the number of its chunk, and its index there."""

    seq: int
    idx: int


class Change(NamedTuple):
    """What settling decided about one record."""

    seq: int
    idx: int
    outcome: str
    """`duplicate.<reason>` or `suppressed.<reason>` drops it;
    `kept.merged` replaces it by *record*."""
    record: bytes | None


class Moved(NamedTuple):
    """Records that settling moves into chunk *seq*, with their evidence."""

    seq: int
    received_ms: int
    records: Sequence[bytes]
    facts: bytes


class Evidence(NamedTuple):
    """What the ledger needs of a chunk to know at start what it knew before."""

    seq: int
    received_ms: int
    n: int
    facts: bytes
    links: bytes
    dropped: dict[int, str]
    """Index -> outcome of the records that settling dropped."""
    merged: frozenset[int]
    """Indexes of those that stand for several observations:
    decided before their own chunk settles."""


class Outcomes(NamedTuple):
    """What settling made of each record of some settled chunks, in order."""

    items: list[tuple[str, bytes]]
    """Outcome (`kept`, `kept.merged`, `duplicate.<reason>`, `suppressed.<reason>`, …), and the
    record: as it stands, or as it was dropped. Moved ones come with their later chunk."""
    through_seq: int
    is_more: bool
    skipped: int
    """Records that were passed over, because the reader was too far behind."""


class Settled(NamedTuple):
    """Settled records, in order."""

    records: list[bytes]
    """As settling left them: without those it dropped, merged
    ones in place of what they stand for."""
    through_seq: int
    """The chunk that they reach; the next read begins after it."""
    is_more: bool
