"""What goes out, in one transaction each: enrolments and heartbeats that are due, and what the
service's answers make of the device.

An answer counts only for the enrolment or heartbeat that it was given to: what was
replaced since stays as it is.
"""

import sqlite3
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import orjson

from exporters.cost_service.devices import DeviceAnswer
from gateway.common.contract.device_identity import is_device_id
from gateway.fleet.devices import rows
from gateway.fleet.devices.heartbeats import OFFLINE_INTERVALS, OFFLINE_LEAST_MS, due_ms
from gateway.fleet.devices.rows import Device
from gateway.fleet.devices.states import KNOWN, may

LEASE_MS: Final = 120_000
VERDICT_MS: Final = 20_000
"""A device that the service forgot waits so long before it is enrolled again: by then a fleet
of twenty shows whether it was the only one."""
COOLDOWN_MS: Final = 60_000
"""Between two enrolments of one device."""
MAX_CYCLES: Final = 3
"""Of being forgotten and enrolled again within an hour."""
MAX_FORBIDDEN: Final = 3
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
INACTIVE_MS: Final = 14 * DAY_MS
FORGET_MS: Final = 90 * DAY_MS

LAST_CLAIM: Final = "last_claim_ms"
FORGOTTEN_BY_ALL: Final = "breaker_open"


class Enrolment(NamedTuple):
    """One that was taken to be sent."""

    device: Device
    enrollment_id: str
    attempts: int
    """This one included."""
    generation: int
    body: bytes
    """The same at each try."""


class Spoke(NamedTuple):
    device_no: int
    last_contact_ms: int


# ---- enrolments


def claim(
    connection: sqlite3.Connection, now_ms: int, most: int, *, again: bool, body_of: Callable[[Device, str], bytes]
) -> list[Enrolment]:
    """Take up to *most* that are due, the longest due first; with *again*, also of devices
    that the service had forgotten.

    *body_of*: what is sent of a device under an enrollment id; asked at the first try.
    """
    taken = connection.execute(
        "UPDATE enrolments SET lease_ms = ?2, attempts = attempts + 1 WHERE device_no IN"
        " (SELECT device_no FROM enrolments WHERE due_ms <= ?1 AND lease_ms <= ?1 AND again <= ?4"
        " ORDER BY due_ms, device_no LIMIT ?3)"
        " RETURNING device_no, enrollment_id, attempts, generation, body",
        (now_ms, now_ms + LEASE_MS, most, int(again)),
    ).fetchall()
    if taken:
        rows.note(connection, LAST_CLAIM, now_ms)
    claimed = []
    for device_no, enrollment_id, attempts, generation, sent in taken:
        device = rows.by_number(connection, device_no)
        if device is not None:
            is_repeat = attempts > 1 and sent is not None
            body = sent if is_repeat else body_of(device, enrollment_id)
            if not is_repeat:
                connection.execute("UPDATE enrolments SET body = ? WHERE device_no = ?", (body, device_no))
            device = rows.move(connection, device, "claimed")
            claimed.append(Enrolment(device, enrollment_id, attempts, generation, body))
    return claimed


def free_leases(connection: sqlite3.Connection) -> None:
    """At the start no one is sending."""
    connection.execute("UPDATE enrolments SET lease_ms = 0 WHERE lease_ms > 0")


def put_back(connection: sqlite3.Connection, sent: Enrolment, due_ms: int, *, answered: bool, tried: bool) -> None:
    """It is to be sent again. *answered*: an error came. *tried*: it left this machine."""
    device = _waiting_for(connection, sent)
    if device is None:
        return
    connection.execute(
        "UPDATE enrolments SET lease_ms = 0, due_ms = ?, generation = generation + ?, attempts = attempts - ?"
        " WHERE device_no = ?",
        (due_ms, int(answered), int(not tried), device.device_no),
    )
    rows.move(connection, device, "put_back")


def enrolled(connection: sqlite3.Connection, sent: Enrolment, answer: DeviceAnswer, now_ms: int) -> None:
    """Apply the upstream's *answer* to an enrolment; nothing where it was replaced meanwhile."""
    device = _waiting_for(connection, sent)
    if device is None:
        return
    match answer.state:
        case "blocked":
            rows.blocked(connection, device, "the service blocked it")
        case "quarantined":
            reason = (
                f"the service refused its enrolment: {answer.message}"
                if answer.message
                else "the service refused its enrolment"
            )
            rows.move(connection, rows.give_up_waiting(connection, device), "refused", reason=reason)
        case _:
            _accept(connection, device, answer, now_ms)


