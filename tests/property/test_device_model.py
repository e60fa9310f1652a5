"""Devices under any order of contacts, answers, losses, restarts and an operator's
words: in a real control.db and in Postgres, and in memory with the same results.
"""

import copy
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar

import psycopg
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from exporters.cost_service.devices import DeviceAnswer, DeviceState
from gateway.common.contract.errors import BadPayload, NotFound
from gateway.common.storage.database import committed, scripts_of
from gateway.fleet.devices import contacts as taking
from gateway.fleet.devices import operated
from gateway.fleet.devices import outbox as sending
from gateway.fleet.devices.contacts import Moment
from gateway.fleet.devices.heartbeat_body import Heartbeat
from gateway.fleet.devices.home import DeviceRows
from gateway.fleet.devices.outbox import Enrolment, Spoke
from gateway.fleet.devices.rows import Device, New
from gateway.fleet.devices.states import ENROLS, NoSuchTransition
from gateway.fleet.devices.throttling import Budget
from gateway.stores.postgres.database import PostgresConnection
from gateway.stores.sql.devices import SqlDeviceRows
from spool.sql.connection import Connection
from tests.support.memory_devices import KeptDevices, MemoryDeviceRows
from tests.support.postgres import needs_postgres, shared_server

T = TypeVar("T")

DEVICES = st.sampled_from(["a", "b", "c"])
INSTANCES = st.sampled_from(["i", "j", "k"])
INTERVAL_MS = 60_000


def _outcome(change: Callable[[DeviceRows], T], kept: DeviceRows) -> T | Exception:
    try:
        return change(kept)
    except (NotFound, BadPayload) as error:
        return error


def _comparable(result: object) -> object:
    """Without the order of what is taken in no order, and with an error's text."""
    if isinstance(result, list):
        return sorted(result, key=str)
    return str(result) if isinstance(result, Exception) else result


