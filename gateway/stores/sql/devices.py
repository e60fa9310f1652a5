"""Devices, their enrolments and their figures in a database (`DeviceHome`).

Changes go through `Commits`: a change is one function in one hop to the database's thread, and a
burst of them is few syncs. The figures are read at the end of each commit.
"""

from collections.abc import Callable, Collection
from typing import Any, Final, Self, TypeVar

from gateway.common.lists.conventions import ListRequest, Page
from gateway.common.lists.table import ListTable, fetch_page
from gateway.common.storage.group_commit import Commits
from gateway.common.storage.sql import SqlDatabase
from gateway.fleet.devices.heartbeats import OFFLINE_INTERVALS, OFFLINE_LEAST_MS
from gateway.fleet.devices.home import DeviceRows
from gateway.fleet.devices.operated import DEVICE_LIST
from gateway.fleet.devices.outbox import DAY_MS, INACTIVE_MS
from gateway.fleet.devices.rows import Device, Figures, Instance, KeptEnrolment, New, figures_of
from gateway.fleet.devices.states import KNOWN, State
from gateway.stores.sql.database import make_tables
from spool.sql.connection import Connection

T = TypeVar("T")

PART: Final = "devices"
_COLUMNS: Final = ", ".join(Device._fields)
_SELECT: Final = f"SELECT {_COLUMNS} FROM devices"  # noqa: S608 our own names
_ENROLMENT: Final = ", ".join(KeptEnrolment._fields)
_PUT: Final = (
    f"INSERT INTO enrolments ({_ENROLMENT}) VALUES ({', '.join('?' * len(KeptEnrolment._fields))})"  # noqa: S608 our own names
    f" ON CONFLICT (device_no) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in KeptEnrolment._fields[1:])}"
)
_LOST: Final = "device_no IN (SELECT device_no FROM enrolments WHERE again)"
_KNOWN: Final = "(" + ", ".join(f"'{state}'" for state in sorted(KNOWN)) + ")"

DEVICES: Final = ListTable(
    shape=DEVICE_LIST,
    source="devices",
    row_id="device_no",
    expressions={
        "device_id": "device_id",
        "state": "state",
        "kind": "kind",
        "first_contact": "origin",
        "first_seen_at": "first_seen_ms",
        "last_contact_at": "last_contact_ms",
        "enrolled_at": "coalesce(enrolled_ms, 0)",
    },
    select=_COLUMNS,
    item_of=lambda row: Device(*row),  # type: ignore[arg-type]  # the columns of _COLUMNS
    numbers=("first_seen_at", "last_contact_at", "enrolled_at"),
)


class SqlDevices:
    """Open with `SqlDevices.open`."""

    def __init__(self, database: SqlDatabase[Connection], figures: Figures) -> None:
        self.figures = figures
        self._database = database
        self._commits = Commits(database, PART, lambda connection: SqlDeviceRows(connection).figures(), self._counted)

    @classmethod
    async def open(cls, database: SqlDatabase[Connection]) -> Self:
        """The devices in *database*; missing tables are created. Raises DatabaseUnavailable."""
        await make_tables(database, PART)
        return cls(database, await database.read(lambda connection: SqlDeviceRows(connection).figures()))

    def _counted(self, figures: Figures) -> None:
        self.figures = figures

    async def commit(self, change: Callable[[DeviceRows], T]) -> T:
        return await self._commits.commit(lambda connection: change(SqlDeviceRows(connection)))

    async def read(self, question: Callable[[DeviceRows], T]) -> T:
        return await self._database.read(lambda connection: question(SqlDeviceRows(connection)))

    async def close(self) -> None:
        await self._commits.close()