def _accept(connection: sqlite3.Connection, device: Device, answer: DeviceAnswer, now_ms: int) -> None:
    adopted = answer.adopted_id if answer.adopted_id is not None and is_device_id(answer.adopted_id) else None
    if device.enrolment_waits:
        rows.count_lane(connection, "delivered")
    device = rows.move(
        connection,
        device,
        "accepted",
        enrolled_ms=now_ms,
        reason=None,
        forbidden=0,
        enrolment_waits=0,
        beat_due_ms=now_ms if device.beat_waits else None,
        beat_sent_ms=None,
        interval_ms=_interval_ms(answer, device),
        upstream_id=adopted or device.upstream_id,
    )
    if adopted is not None:
        connection.execute(
            "INSERT OR REPLACE INTO device_aliases (alias, device_no) VALUES (?, ?)", (adopted, device.device_no)
        )


def _waiting_for(connection: sqlite3.Connection, sent: Enrolment) -> Device | None:
    """The device, while this very enrolment is the one that it waits for."""
    row = connection.execute(
        "SELECT device_no FROM enrolments WHERE enrollment_id = ?", (sent.enrollment_id,)
    ).fetchone()
    return None if row is None else rows.by_number(connection, row[0])


def forbidden(connection: sqlite3.Connection, device_no: int, message: str) -> bool:
    """An answer that may be about the device or about the key; True when it is held to
    be about the device by now.
    """
    device = rows.by_number(connection, device_no)
    if device is None:
        return True
    device = rows.save(connection, device, forbidden=device.forbidden + 1)
    if device.forbidden < MAX_FORBIDDEN or not may(device.state, "refused"):
        return False
    reason = f"the service refuses it, and takes others: {message}"
    rows.move(connection, rows.give_up_waiting(connection, device), "refused", reason=reason)
    return True


_LOST: Final = "device_no IN (SELECT device_no FROM enrolments WHERE again = 1)"


def lost(connection: sqlite3.Connection, after_no: int) -> Device | None:
    """One of those that are to be enrolled again because the service had forgotten them: the
    next after *after_no*, and round again.

    So that one which the service really dropped is not the only one that is asked for.
    """
    found = rows.chosen(connection, _LOST + " ORDER BY device_no <= ?, device_no LIMIT 1", (after_no,))
    return found[0] if found else None


def recall(connection: sqlite3.Connection) -> int:
    """The service knows them after all: drop the enrolments that
    were to come, and were not sent.

    They count as no cycle.
    """
    devices = rows.chosen(connection, _LOST + " AND state = 'reenrolling'", ())
    for device in devices:
        cycles = orjson.loads(device.cycles)[:-1]
        rows.move(connection, device, "recalled", cycles=orjson.dumps(cycles))
    return len(devices)


# ---- heartbeats


def due_beats(connection: sqlite3.Connection, now_ms: int, most: int, but_for: Collection[int]) -> list[Device]:
    """Devices whose turn it is, the longest due first; never those in *but_for*."""
    found = connection.execute(
        f"SELECT {rows.COLUMNS} FROM devices WHERE beat_due_ms <= ? AND state IN {_KNOWN} ORDER BY beat_due_ms LIMIT ?",  # noqa: S608 our own names
        (now_ms, most + len(but_for)),
    )
    return [device for device in (Device(*row) for row in found) if device.device_no not in but_for][:most]


_KNOWN: Final = "(" + ", ".join(f"'{state}'" for state in sorted(KNOWN)) + ")"


def beaten(connection: sqlite3.Connection, sent: Device, answer: DeviceAnswer, now_ms: int) -> None:
    """The service answered the heartbeat or ping that *sent* was read with."""
    device = rows.by_number(connection, sent.device_no)
    if device is None:
        return
    match answer.state:
        case "blocked":
            rows.blocked(connection, device, "the service blocked it")
        case "unknown":
            _forgotten(connection, device, now_ms)
        case _:
            _sent(connection, device, sent, answer, now_ms)


