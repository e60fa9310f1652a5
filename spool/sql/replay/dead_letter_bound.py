"""How many bytes of records the dead letters may take.

That is what the limits allow (`SpoolSettings.dead_letter_bytes`), or more after a limit was
lowered: it deletes nothing that is kept. The bound is kept in the file, so that a start under other
limits knows it, and it only falls as far as no dead letter has to go for it.
"""

from spool.sql.connection import Connection

NAME = "dead_letter_bound"
"""In `meta`."""


def opened(connection: Connection, limit_bytes: int) -> int:
    """The bound at a start. A file without one keeps what it has."""
    found = connection.execute("SELECT value FROM meta WHERE name=?", (NAME,)).fetchone()
    before = _kept_bytes(connection) if found is None else int(found[0])
    return keep(connection, max(limit_bytes, before))


def keep(connection: Connection, bound_bytes: int) -> int:
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value=excluded.value",
        (NAME, str(bound_bytes)),
    )
    return bound_bytes


def lowered(bound_bytes: int, kept_bytes: int, limit_bytes: int, *, is_over_max_bytes: bool) -> int:
    """The bound from now on, with *kept_bytes* of dead letters.

    A spool that holds more than `max_bytes` takes nothing new. What it holds came under the former
    limits, and is kept within the former bound where the upstream refuses it.
    """
    needed = bound_bytes if is_over_max_bytes else min(bound_bytes, kept_bytes)
    return max(limit_bytes, needed)


def _kept_bytes(connection: Connection) -> int:
    (found,) = connection.execute("SELECT coalesce(sum(bytes), 0) FROM dead_letter").fetchone()
    return int(found)
