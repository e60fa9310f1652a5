"""The rows of devices, their enrolments and their figures, on the connection of one transaction.

Every change of a state goes through `move`, so by the table of `gateway.fleet.devices.states`. The
figures are written in the transaction of what they count: `received = kept + duplicate + suppressed
+ rejected` and `kept = delivered + pending + dead_lettered + expired` hold in the file at any
moment, and `pending` is the number of rows that wait.
"""

import sqlite3
from typing import Any, Final, NamedTuple

from gateway.common.contract.device_identity import Origin, enrollment_id
from gateway.fleet.devices.states import ENROLS, KNOWN, Event, State, after

_EDGE: Final = "edge."
_LANE: Final = "lane."
_REASON: Final = "reason."


class Device(NamedTuple):
    """A row; the columns are reported in the migration."""

    device_no: int
    device_id: str
    upstream_id: str | None
    state: State
    reason: str | None
    epoch: int
    kind: str
    origin: Origin
    instance_id: str | None
    details: bytes
    clone_of: str | None
    first_seen_ms: int
    last_contact_ms: int
    enrolled_ms: int | None
    interval_ms: int | None
    cycles: bytes
    forbidden: int
    beat: bytes | None
    beat_no: int
    beat_ms: int | None
    beat_due_ms: int | None
    beat_sent_ms: int | None
    beat_waits: int
    enrolment_waits: int

    @property
    def sent_id(self) -> str:
        """Its id as the service wants it."""
        return self.upstream_id or self.device_id


class New(NamedTuple):
    """A device that is not there yet."""

    device_id: str
    kind: str
    origin: str
    details: bytes = b"{}"
    instance_id: str | None = None
    clone_of: str | None = None


COLUMNS: Final = ", ".join(Device._fields)
_SELECT: Final = f"SELECT {COLUMNS} FROM devices"  # noqa: S608 our own names


def find(connection: sqlite3.Connection, device_id: str) -> Device | None:
    """By its id, or by the one that the service gave it."""
    row = connection.execute(f"{_SELECT} WHERE device_id = ?", (device_id,)).fetchone()
    if row is None:
        alias = "(SELECT device_no FROM device_aliases WHERE alias = ?)"
        row = connection.execute(f"{_SELECT} WHERE device_no = {alias}", (device_id,)).fetchone()
    return None if row is None else Device(*row)


def by_number(connection: sqlite3.Connection, device_no: int) -> Device | None:
    row = connection.execute(f"{_SELECT} WHERE device_no = ?", (device_no,)).fetchone()
    return None if row is None else Device(*row)


