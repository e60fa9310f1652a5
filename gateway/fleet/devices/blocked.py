"""What blocked devices sent is refused item by item, so that others in the same payload lose
nothing.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import orjson

from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.counting.calls.digest import DIGEST_BYTES
from gateway.fleet.devices.attribution import Labels
from gateway.fleet.devices.home import DeviceHome
from gateway.rules.context import Context
from gateway.rules.points import UsagePoints

REASON: Final = "device_blocked"
SUM: Final = b'"kind":"aggregate"'
LOOK_S: Final = 0.5
MAX_BLOCKED: Final = 10_000
"""Devices that an edge knows to be blocked. What further ones send is left out by the owner."""


class BlockedDevices:
    """Of a cell, as an edge knows them: all else about devices is the owner's to know."""

    def __init__(self, home: DeviceHome) -> None:
        self._home = home
        self._ids = frozenset[str]()

    async def run(self) -> None:
        """Ask who is blocked, until cancelled. Those that are known stay while nobody answers."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        try:
            found = await self._home.read(lambda kept: kept.blocked(MAX_BLOCKED))
        except DatabaseUnavailable:
            return
        self._ids = frozenset(found)

    async def admitted(self, packed: ParsedPayload) -> tuple[ParsedPayload, Mapping[str, Labels]]:
        """*packed* without the calls of blocked devices. The labels are the owner's to know."""
        blocked = self._among(packed)
        return without(packed, blocked) if blocked else packed, {}

    def labels_at_once(self, packed: ParsedPayload) -> Mapping[str, Labels] | None:
        """None where a device in *packed* is blocked."""
        return None if self._among(packed) else {}

    async def admit_points(self, measured: UsagePoints, context: Context) -> bool:
        """As `DeviceIntake` has it."""
        return without_points(measured, self._ids)

    def _among(self, packed: ParsedPayload) -> set[str]:
        return {each for each in devices_in(packed) if each in self._ids} if self._ids else set()


def devices_in(packed: ParsedPayload) -> dict[str, str | None]:
    """Device -> the name of its service."""
    return {used[1]: used[0] for used in packed.used if used[1] is not None} | of_sums(packed.records)


def of_sums(records: Sequence[bytes]) -> dict[str, str | None]:
    """Device -> service of the records that are another gateway's sums:
    `ParsedPayload.used` names calls alone.
    """
    said = (orjson.loads(record)["attribution"] for record in records if SUM in record)
    return {who["device_id"]: who.get("service_name") for who in said if who.get("device_id")}


def without(packed: ParsedPayload, blocked: set[str]) -> ParsedPayload:
    """*packed* less the calls of the *blocked* devices, which are rejected."""
    kept, rejected = [], list(packed.rejected)
    for at, data in enumerate(packed.records):
        record = orjson.loads(data)
        if record["attribution"].get("device_id") in blocked:
            rejected.append((REASON, packed.stated.get(record["record_id"], f"calls[{at}]")))
        else:
            kept.append(at)
    return packed._replace(
        records=[packed.records[at] for at in kept],
        rows=b"".join(packed.rows[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES] for at in kept),
        used=[used for used in packed.used if used[1] not in blocked],
        rejected=rejected,
    )


def without_points(measured: UsagePoints, blocked: Collection[str]) -> bool:
    """Take the points of *blocked* devices out of *measured*, which rejects them; False when none
    is left of those that there were.
    """
    resources = {point.labels.resource for point in measured.points}
    refused = {at for at in resources if measured.attributions[at].get("device_id") in blocked}
    if not refused:
        return True
    points = measured.points
    measured.points = [point for point in points if point.labels.resource not in refused]
    measured.rejected += [
        Rejection(REASON, f"resourceMetrics[{point.labels.resource}]")
        for point in points
        if point.labels.resource in refused
    ]
    return bool(measured.points)
