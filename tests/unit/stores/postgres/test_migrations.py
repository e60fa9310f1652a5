"""The tables of stores that both engines have: texts are compared by their bytes."""

from pathlib import Path

from gateway.common.storage.database import scripts_of
from gateway.stores.postgres import migrations
from gateway.stores.postgres.database import PostgresConnection, PostgresDatabase
from gateway.stores.sqlite import migrations as sqlite_migrations
from tests.support.postgres import needs_postgres, shared_server

pytestmark = needs_postgres

OF_SQLITE, OF_POSTGRES = (
    {path.parent.name for path in Path(folder.__path__[0]).glob("*/0001_*.sql")}
    for folder in (sqlite_migrations, migrations)
)
TEXTS = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
    " AND data_type = 'text' AND table_name <> 'parts' AND collation_name IS DISTINCT FROM 'C'"
)


def other_texts(connection: PostgresConnection) -> list[tuple[str, str]]:
    return list(connection.execute(TEXTS))


async def test_every_text_is_compared_by_its_bytes() -> None:
    database = await PostgresDatabase.open(shared_server().new_schema(), durability="storage")
    for part in sorted(OF_SQLITE & OF_POSTGRES):
        await database.migrate(part, scripts_of(f"{migrations.__name__}.{part}"))
    assert await database.read(other_texts) == []
    await database.write(lambda c: c.execute("CREATE TABLE other (name TEXT)"))
    assert await database.read(other_texts) == [("other", "name")], "the server orders texts otherwise"
    await database.close()
