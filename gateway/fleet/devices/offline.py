"""The devices of a stopped gateway."""

from collections.abc import Callable
from typing import Any, TypeVar

from gateway.common.contract.errors import NoAnswer
from gateway.fleet.devices.clocks import Now
from gateway.fleet.devices.home import DeviceHome, DeviceRows
from gateway.fleet.devices.operated import OperatedDevices
from gateway.fleet.devices.rows import Device

T = TypeVar("T")


class OfflineDevices(OperatedDevices):
    def __init__(self, home: DeviceHome, now: Now) -> None:
        self._home = home
        self._now = now

    def now(self) -> Now:
        return self._now

    async def read(self, question: Callable[[DeviceRows], T]) -> T:
        return await self._home.read(question)

    async def change(self, change: Callable[[DeviceRows], T]) -> T:
        return await self._home.commit(change)

    async def ask_service(self, device: Device) -> dict[str, Any]:
        """Raises NoAnswer."""
        raise NoAnswer("no gateway runs to ask the upstream: start it first")
