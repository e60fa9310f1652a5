"""What senders bring of devices: heartbeats, pings and enrolments by themselves, and first
contacts beside telemetry.

Telemetry never waits for the service: a device that is new is on disk with its enrolment before the
sender is answered, one that is known costs a look into memory. What a blocked device sends is
refused item by item, so that others in the same payload lose nothing.
"""

from collections.abc import Iterable, Mapping

import orjson
import structlog

from gateway.common.contract.device_identity import ID_RULE, POSTED, is_device_id, kind_of_service
from gateway.common.contract.errors import (
    BadPayload,
    DeviceBlocked,
    DeviceQuarantined,
    DeviceUnknown,
    Forbidden,
    TooManyDevices,
)
from gateway.common.contract.intake import Receipt, Sender
from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.common.contract.scopes import ENROLL_SCOPE
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.devices.attribution import Labels, attribute_points
from gateway.fleet.devices.blocked import devices_in, without, without_points
from gateway.fleet.devices.contacts import Inserts, Taken
from gateway.fleet.devices.heartbeat_body import decode_enrolment, decode_heartbeat
from gateway.fleet.devices.rows import New
from gateway.fleet.devices.store import DeviceStore
from gateway.rules.context import Context
from gateway.rules.points import UsagePoints

log = structlog.get_logger()


class DeviceIntake:
    def __init__(self, store: DeviceStore, *, telemetry_enrolls: bool, needs_row: bool = False) -> None:
        """*telemetry_enrolls*: a device that is named by telemetry alone is enrolled too.

        *needs_row*: it must be written down before its telemetry is.
        """
        self._store = store
        self._telemetry_enrolls = telemetry_enrolls
        self._needs_row = needs_row

    # ---- by themselves

    async def heartbeat(self, device_id: str, body: bytes, sender: Sender, *, enrolls: bool = True) -> Receipt:
        """A new device is enrolled where the route *enrolls* and the key of *sender* may.

        A gateway that forwards is asked to enrol it instead: its enrolment states more of the
        device than the heartbeat that it would begin with here. Raises BadPayload, DeviceBlocked,
        TooManyDevices, DatabaseUnavailable; of a new device DeviceUnknown, Forbidden.
        """
        beat, may_enroll = decode_heartbeat(body), sender.may(ENROLL_SCOPE)
        inserts = Inserts(strangers=enrolls and may_enroll, clones=may_enroll)
        taken = await self._store.heartbeat(checked(device_id), beat, inserts)
        if taken.outcome == "unknown" and not enrolls:
            raise DeviceUnknown("the device is not enrolled here: enrol it again")
        if taken.outcome == "unknown":
            text = f"the device is not enrolled, and the API key lacks the scope {ENROLL_SCOPE}: its heartbeats are taken once it is"
            raise Forbidden(text, reason="scope_missing", key=sender.key)
        return self._receipt(taken)

    async def ping(self, device_id: str, sender: Sender, *, enrolls: bool = True) -> Receipt:
        """A new device is enrolled on open intake alone. Raises as `heartbeat`."""
        taken = await self._store.ping(checked(device_id), inserts=enrolls and sender.key is None)
        if taken.outcome == "unknown":
            raise DeviceUnknown(f"the device is not enrolled here: a key with the scope {ENROLL_SCOPE} enrols it")
        return self._receipt(taken)

    async def enroll(self, body: bytes) -> Receipt:
        """Raises as `heartbeat`."""
        said = decode_enrolment(body)
        kind = said.kind or POSTED
        new = New(checked(said.device_id), kind, "enrolment", orjson.dumps(said.details), said.instance_id)
        return self._receipt(await self._store.enroll(new, states_kind=said.kind is not None))

    def _receipt(self, taken: Taken) -> Receipt:
        if taken.state is None:
            error = TooManyDevices("more new devices than devices.max_new_per_hour allows: come again later")
            error.retry_after_s = self._store.new_device_wait_s()
            raise error
        if taken.outcome == "rejected":
            refused = DeviceQuarantined if taken.state == "quarantined" else DeviceBlocked
            raise refused(
                f"the device is {taken.state}: nothing of it is taken until an operator lets it in again"
                " (telemetry-gateway devices unblock)"
            )
        interval_ms = taken.interval_ms or self._store.interval_ms
        return Receipt(1, (), answer={"state": taken.state, "heartbeat_interval_s": interval_ms / 1000})

    # ---- beside telemetry

    async def admitted(self, packed: ParsedPayload) -> tuple[ParsedPayload, Mapping[str, Labels]]:
        """*packed* without the calls of blocked devices, and the labels of its devices.

        A new device is on disk when this returns. Raises DatabaseUnavailable where it must be.
        """
        services = devices_in(packed)
        if not services:
            return packed, {}
        blocked = await self._met(services)
        return without(packed, blocked) if blocked else packed, self._labels_of(services)

    def labels_at_once(self, packed: ParsedPayload) -> Mapping[str, Labels] | None:
        """The labels of the devices in *packed*, where each is known and none is blocked; None
        where one is not.
        """
        services = devices_in(packed)
        if services and (self._store.strangers(services) or any(map(self._store.is_blocked, services))):
            return None
        return self._labels_of(services)

    def _labels_of(self, services: Mapping[str, str | None]) -> dict[str, Labels]:
        return {device_id: labels for device_id in services if (labels := self._store.labels(device_id))}

    async def admit_points(self, measured: UsagePoints, context: Context) -> bool:
        """The same for usage points, in place; False when none is left of those that there were."""
        resources = {point.labels.resource for point in measured.points}
        attributions = [measured.attributions[resource] for resource in resources]
        services = {said["device_id"]: said.get("service_name") for said in attributions if said.get("device_id")}
        if not services:
            return True
        known = {key: value for key, value in services.items() if key}
        blocked = await self._met(known)
        if labels := self._labels_of(known):
            attribute_points(measured, labels, context)
        return without_points(measured, blocked)

    async def _met(self, services: Mapping[str, str | None]) -> set[str]:
        """Who of these devices is blocked. *services*: device -> the name of its service."""
        strangers = self._store.strangers(services)
        if strangers:
            await self._meet(strangers, services)
        return {device_id for device_id in services if self._store.is_blocked(device_id)}

    async def _meet(self, strangers: Iterable[str], services: Mapping[str, str | None]) -> None:
        """First contacts.

        Telemetry is refused because they cannot be written only where a row is needed: the device's
        next payload is another one.
        """
        new = [
            New(x, kind_of_service(services[x]), "telemetry", client_of(services[x]))
            for x in strangers
            if is_device_id(x)
        ]
        try:
            await self._store.meet(new, insert=self._telemetry_enrolls)
        except DatabaseUnavailable as error:
            if self._needs_row and not await self._knows_all(new):
                raise
            log.warning("devices cannot be written down", error=str(error))

    async def _knows_all(self, new: Iterable[New]) -> bool:
        """Raises DatabaseUnavailable where that cannot be read either."""
        return all([await self._store.knows(each.device_id) for each in new])


def checked(device_id: str) -> str:
    """Raises BadPayload."""
    if not is_device_id(device_id):
        raise BadPayload(f"device_id {ID_RULE}")
    return device_id


def client_of(service_name: str | None) -> bytes:
    """What is known of a device that only sends telemetry."""
    return orjson.dumps({"client": {"name": service_name}} if service_name else {})
