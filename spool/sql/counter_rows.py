"""The counters as they are kept: one row of `meta`, written in the commit that changes them."""

import orjson

from spool.counters import Counters
from spool.errors import SpoolCorrupt
from spool.sql.connection import Connection


def load_counters(connection: Connection) -> Counters:
    """The counters as committed last. Raises SpoolCorrupt when they cannot be read."""
    found = connection.execute("SELECT value FROM meta WHERE name='figures'").fetchone()
    try:
        return Counters() if found is None else Counters.from_json(orjson.loads(found[0]))
    except (ValueError, KeyError, TypeError) as error:
        raise SpoolCorrupt("the spool's figures cannot be read") from error


def save_counters(connection: Connection, counters: Counters) -> None:
    connection.execute(
        "INSERT INTO meta (name, value) VALUES ('figures', ?) ON CONFLICT (name) DO UPDATE SET value=excluded.value",
        (orjson.dumps(counters).decode(),),
    )