class SqlDeviceRows:
    """`DeviceRows` on the connection of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._execute = connection.execute

    def find(self, device_id: str) -> Device | None:
        found = self._one("device_id = ?", device_id)
        if found is None:
            found = self._one("device_no = (SELECT device_no FROM device_aliases WHERE alias = ?)", device_id)
        return found

    def by_number(self, device_no: int) -> Device | None:
        return self._one("device_no = ?", device_no)

    def _one(self, where: str, value: object) -> Device | None:
        row = self._execute(f"{_SELECT} WHERE {where}", (value,)).fetchone()
        return None if row is None else Device(*row)

    def _chosen(self, where: str, *values: object) -> list[Device]:
        return [Device(*row) for row in self._execute(f"{_SELECT} WHERE {where}", values)]

    def insert(self, new: New, now_ms: int) -> Device:
        (row,) = self._execute(
            "INSERT INTO devices"  # noqa: S608 our own names
            " (device_id, state, epoch, kind, origin, instance_id, details, clone_of, first_seen_ms,"
            " last_contact_ms, cycles, forbidden, beat_no, beat_waits, enrolment_waits)"
            f" VALUES (?, 'pending', 1, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0) RETURNING {_COLUMNS}",
            (new.device_id, new.kind, new.origin, new.instance_id, new.details, new.clone_of, now_ms, now_ms, b"[]"),
        ).fetchall()
        return Device(*row)

    def save(self, device: Device, **changes: Any) -> Device:
        columns = ", ".join(f"{name} = ?" for name in changes)
        self._execute(f"UPDATE devices SET {columns} WHERE device_no = ?", (*changes.values(), device.device_no))  # noqa: S608 our own names
        return device._replace(**changes)

    def delete(self, device_no: int) -> None:
        self._execute("DELETE FROM devices WHERE device_no = ?", (device_no,))

    def add_alias(self, alias: str, device_no: int) -> None:
        self._execute(
            "INSERT INTO device_aliases (alias, device_no) VALUES (?, ?)"
            " ON CONFLICT (alias) DO UPDATE SET device_no = excluded.device_no",
            (alias, device_no),
        )

    def page(self, request: ListRequest) -> Page:
        return fetch_page(self._connection, table=DEVICES, request=request)

    # ---- enrolments

    def enrolment(self, device_no: int) -> KeptEnrolment | None:
        row = self._execute(f"SELECT {_ENROLMENT} FROM enrolments WHERE device_no = ?", (device_no,)).fetchone()  # noqa: S608 our own names
        return None if row is None else KeptEnrolment(*row)

    def enrolling(self, enrollment_id: str) -> Device | None:
        return self._one("device_no = (SELECT device_no FROM enrolments WHERE enrollment_id = ?)", enrollment_id)

    def put_enrolment(self, enrolment: KeptEnrolment) -> None:
        self._execute(_PUT, enrolment)

    def drop_enrolment(self, device_no: int) -> None:
        self._execute("DELETE FROM enrolments WHERE device_no = ?", (device_no,))

    def any_due(self, now_ms: int, *, again: bool) -> bool:
        found = self._execute(
            "SELECT 1 FROM enrolments WHERE due_ms <= ? AND lease_ms <= ? AND again <= ? LIMIT 1",
            (now_ms, now_ms, again),
        )
        return found.fetchone() is not None

    def take_enrolments(self, now_ms: int, most: int, *, again: bool, lease_ms: int) -> list[KeptEnrolment]:
        taken = self._execute(
            "UPDATE enrolments SET lease_ms = ?, attempts = attempts + 1 WHERE device_no IN"  # noqa: S608 our own names
            " (SELECT device_no FROM enrolments WHERE due_ms <= ? AND lease_ms <= ? AND again <= ?"
            f" ORDER BY due_ms, device_no LIMIT ?) RETURNING {_ENROLMENT}",
            (lease_ms, now_ms, now_ms, again, most),
        )
        return sorted(map(KeptEnrolment._make, taken), key=lambda each: (each.due_ms, each.device_no))

    def keep_body(self, device_no: int, body: bytes) -> None:
        self._execute("UPDATE enrolments SET body = ? WHERE device_no = ?", (body, device_no))

    def return_enrolment(self, device_no: int, due_ms: int, *, answered: bool, tried: bool) -> None:
        self._execute(
            "UPDATE enrolments SET lease_ms = 0, due_ms = ?, generation = generation + ?, attempts = attempts - ?"
            " WHERE device_no = ?",
            (due_ms, int(answered), int(not tried), device_no),
        )

    def free_leases(self) -> None:
        self._execute("UPDATE enrolments SET lease_ms = 0 WHERE lease_ms > 0")

    # ---- instances

    def instances(self, device_no: int) -> dict[str, Instance]:
        found = self._execute(
            "SELECT instance_id, sequence, seen_ms, number FROM device_instances WHERE device_no = ?", (device_no,)
        )
        return {instance_id: Instance(*rest) for instance_id, *rest in found}

    def note_instance(self, device_no: int, instance_id: str, sequence: int, now_ms: int, *, most: int) -> int | None:
        known = self._execute(
            "SELECT sequence FROM device_instances WHERE device_no = ? AND instance_id = ?", (device_no, instance_id)
        ).fetchone()
        self._execute(
            "INSERT INTO device_instances (device_no, instance_id, sequence, seen_ms, number) VALUES (?, ?, ?, ?, 1)"
            " ON CONFLICT (device_no, instance_id) DO UPDATE SET seen_ms = excluded.seen_ms, sequence = CASE"
            " WHEN device_instances.sequence > excluded.sequence THEN device_instances.sequence ELSE excluded.sequence END",
            (device_no, instance_id, sequence, now_ms),
        )
        self._execute(
            "DELETE FROM device_instances WHERE device_no = ? AND instance_id <> ? AND instance_id NOT IN"
            " (SELECT instance_id FROM device_instances WHERE device_no = ? ORDER BY seen_ms DESC, instance_id LIMIT ?)",
            (device_no, instance_id, device_no, most),
        )
        return None if known is None else int(known[0])

    def see_instance(self, device_no: int, instance_id: str, now_ms: int) -> None:
        self._execute(
            "UPDATE device_instances SET seen_ms = ? WHERE device_no = ? AND instance_id = ?",
            (now_ms, device_no, instance_id),
        )

    def number_instance(self, device_no: int, instance_id: str, number: int) -> None:
        self._execute(
            "UPDATE device_instances SET number = ? WHERE device_no = ? AND instance_id = ?",
            (number, device_no, instance_id),
        )

    # ---- devices by what they wait for

    def lost(self, after_no: int) -> Device | None:
        return self._one(f"{_LOST} ORDER BY device_no <= ?, device_no LIMIT 1", after_no)

    def to_recall(self) -> list[Device]:
        return self._chosen(f"{_LOST} AND state = 'reenrolling'")

    def due_beats(self, now_ms: int, most: int) -> list[Device]:
        return self._chosen(f"beat_due_ms <= ? AND state IN {_KNOWN} ORDER BY beat_due_ms LIMIT ?", now_ms, most)

    def late_beats(self, now_ms: int, interval_ms: int, most: int) -> list[Device]:
        return self._chosen("beat_due_ms < ? - coalesce(interval_ms, ?) LIMIT ?", now_ms, interval_ms, most)

    def call_silent(self, now_ms: int, interval_ms: int) -> None:
        self._execute(
            "UPDATE devices SET state = 'offline' WHERE state = 'enrolled'"
            " AND last_contact_ms < ? AND last_contact_ms < ? - ? * coalesce(interval_ms, ?)",
            (now_ms - OFFLINE_LEAST_MS, now_ms, OFFLINE_INTERVALS, interval_ms),
        )
        self._execute(
            "UPDATE devices SET state = 'inactive' WHERE state IN ('enrolled', 'offline') AND last_contact_ms < ?",
            (now_ms - INACTIVE_MS,),
        )
        self._execute("DELETE FROM device_instances WHERE seen_ms < ?", (now_ms - DAY_MS,))

    def forgettable(self, before_ms: int, most: int) -> list[Device]:
        return self._chosen(
            "last_contact_ms < ? AND state <> 'blocked' AND origin <> 'gateway' LIMIT ?", before_ms, most
        )

    def blocked(self, most: int) -> list[str]:
        found = self._execute(
            "SELECT device_id FROM devices WHERE state = 'blocked' UNION ALL"
            " SELECT alias FROM devices JOIN device_aliases USING (device_no) WHERE state = 'blocked' LIMIT ?",
            (most,),
        )
        return [device_id for (device_id,) in found]

    def not_in(self, states: Collection[State]) -> list[Device]:
        return self._chosen(f"state NOT IN ({', '.join('?' * len(states))})" if states else "TRUE", *states)

    def silent_for(self, silent_ms: int, at_most_ms: int, now_ms: int) -> list[tuple[str, int, int]]:
        return self._execute(
            "SELECT device_id, first_seen_ms, last_contact_ms FROM devices"  # noqa: S608 our own names
            f" WHERE state IN {_KNOWN} AND last_contact_ms <= ? AND last_contact_ms > ?",
            (now_ms - silent_ms, now_ms - at_most_ms),
        ).fetchall()

    def first_contact_of_unknown(self, since_ms: int) -> int | None:
        (first_ms,) = self._execute(
            "SELECT min(first_seen_ms) FROM devices"
            " WHERE first_seen_ms > ? AND enrolled_ms IS NULL AND state IN ('pending', 'enrolling')"
            " AND (origin <> 'gateway' OR kind <> 'gateway')",
            (since_ms,),
        ).fetchone()
        return None if first_ms is None else int(first_ms)

    # ---- figures and notes

    def states(self) -> dict[str, int]:
        return dict(self._execute("SELECT state, count(*) FROM devices GROUP BY state"))

    def new_since(self, since_ms: int) -> int:
        (n,) = self._execute("SELECT count(*) FROM devices WHERE first_seen_ms > ?", (since_ms,)).fetchone()
        return int(n)

    def add(self, name: str, n: int) -> None:
        self._execute(
            "INSERT INTO device_figures (name, n) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET n = device_figures.n + excluded.n",
            (name, n),
        )

    def figures(self) -> Figures:
        (oldest_ms,) = self._execute(
            "SELECT min(ms) FROM (SELECT min(beat_ms) AS ms FROM devices WHERE beat_waits = 1"
            " UNION ALL SELECT min(first_seen_ms) FROM devices WHERE enrolment_waits = 1) AS oldest"
        ).fetchone()
        (enrolments,) = self._execute("SELECT count(*) FROM enrolments").fetchone()
        return figures_of(self._execute("SELECT name, n FROM device_figures"), oldest_ms, enrolments)

    def note(self, name: str, value: int) -> None:
        self._execute(
            "INSERT INTO device_notes (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def noted(self, name: str) -> int | None:
        row = self._execute("SELECT value FROM device_notes WHERE name = ?", (name,)).fetchone()
        return None if row is None else int(row[0])