def _sent(connection: sqlite3.Connection, device: Device, sent: Device, answer: DeviceAnswer, now_ms: int) -> None:
    interval_ms = _interval_ms(answer, device)
    done = {"beat_sent_ms": now_ms, "interval_ms": interval_ms, "forbidden": 0}
    if device.beat_no == sent.beat_no:
        if device.beat_waits:
            rows.count_lane(connection, "delivered")
        rows.save(connection, device, **done, beat=None, beat_due_ms=None, beat_waits=0)
        return
    # A later one came meanwhile. It was counted as standing in for this one; now each has its
    # own
    # outcome.
    slot_ms = due_ms(device.device_id, interval_ms or 60_000, now_ms, now_ms)
    if sent.beat_waits and device.beat_waits:
        rows.change_outcome(connection, "suppressed", "superseded", -1)
        rows.change_outcome(connection, "kept")
        rows.count_lane(connection, "delivered")
    rows.save(connection, device, **done, beat_due_ms=slot_ms)


def given_up(connection: sqlite3.Connection, sent: Device) -> None:
    """The service will not take this heartbeat."""
    device = rows.by_number(connection, sent.device_no)
    if device is not None and device.beat_no == sent.beat_no:
        _expire(connection, device)


def expire_beats(connection: sqlite3.Connection, now_ms: int, interval_ms: int, but_for: Collection[int]) -> int:
    """Drop what is late by more than an interval: the next heartbeat states more."""
    late = rows.chosen(connection, "beat_due_ms < ? - ifnull(interval_ms, ?) LIMIT 1000", (now_ms, interval_ms))
    late = [device for device in late if device.device_no not in but_for]
    for device in late:
        _expire(connection, device)
    return len(late)


def _expire(connection: sqlite3.Connection, device: Device) -> None:
    if device.beat_waits:
        rows.count_lane(connection, "expired")
    rows.save(connection, device, beat=None, beat_due_ms=None, beat_waits=0)


def _forgotten(connection: sqlite3.Connection, device: Device, now_ms: int) -> None:
    if device.state not in KNOWN:
        return
    cycles = [at_ms for at_ms in orjson.loads(device.cycles) if at_ms > now_ms - HOUR_MS]
    if len(cycles) >= MAX_CYCLES:
        reason = f"the service forgot it {len(cycles) + 1} times within an hour"
        rows.move(connection, rows.give_up_waiting(connection, device), "forgotten_again", reason=reason)
        return
    cycles.append(now_ms)
    device = rows.move(connection, device, "forgotten", epoch=device.epoch + 1, cycles=orjson.dumps(cycles))
    enrol_ms = max(now_ms + VERDICT_MS, (device.enrolled_ms or 0) + COOLDOWN_MS)
    rows.add_enrolment(connection, device, enrol_ms, again=True)


def _interval_ms(answer: DeviceAnswer, device: Device) -> int | None:
    return device.interval_ms if answer.heartbeat_interval_s is None else int(answer.heartbeat_interval_s * 1000)


# ---- as time goes by


def note_spoken(connection: sqlite3.Connection, spoke: Sequence[Spoke], interval_ms: int) -> None:
    """Devices that sent telemetry since the last time; who sends no
    heartbeats has one sent for it.
    """
    for device_no, contact_ms in spoke:
        device = rows.by_number(connection, device_no)
        if device is None or contact_ms <= device.last_contact_ms:
            continue
        device = rows.move(connection, device, "contacted", last_contact_ms=contact_ms)
        if device.instance_id is None and device.state in KNOWN and device.beat_due_ms is None:
            every_ms = device.interval_ms or interval_ms
            last_ms = device.beat_sent_ms or device.enrolled_ms
            rows.save(connection, device, beat_due_ms=due_ms(device.device_id, every_ms, contact_ms, last_ms))


def call_silent(connection: sqlite3.Connection, now_ms: int, interval_ms: int) -> None:
    """The verdicts on those that did not speak for long."""
    connection.execute(
        "UPDATE devices SET state = 'offline' WHERE state = 'enrolled'"
        " AND last_contact_ms < ? - max(?, ? * ifnull(interval_ms, ?))",
        (now_ms, OFFLINE_LEAST_MS, OFFLINE_INTERVALS, interval_ms),
    )
    connection.execute(
        "UPDATE devices SET state = 'inactive' WHERE state IN ('enrolled', 'offline') AND last_contact_ms < ?",
        (now_ms - INACTIVE_MS,),
    )
    connection.execute("DELETE FROM device_instances WHERE seen_ms < ?", (now_ms - DAY_MS,))


def forget_silent(connection: sqlite3.Connection, now_ms: int) -> int:
    """Those that did not speak for a season; who is blocked stays so."""
    gone = rows.chosen(
        connection,
        "last_contact_ms < ? AND state <> 'blocked' AND origin <> 'gateway' LIMIT 1000",
        (now_ms - FORGET_MS,),
    )
    for device in gone:
        rows.delete(connection, device)
    return len(gone)