def chosen(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> list[Device]:
    """*where* is SQL of ours."""
    return [Device(*row) for row in connection.execute(f"{_SELECT} WHERE {where}", values)]


def silent_for(
    connection: sqlite3.Connection, silent_ms: int, at_most_ms: int, now_ms: int
) -> list[tuple[str, int, int]]:
    """Of those that the service knows: (device id, first contact, last contact), where that is
    *silent_ms* ago or more, and less than *at_most_ms*.
    """
    states = ", ".join("?" * len(KNOWN))
    return connection.execute(
        f"SELECT device_id, first_seen_ms, last_contact_ms FROM devices WHERE state IN ({states}) AND last_contact_ms <= ?"  # noqa: S608 own SQL
        " AND last_contact_ms > ?",
        (*sorted(KNOWN), now_ms - silent_ms, now_ms - at_most_ms),
    ).fetchall()


def insert(connection: sqlite3.Connection, new: New, now_ms: int) -> Device:
    """The device and its enrolment, together."""
    connection.execute(
        "INSERT INTO devices (device_id, state, epoch, kind, origin, instance_id, details, clone_of, first_seen_ms,"
        " last_contact_ms, cycles, forbidden, beat_no, beat_waits, enrolment_waits)"
        " VALUES (?1, 'pending', 1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, x'5b5d', 0, 0, 0, 0)",
        (new.device_id, new.kind, new.origin, new.instance_id, new.details, new.clone_of, now_ms),
    )
    device = find(connection, new.device_id)
    assert device is not None  # noqa: S101 it was just inserted
    add_enrolment(connection, device, now_ms)
    return device


def save(connection: sqlite3.Connection, device: Device, **changes: Any) -> Device:
    """*changes* by column."""
    columns = ", ".join(f"{name} = ?" for name in changes)
    connection.execute(f"UPDATE devices SET {columns} WHERE device_no = ?", (*changes.values(), device.device_no))  # noqa: S608 our own names
    return device._replace(**changes)


def move(connection: sqlite3.Connection, device: Device, event: Event, **changes: Any) -> Device:
    """What *event* makes of the device.

    Whoever leaves the states that enrol has no enrolment left. Raises NoSuchTransition.
    """
    state = after(device.state, event)
    if state not in ENROLS:
        connection.execute("DELETE FROM enrolments WHERE device_no = ?", (device.device_no,))
    return save(connection, device, state=state, **changes)


def add_enrolment(connection: sqlite3.Connection, device: Device, due_ms: int, *, again: bool = False) -> None:
    """One for the device's epoch, in place of whatever enrolment it had."""
    connection.execute(
        "INSERT OR REPLACE INTO enrolments"
        " (device_no, epoch, enrollment_id, again, attempts, generation, due_ms, lease_ms)"
        " VALUES (?, ?, ?, ?, 0, 0, ?, 0)",
        (device.device_no, device.epoch, enrollment_id(device.device_id, device.epoch), again, due_ms),
    )


def was_tried(connection: sqlite3.Connection, device: Device) -> bool:
    """Whether its enrolment has left this machine, as far as is known."""
    found = connection.execute(
        "SELECT attempts > 0 FROM enrolments WHERE device_no = ?", (device.device_no,)
    ).fetchone()
    return found is None or bool(found[0])


def blocked(connection: sqlite3.Connection, device: Device, reason: str) -> Device:
    """Nothing goes out for it any more, and nothing comes in."""
    return move(connection, give_up_waiting(connection, device), "blocked", reason=reason)


def give_up_waiting(connection: sqlite3.Connection, device: Device, *, refused: bool = True) -> Device:
    """The outcome of what waits for a device that is not served: an enrolment that the upstream
    refused, a heartbeat that is out of date.
    """
    if device.enrolment_waits:
        count_lane(connection, "dead_lettered" if refused else "expired")
    if device.beat_waits:
        count_lane(connection, "expired")
    return save(connection, device, enrolment_waits=0, beat_waits=0, beat=None, beat_due_ms=None)


def delete(connection: sqlite3.Connection, device: Device) -> None:
    give_up_waiting(connection, device, refused=False)
    connection.execute("DELETE FROM devices WHERE device_no = ?", (device.device_no,))


# ---- figures


def count(connection: sqlite3.Connection, outcome: str, reason: str | None = None, n: int = 1) -> None:
    """*n* items came and met *outcome*."""
    add(connection, _EDGE + "received", n)
    change_outcome(connection, outcome, reason, n)


def change_outcome(connection: sqlite3.Connection, outcome: str, reason: str | None = None, n: int = 1) -> None:
    """*n* items more have *outcome*, or fewer where it is negative."""
    add(connection, _EDGE + outcome, n)
    if outcome == "kept":
        add(connection, _LANE + "kept", n)
    if reason is not None:
        add(connection, f"{_REASON}{outcome}.{reason}", n)


def count_lane(connection: sqlite3.Connection, outcome: str, n: int = 1) -> None:
    """*n* pending items came to their end."""
    add(connection, _LANE + outcome, n)


def add(connection: sqlite3.Connection, name: str, n: int) -> None:
    connection.execute(
        "INSERT INTO device_figures (name, n) VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", (name, n)
    )


class Figures(NamedTuple):
    """What the file states, as of one commit."""

    edge: dict[str, int]
    lane: dict[str, int]
    reasons: dict[str, int]
    """`<outcome>.<reason>` -> items"""
    oldest_pending_ms: int | None
    enrolments: int
    """Those that the service has not answered for good."""


def figures(connection: sqlite3.Connection) -> Figures:
    """The counters of devices, as one commit left them."""
    edge = dict.fromkeys(("received", "kept", "duplicate", "suppressed", "rejected", "ignored"), 0)
    lane = dict.fromkeys(("kept", "delivered", "dead_lettered", "expired"), 0)
    reasons: dict[str, int] = {}
    for name, n in connection.execute("SELECT name, n FROM device_figures"):
        group, _, rest = name.partition(".")
        {"edge": edge, "lane": lane, "reason": reasons}[group][rest] = n
    lane["pending"] = lane["kept"] - lane["delivered"] - lane["dead_lettered"] - lane["expired"]
    (oldest_ms,) = connection.execute(
        "SELECT min(ms) FROM (SELECT min(beat_ms) AS ms FROM devices WHERE beat_waits = 1"
        " UNION ALL SELECT min(first_seen_ms) FROM devices WHERE enrolment_waits = 1)"
    ).fetchone()
    (enrolments,) = connection.execute("SELECT count(*) FROM enrolments").fetchone()
    return Figures(edge, lane, reasons, oldest_ms, enrolments)


def note(connection: sqlite3.Connection, name: str, value: int) -> None:
    connection.execute("INSERT OR REPLACE INTO device_notes (name, value) VALUES (?, ?)", (name, value))


def noted(connection: sqlite3.Connection, name: str) -> int | None:
    row = connection.execute("SELECT value FROM device_notes WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]
