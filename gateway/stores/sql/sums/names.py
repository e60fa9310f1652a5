"""Names of models, teams, users, … by number. Functions run in the caller's transaction.

A number below 16 is no name: unknown, other, forgotten. So no name that a sender makes up can be
taken for one of these.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from gateway.stores.sql.one_of import one_of
from gateway.usage.sums import bounds
from gateway.usage.sums.grains import FORGOTTEN_ID, OTHER_ID, UNKNOWN_ID
from gateway.usage.sums.names import Absent, Name
from spool.sql.connection import Connection

_MAX_PARAMETERS: Final = 500
_ABSENT: Final[Mapping[int, Absent]] = {
    UNKNOWN_ID: Absent.UNKNOWN,
    OTHER_ID: Absent.OTHER,
    FORGOTTEN_ID: Absent.FORGOTTEN,
}
_IDS_OF_ABSENT: Final = {absent: number for number, absent in _ABSENT.items()}
_NO_NAME: Final = -1


def ids_of(connection: Connection, names: Iterable[str], *, most: int | None = None) -> dict[str, int]:
    """The number of each of *names*, made where it has none yet; "" is unknown, and a name beyond
    *most* (`bounds.MAX_NAMES` where it is None) is other.
    """
    wanted = set(names) - {""}
    found = _known(connection, wanted)
    if new := sorted(wanted - found.keys()):
        (held,) = connection.execute("SELECT count(*) FROM usage_names").fetchone()
        room = max(0, (bounds.MAX_NAMES if most is None else most) - held)
        connection.executemany("INSERT INTO usage_names (name) VALUES (?)", ((name,) for name in new[:room]))
        found |= _known(connection, new[:room]) | dict.fromkeys(new[room:], OTHER_ID)
    return {**found, "": UNKNOWN_ID}


def ids_asked(connection: Connection, names: Collection[Name]) -> list[int]:
    """The numbers of *names* in a question; of a name that nothing has, one that nothing has."""
    known = _known(connection, [name for name in names if isinstance(name, str)])
    return [known.get(name, _NO_NAME) if isinstance(name, str) else _IDS_OF_ABSENT[name] for name in names]


def names_of(connection: Connection, ids: Iterable[int]) -> dict[int, Name]:
    among, parameters = one_of(connection, {*ids}, "BIGINT")
    rows = connection.execute(f"SELECT id, name FROM usage_names WHERE id IN {among}", parameters)  # noqa: S608 - own SQL
    return {**_ABSENT, **dict(rows)}


def largest_id(connection: Connection) -> int:
    """At least 15."""
    (largest,) = connection.execute("SELECT max(id) FROM usage_names").fetchone()
    return int(largest)


def count(connection: Connection) -> int:
    (held,) = connection.execute("SELECT count(*) FROM usage_names").fetchone()
    return int(held)


def all_ids(connection: Connection) -> set[int]:
    """Of names, without those below 16."""
    return {number for (number,) in connection.execute("SELECT id FROM usage_names WHERE id > 15")}


def drop(connection: Connection, ids: Collection[int]) -> None:
    connection.executemany("DELETE FROM usage_names WHERE id = ?", ((number,) for number in ids))


def _known(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for some in _parts([*names]):
        marks = ", ".join("?" * len(some))
        found.update(connection.execute(f"SELECT name, id FROM usage_names WHERE name IN ({marks})", some))  # noqa: S608 - own SQL
    return found


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """*names* in parts of which each is few parameters of one statement."""
    return (names[start : start + _MAX_PARAMETERS] for start in range(0, len(names), _MAX_PARAMETERS))
