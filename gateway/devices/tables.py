"""The tables of devices in control.db."""

from importlib.resources import files

from gateway.keys.database import Database

_SCRIPTS = ("0001_devices.sql",)


async def migrate(database: Database) -> None:
    """Make or bring them forward. Raises DatabaseUnavailable."""
    folder = files("gateway.devices.migrations")
    await database.migrate("devices", [(folder / name).read_text() for name in _SCRIPTS])
