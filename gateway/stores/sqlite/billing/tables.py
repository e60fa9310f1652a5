"""The tables of billing drops in control.db: those by day, and those that are relayed."""

from gateway.common.storage.database import Database, scripts_of


async def make_billing_tables(database: Database) -> None:
    """Raises DatabaseUnavailable."""
    await database.migrate("billing", scripts_of("gateway.stores.sqlite.migrations.billing"))
