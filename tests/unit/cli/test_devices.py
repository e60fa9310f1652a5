"""`devices list` on the files of a stopped gateway."""

import json
from pathlib import Path

from gateway.common.storage.database import Database
from gateway.common.wall_clock import wall_ms
from gateway.fleet.devices.home import DeviceRows
from gateway.fleet.devices.rows import New
from gateway.stores.sql.devices import SqlDevices
from spool.data_dir import make_data_dir
from tests.support.commands import run_telemetry_gateway

AGO_MS = {"a": 1_000, "b": 90_000, "c": 40_000}
"""Device -> how long before now it was heard last."""


async def make_devices(folder: Path) -> None:
    make_data_dir(folder)
    database = await Database.open(folder / "control.db")

    def insert(rows: DeviceRows) -> None:
        for name, ago_ms in AGO_MS.items():
            rows.insert(New(name, "server", "telemetry"), wall_ms() - ago_ms)

    await (await SqlDevices.open(database)).commit(insert)
    await database.close()


async def test_devices_are_listed_by_what_is_asked(tmp_path: Path) -> None:
    await make_devices(tmp_path / "data")

    def listed(*options: str) -> list[str]:
        environ = {"TELEMETRY_GATEWAY_DATA": str(tmp_path / "data")}
        ended = run_telemetry_gateway("devices", "list", "--json", *options, environ=environ)
        assert ended.code == 0, ended.err
        return [each["device_id"] for each in json.loads(ended.out)["devices"]]

    assert listed() == ["a", "b", "c"]
    assert listed("--sort", "last_contact_at") == ["b", "c", "a"]
    assert listed("--sort", "last_contact_at", "--desc", "--limit", "2") == ["a", "c"]
