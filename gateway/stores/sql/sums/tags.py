"""Which tags are kept, and which values each set of tags has. Functions run in the caller's
transaction.

A set is a name like others (`names.py`); `usage_tag_values` has what it holds. A tag has a number,
which makes the grain of its own.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gateway.common.contract.tags import MAX_TAGS, tag_of
from gateway.stores.sql.one_of import one_of
from gateway.stores.sql.sums.columns import quoted
from gateway.stores.sql.sums.names import ids_of
from gateway.usage.sums import bounds
from gateway.usage.sums.figures import COUNTS
from gateway.usage.sums.grains import COLUMNS, FORGOTTEN_ID, OTHER_ID, SERIES, TAGGED, TOTAL, UNKNOWN_ID, tag_grain
from gateway.usage.sums.tags import tags_in
from spool.sql.connection import Connection

_COPIED: Final = ", ".join((*quoted(COLUMNS), *COUNTS, "cost_micro", "cost_rest"))
_COPY: Final = (
    f"INSERT INTO usage_tag_rollups (span, grain, hour, tags, {_COPIED})"  # noqa: S608 - own SQL
    f" SELECT span, ?, hour, 0, {_COPIED} FROM usage_rollups WHERE span = ? AND grain = ?"
)
_FIRST_NAME: Final = 16


def numbers_of(connection: Connection) -> dict[str, int]:
    """Tag -> its number, of all that are kept."""
    return dict(connection.execute("SELECT tag, number FROM usage_tags").fetchall())


def keep(connection: Connection, tags: Collection[str]) -> set[str]:
    """*tags* are kept from now on; which of them had been before. Calls that were counted earlier
    have none. Beyond `MAX_TAGS` those that are not in *tags* are given up.
    """
    held = numbers_of(connection)
    new = [name for name in tags if name not in held]
    if new and not held:
        for span in (1, 24):
            connection.execute(_COPY, (TAGGED.id, span, SERIES.id))
    for name in [each for each in held if each not in tags][: max(0, len(held) + len(new) - MAX_TAGS)]:
        _give_up(connection, name, held.pop(name))
    free = sorted({*range(1, MAX_TAGS + 1)} - {*held.values()})
    connection.executemany("INSERT INTO usage_tags (tag, number) VALUES (?, ?)", [*zip(new, free, strict=False)])
    return {*tags} - {*new}


def begin_tag(connection: Connection, number: int) -> None:
    """All days that are kept, of a tag that no call has had."""
    connection.execute(_COPY, (tag_grain(number).id, 24, TOTAL.id))


def has_values(connection: Connection, tag: str) -> bool:
    """Whether a set that is held has the tag, as it was kept once."""
    found = connection.execute("SELECT 1 FROM usage_tag_values WHERE tag = ? LIMIT 1", (tag,)).fetchone()
    return found is not None


def _give_up(connection: Connection, tag: str, number: int) -> None:
    connection.execute("DELETE FROM usage_tag_rollups WHERE span = 24 AND grain = ?", (tag_grain(number).id,))
    connection.execute("DELETE FROM usage_tags WHERE tag = ?", (tag,))


def ids_of_sets(connection: Connection, texts: Iterable[str]) -> dict[str, int]:
    """The number of each set, and what it holds is noted; a set beyond `bounds.MAX_TAG_SETS` is
    other.
    """
    wanted = {*texts} - {""}
    known = {text: OTHER_ID for text in wanted if len(text.encode()) > bounds.MAX_TAG_SET_BYTES}
    known |= _sets_among(connection, wanted - known.keys())
    if new := sorted(wanted - known.keys()):
        room = max(0, bounds.MAX_TAG_SETS - _count(connection))
        known |= ids_of(connection, new[:room]) | dict.fromkeys(new[room:], OTHER_ID)
        _relate(connection, {text: known[text] for text in new[:room] if known[text] >= _FIRST_NAME})
    return {**known, "": 0}


def _sets_among(connection: Connection, texts: Collection[str]) -> dict[str, int]:
    """Those of *texts* whose content is noted."""
    among, parameters = one_of(connection, sorted(texts), "TEXT")
    return dict(
        connection.execute(
            f"SELECT name, id FROM usage_names WHERE name IN {among}"  # noqa: S608 - own SQL
            " AND EXISTS (SELECT 1 FROM usage_tag_values WHERE set_id = id)",
            parameters,
        ).fetchall()
    )


def _relate(connection: Connection, sets: Mapping[str, int]) -> None:
    held = {text: tags_in(text) for text in sets}
    values = ids_of(connection, {value for tags in held.values() for value in tags.values()})
    rows = [(sets[text], tag, values[value]) for text, tags in held.items() for tag, value in tags.items()]
    connection.executemany("INSERT INTO usage_tag_values (set_id, tag, value_id) VALUES (?, ?, ?)", rows)


def values_of(connection: Connection, sets: Iterable[int], tag: str) -> dict[int, int]:
    """Set -> the value that it has of *tag*; sets without one are left out."""
    among, parameters = one_of(connection, {*sets}, "BIGINT")
    found = connection.execute(
        f"SELECT set_id, value_id FROM usage_tag_values WHERE tag = ? AND set_id IN {among}",  # noqa: S608 - own SQL
        (tag, *parameters),
    )
    return dict(found.fetchall())


def value_sql(dimension: str, *, has_values: bool) -> str:
    """The value of a tag in a row that has a set; without *has_values* no set has one."""
    value = (
        "coalesce((SELECT value_id FROM usage_tag_values"  # noqa: S608 - own SQL; a tag's name is a word
        f" WHERE set_id = tags AND tag = '{tag_of(dimension)}'), {UNKNOWN_ID})"
    )
    return f"CASE WHEN tags <= {FORGOTTEN_ID} THEN tags ELSE {value if has_values else UNKNOWN_ID} END"


def values_in_use(connection: Connection) -> set[int]:
    """Ids that sets refer to."""
    return {each for (each,) in connection.execute("SELECT DISTINCT value_id FROM usage_tag_values")}


def are_many(connection: Connection) -> bool:
    """Whether more than half of the sets that there may be are held."""
    return _count(connection) > bounds.MAX_TAG_SETS // 2


def _count(connection: Connection) -> int:
    (held,) = connection.execute("SELECT count(DISTINCT set_id) FROM usage_tag_values").fetchone()
    return int(held)
