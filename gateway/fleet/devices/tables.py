"""The tables of devices in control.db."""

from importlib.resources import files

from gateway.common.storage.database import Database

_SCRIPTS = ("0001_devices.sql", "0002_enrolment_bodies.sql")


def scripts() -> list[str]:
    """In order: each brings the tables one step forward."""
    folder = files("gateway.fleet.devices.migrations")
    return [(folder / name).read_text() for name in _SCRIPTS]


async def migrate(database: Database) -> None:
    """Make or bring them forward. Raises DatabaseUnavailable."""
    await database.migrate("devices", scripts())