class Life(RuleBasedStateMachine):
    """The service of this model knows which enrolment ids it took; whatever it answers may
    come late, twice or never.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.make()
        self.open()
        self.memory = KeptDevices()
        self.now_ms = 1_767_607_200_000
        self.budget = Budget(10, used=0, now_s=self.now_ms / 1000)
        self.sent: list[Enrolment] = []
        self.beats: list[Device] = []
        self.ids: dict[tuple[str, int], set[str]] = defaultdict(set)
        """(device, epoch) -> the enrolment ids that were ever sent."""
        self.blocked: set[str] = set()

    def make(self) -> None:
        self.path = Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "control.db"
        with closing(sqlite3.connect(self.path)) as connection:
            for script in scripts_of("gateway.stores.sqlite.migrations.devices"):
                connection.executescript(script)

    def open(self) -> None:
        self.connection: sqlite3.Connection | psycopg.Connection
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute("PRAGMA synchronous = OFF")

    def teardown(self) -> None:
        self.connection.close()
        self.stack.close()

    def do(self, change: Callable[[DeviceRows], T]) -> T:
        """The result of *change*, which is the same in both homes."""
        budget = copy.copy(self.budget)
        in_memory = _outcome(change, MemoryDeviceRows(self.memory))
        self.budget.__dict__.update(vars(budget))
        with self.commit() as connection:
            in_sql = _outcome(change, SqlDeviceRows(connection))
        assert _comparable(in_sql) == _comparable(in_memory)
        if isinstance(in_sql, Exception):
            raise in_sql
        return in_sql

    @contextmanager
    def commit(self) -> Iterator[Connection]:
        assert isinstance(self.connection, sqlite3.Connection)
        with committed(self.connection):
            yield self.connection

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, INTERVAL_MS, "gw", self.budget)

    # ---- senders

    @rule(name=DEVICES)
    def speak(self, name: str) -> None:
        self.do(lambda c: taking.contact(c, New(name, "server", "telemetry"), self.moment))

    @rule(name=DEVICES)
    def post_enrolment(self, name: str) -> None:
        taken = self.do(lambda c: taking.enrolment(c, New(name, "server", "enrolment"), self.moment))
        assert (taken.outcome == "rejected") >= (name in self.blocked)

    @rule(name=DEVICES, instance=INSTANCES, sequence=st.integers(0, 5))
    def post_beat(self, name: str, instance: str, sequence: int) -> None:
        beat = Heartbeat(instance, sequence, None, None, "healthy", "server", {}, {}, {}, {})
        self.do(lambda c: taking.heartbeat(c, name, beat, self.moment))

    @rule(name=DEVICES)
    def post_ping(self, name: str) -> None:
        taken = self.do(lambda c: taking.ping(c, name, self.moment))
        assert (taken.outcome == "rejected") >= (name in self.blocked)

    # ---- the lane

    @rule(most=st.integers(1, 3), again=st.booleans())
    def claim(self, *, most: int, again: bool) -> None:
        for enrolment in self.do(
            lambda c: sending.claim(
                c, self.now_ms, most, again=again, body_of=lambda device, enrollment_id: enrollment_id.encode()
            )
        ):
            device = enrolment.device
            self.sent.append(enrolment)
            self.ids[device.device_id, device.epoch].add(enrolment.enrollment_id)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), state=st.sampled_from(["active", "pending", "blocked", "quarantined"]), adopts=st.booleans())
    def answer_enrolment(self, *, data: st.DataObject, state: DeviceState, adopts: bool) -> None:
        """An answer to any enrolment that was ever sent: late, repeated, or to
        one that was replaced since.
        """
        enrolment = data.draw(st.sampled_from(self.sent))
        answer = DeviceAnswer("enroll", enrolment.device.device_id, state, "theirs" if adopts else None)
        self.do(lambda c: sending.enrolled(c, enrolment, answer, self.now_ms))

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), answered=st.booleans())
    def put_back(self, *, data: st.DataObject, answered: bool) -> None:
        enrolment = data.draw(st.sampled_from(self.sent))
        self.do(lambda c: sending.put_back(c, enrolment, self.now_ms + 1000, answered=answered, tried=True))

    @rule()
    def take_beats(self) -> None:
        self.beats += self.do(lambda c: sending.due_beats(c, self.now_ms, 10, ()))

    @precondition(lambda self: self.beats)
    @rule(data=st.data(), state=st.sampled_from([None, "active", "unknown", "blocked"]))
    def answer_beat(self, data: st.DataObject, state: DeviceState | None) -> None:
        """Each beat that went out is answered once; a repeat is a beat of its own."""
        beat = self.beats.pop(data.draw(st.integers(0, len(self.beats) - 1)))
        answer = DeviceAnswer("heartbeat", beat.sent_id, state)
        self.do(lambda c: sending.beaten(c, beat, answer, self.now_ms))

    @precondition(lambda self: self.beats)
    @rule()
    def give_up_beat(self) -> None:
        self.do(lambda c: sending.given_up(c, self.beats.pop()))

    @rule()
    def recall(self) -> None:
        self.do(sending.recall)

    # ---- time, restarts, operators

    @rule(seconds=st.sampled_from([1, 30, 61, 130, 400, 86_400, 15 * 86_400, 91 * 86_400]))
    def time_goes_by(self, seconds: int) -> None:
        self.now_ms += seconds * 1000
        numbers = [device.device_no for device in self.beats]
        self.do(lambda c: sending.expire_beats(c, self.now_ms, INTERVAL_MS, numbers))
        self.do(lambda c: c.call_silent(self.now_ms, INTERVAL_MS))
        gone = self.do(lambda c: sending.forget_silent(c, self.now_ms))
        assert gone >= 0

    @rule(data=st.data())
    def note_spoken(self, data: st.DataObject) -> None:
        numbers = [device.device_no for device in self.devices()]
        spoke = [Spoke(number, self.now_ms) for number in numbers if data.draw(st.booleans())]
        self.do(lambda c: sending.note_spoken(c, spoke, INTERVAL_MS))

    @rule()
    def restart(self) -> None:
        """What was under way is never answered."""
        self.connection.close()
        self.open()
        self.beats.clear()
        self.do(lambda c: c.free_leases())

    @rule(name=DEVICES, verb=st.sampled_from(["block", "unblock", "enroll_again", "forget"]))
    def operate(self, name: str, verb: str) -> None:
        arguments = (name,) if verb in {"block", "forget"} else (name, self.now_ms)
        try:
            self.do(lambda c: getattr(operated, verb)(*arguments, c))
        except (NotFound, BadPayload):
            return
        self.blocked.discard(name)

    # ---- what holds at any time

    def devices(self) -> list[Device]:
        return self.do(lambda c: c.not_in(()))

    @invariant()
    def a_device_has_one_live_enrolment_or_none(self) -> None:
        for device in self.devices():
            live = self.do(lambda c, number=device.device_no: c.enrolment(number))
            assert (live is not None) == (device.state in ENROLS), device
            assert live is None or live.epoch == device.epoch

    @invariant()
    def an_epoch_has_one_enrolment_id(self) -> None:
        assert all(len(ids) == 1 for ids in self.ids.values())

    @invariant()
    def the_figures_are_true(self) -> None:
        figures = self.do(lambda c: c.figures())
        edge, lane = figures.edge, figures.lane
        assert edge["received"] == sum(
            edge[outcome] for outcome in ("kept", "duplicate", "suppressed", "rejected", "ignored")
        )
        assert edge["kept"] == lane["kept"]
        waiting = sum(device.beat_waits + device.enrolment_waits for device in self.devices())
        assert lane["pending"] == waiting
        assert min([*edge.values(), *lane.values(), *figures.reasons.values()]) >= 0
        for outcome in ("duplicate", "suppressed", "rejected"):
            assert edge[outcome] == sum(n for name, n in figures.reasons.items() if name.startswith(outcome + "."))

    @invariant()
    def who_is_blocked_stays_blocked(self) -> None:
        now = {device.device_id: device for device in self.devices()}
        for name in self.blocked:
            assert now[name].state == "blocked"
        self.blocked = {name for name, device in now.items() if device.state == "blocked"}

    @invariant()
    def nothing_goes_out_for_who_is_not_served(self) -> None:
        for device in self.devices():
            if device.state in {"blocked", "quarantined"}:
                assert (device.beat, device.beat_due_ms, device.beat_waits) == (None, None, 0)


SAME_NUMBERS = "SELECT setval(pg_get_serial_sequence('devices', 'device_no'), (SELECT coalesce(max(device_no), 0) + 1 FROM devices), FALSE)"
"""SQLite gives the number of the device that was deleted last again, Postgres never."""


class LifeInPostgres(Life):
    def make(self) -> None:
        self.dsn = shared_server().new_schema()
        with psycopg.connect(self.dsn) as connection:
            for script in scripts_of("gateway.stores.postgres.migrations.devices"):
                PostgresConnection(connection).execute(script)

    def open(self) -> None:
        self.connection = psycopg.connect(self.dsn, autocommit=True)

    @contextmanager
    def commit(self) -> Iterator[Connection]:
        assert isinstance(self.connection, psycopg.Connection)
        with self.connection.transaction():
            self.connection.execute(SAME_NUMBERS)
            yield PostgresConnection(self.connection)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=30, stateful_step_count=60, deadline=None)
TestLifeInPostgres = needs_postgres(LifeInPostgres.TestCase)
TestLifeInPostgres.settings = settings(max_examples=5, stateful_step_count=40, deadline=None)
assert NoSuchTransition  # every rule would let it through: a pair that the table lacks fails the test
