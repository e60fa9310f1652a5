"""Whether a Postgres answers a commit only when it is durable."""

from collections.abc import Mapping
from typing import Final, Literal

Durability = Literal["quorum", "storage"]
"""Where a commit is kept when it is answered: on standbys as well, or on storage that is replicated
below the database (Aurora, RDS Multi-AZ).
"""

SETTINGS: Final = ("fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names")
_DURABLE_COMMITS: Final = ("on", "remote_apply")


def unsafe_settings(settings: Mapping[str, str], durability: Durability) -> list[str]:
    """What would let an answered commit be lost, each with its remedy; empty where nothing would.

    *settings*: the values of `SETTINGS` for this role, as pg_settings has them.
    """
    found = [
        f"{name} is off: a crash of the server can lose or tear what was committed; set {name} = on"
        for name in ("fsync", "full_page_writes")
        if settings[name] != "on"
    ]
    if settings["synchronous_commit"] not in _DURABLE_COMMITS:
        found.append(
            f"synchronous_commit is {settings['synchronous_commit']} for this role: a commit is answered before it is"
            " on disk everywhere; set synchronous_commit = on"
        )
    if durability == "quorum" and not settings["synchronous_standby_names"].strip():
        found.append(
            "synchronous_standby_names is empty: a failover loses what no standby has; name the standbys"
            " (ANY 1 (…)), or declare `durability: storage` where the storage itself is replicated"
        )
    return found
