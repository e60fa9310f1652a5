"""Which names of models in the sums are versions of one model. Functions run in the caller's
transaction. The sums themselves keep each name by itself.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from gateway.common.model_versions import model_of
from gateway.stores.sql.one_of import one_of
from gateway.stores.sql.sums.names import drop, ids_of, names_of
from gateway.usage.sums.grains import FORGOTTEN_ID
from spool.sql.connection import Connection

TO_MODEL: Final = " LEFT JOIN usage_model_versions ON version_id = model"
"""Behind the table of the sums: `model_id` is the model that `model` is a version of, null for one
that is none.
"""
_FIRST_NAME: Final = 16


def relate(connection: Connection, models: Mapping[str, int]) -> None:
    """Note of which model each of *models*, name -> id, is a version."""
    dated = {name: model for name in models if (model := model_of(name)) != name}
    if not dated:
        return
    own = ids_of(connection, set(dated.values()))
    connection.executemany(
        "INSERT INTO usage_model_versions (version_id, model_id) VALUES (?, ?) ON CONFLICT (version_id) DO NOTHING",
        [(models[name], own[model]) for name, model in dated.items() if min(models[name], own[model]) >= _FIRST_NAME],
    )


def relate_known(connection: Connection) -> None:
    """The same of all names that an earlier release counted, once."""
    (are_known,) = connection.execute("SELECT are_versions_known FROM usage_rollup_state").fetchone()
    if are_known:
        return
    ids = [each for (each,) in connection.execute("SELECT DISTINCT model FROM usage_rollups") if each > FORGOTTEN_ID]
    relate(connection, {name: each for each, name in names_of(connection, ids).items() if isinstance(name, str)})
    connection.execute("UPDATE usage_rollup_state SET are_versions_known = TRUE")


def and_versions(connection: Connection, models: Sequence[int]) -> list[int]:
    """*models* and the ids of their versions."""
    among, parameters = one_of(connection, models, "BIGINT")
    found = connection.execute(
        f"SELECT version_id FROM usage_model_versions WHERE model_id IN {among}",  # noqa: S608 - own SQL
        parameters,
    )
    return [*models, *(version for (version,) in found)]


def of_others(connection: Connection) -> set[int]:
    """Ids of models that versions refer to."""
    return {each for (each,) in connection.execute("SELECT DISTINCT model_id FROM usage_model_versions")}


def drop_names(connection: Connection, ids: Collection[int]) -> None:
    """Delete the names *ids*, their relations to models, and what they hold as sets of tags: SQLite
    may use an id again.
    """
    connection.executemany("DELETE FROM usage_model_versions WHERE version_id = ?", ((each,) for each in ids))
    connection.executemany("DELETE FROM usage_tag_values WHERE set_id = ?", ((each,) for each in ids))
    drop(connection, ids)
