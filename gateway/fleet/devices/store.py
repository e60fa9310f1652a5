"""The devices of one gateway: who is known, what waits to be sent, and the figures.

What must be on disk before a sender is answered is a commit of the home; a burst of first contacts
is few of them there. Telemetry of a device that is known costs a look into memory; when it last
spoke is written down every few seconds.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

import orjson

from exporters.cost_service.devices import DeviceAnswer
from gateway.common.contract.errors import NoAnswer
from gateway.fleet.devices import contacts as taking
from gateway.fleet.devices import outbox as sending
from gateway.fleet.devices.attribution import Labels
from gateway.fleet.devices.clocks import Now, now_by
from gateway.fleet.devices.contacts import INSERTS_ALL, Inserts, Moment, Taken
from gateway.fleet.devices.heartbeat_body import Heartbeat
from gateway.fleet.devices.home import DeviceHome, DeviceRows
from gateway.fleet.devices.operated import OperatedDevices
from gateway.fleet.devices.outbox import Enrolment, Spoke
from gateway.fleet.devices.rows import Device, Figures, New
from gateway.fleet.devices.throttling import Budget
from spool.clock import rfc3339_ms

T = TypeVar("T")

MAX_KNOWN: Final = 50_000
"""Devices whose telemetry costs no look into the file; of some 200 bytes each."""
MAX_TURNED_AWAY: Final = 10_000
TURNED_AWAY_MS: Final = 60_000
JUDGE_MS: Final = 30_000
"""Between two looks at who is silent."""
HOUR_MS: Final = 3_600_000


class Ping(Protocol):
    def __call__(self, device: Device, /) -> Awaitable[dict[str, Any]]: ...


class _Known(NamedTuple):
    device_no: int
    is_blocked: bool
    labels: Labels


class DeviceStore(OperatedDevices):
    """Open with `DeviceStore.open`."""

    def __init__(
        self,
        home: DeviceHome,
        gateway_id: str,
        interval_ms: int,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self.gateway_id = gateway_id
        self.interval_ms = interval_ms
        """Between heartbeats, where the service does not state."""
        self.states: dict[str, int] = {}
        """How many devices are in which; as of the last `look_after`."""
        self.on_due: Callable[[], None] = lambda: None
        """Called when something may be due."""
        self.pinging: Ping | None = None
        """Asks the service."""
        self._home = home
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._spoke: dict[int, int] = {}
        """Device -> when it spoke last, as far as it is not written down."""
        self._turned_away: dict[str, int] = {}
        """Devices that are not enrolled -> until when no one asks."""
        self._budget: Budget
        self._silence_seen_ms = 0

    @classmethod
    async def open(
        cls,
        home: DeviceHome,
        *,
        gateway_id: str,
        max_new_per_hour: int,
        interval_ms: int,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> Self:
        """*now_ms*: the suspend-aware monotonic clock (`spool.age`). Raises DatabaseUnavailable."""
        store = cls(home, gateway_id, interval_ms, now_ms, wall_ms)
        at_ms = now_ms()
        used = await home.read(lambda kept: kept.new_since(at_ms - HOUR_MS))
        store._budget = Budget(max_new_per_hour, used=used, now_s=at_ms / 1000)
        await home.commit(lambda kept: kept.free_leases())  # at the start no one is sending
        store.states = await home.read(lambda kept: kept.states())
        return store

    async def close(self) -> None:
        """Write down who spoke, and wait for what is under way."""
        await self._write_spoken()
        await self._home.close()

    @property
    def figures(self) -> Figures:
        return self._home.figures

    # ---- what senders bring

    def strangers(self, device_ids: Iterable[str]) -> list[str]:
        """Those that memory does not know; the others are noted to have spoken."""
        now_ms, found = self._now_ms(), []
        for device_id in device_ids:
            known = self._known.get(device_id)
            if known is None:
                found.append(device_id)
            elif not known.is_blocked:
                self._spoke[known.device_no] = now_ms
        return found

    async def meet(self, strangers: Sequence[New], *, insert: bool = True) -> None:
        """First contacts by telemetry: on disk, with their enrolments, when this returns; without
        *insert* only those that are known.

        Raises DatabaseUnavailable.
        """
        now_ms = self._now_ms()
        unknown = [new for new in strangers if self._turned_away.get(new.device_id, 0) <= now_ms]
        if not unknown:
            return
        moment = self._moment()
        taken = await self._home.commit(
            lambda kept: [taking.contact(kept, new, moment, insert=insert) for new in unknown]
        )
        for new, each in zip(unknown, taken, strict=True):
            self._remember(new.device_id, each)
            if each.state is None:
                self._turn_away(new.device_id, now_ms)
        self.on_due()

    def _turn_away(self, device_id: str, now_ms: int) -> None:
        """Not looked for again at each payload."""
        if len(self._turned_away) >= MAX_TURNED_AWAY:
            self._turned_away.clear()
        self._turned_away[device_id] = now_ms + TURNED_AWAY_MS

    def is_blocked(self, device_id: str) -> bool:
        """As memory knows it, so after `strangers` and `meet`."""
        known = self._known.get(device_id)
        return known is not None and known.is_blocked

    def labels(self, device_id: str) -> Labels:
        """What the device states of who uses it, as memory knows it; empty for
        one that memory does not know.
        """
        known = self._known.get(device_id)
        return {} if known is None else known.labels

    async def knows(self, device_id: str) -> bool:
        return device_id in self._known or await self._home.read(lambda kept: kept.find(device_id)) is not None

    async def heartbeat(self, device_id: str, beat: Heartbeat, inserts: Inserts = INSERTS_ALL) -> Taken:
        moment = self._moment()
        return await self._take(device_id, lambda kept: taking.heartbeat(kept, device_id, beat, moment, inserts))

    async def ping(self, device_id: str, *, inserts: bool = True) -> Taken:
        moment = self._moment()
        return await self._take(device_id, lambda kept: taking.ping(kept, device_id, moment, inserts=inserts))

    async def enroll(self, new: New, *, states_kind: bool = True) -> Taken:
        """*states_kind*: as of `taking.enrolment`."""
        moment = self._moment()
        return await self._take(
            new.device_id, lambda kept: taking.enrolment(kept, new, moment, states_kind=states_kind)
        )

    async def _take(self, device_id: str, change: Callable[[DeviceRows], Taken]) -> Taken:
        taken = await self._home.commit(change)
        self._remember(device_id, taken)
        self.on_due()
        return taken

    def new_device_wait_s(self) -> int | None:
        """Until another device may come; None when none ever may."""
        return self._budget.wait_s(self._now_ms() / 1000)

    def _remember(self, device_id: str, taken: Taken) -> None:
        if taken.state is None or taken.is_clone:
            return
        self._turned_away.pop(device_id, None)
        self._known[device_id] = _Known(taken.device_no, taken.state == "blocked", taken.labels)
        self._known.move_to_end(device_id)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def _moment(self) -> Moment:
        return Moment(self._now_ms(), self.interval_ms, self.gateway_id, self._budget, self.now().ahead_ms)

    def now(self) -> Now:
        return now_by(self._now_ms(), self._wall_ms())

    def to_wall_ms(self, ms: int) -> int:
        """A time of the devices, as the wall clock would state it."""
        return ms + self.now().ahead_ms

    # ---- what goes out

    async def claim(self, most: int, *, again: bool) -> list[Enrolment]:
        """Enrolments that are due, taken for `sending.LEASE_MS`."""
        now_ms = self._now_ms()
        if not await self._home.read(lambda kept: kept.any_due(now_ms, again=again)):
            return []  # asking costs no sync
        return await self._home.commit(
            lambda kept: sending.claim(kept, now_ms, most, again=again, body_of=self._enrolment_body)
        )

    def _enrolment_body(self, device: Device, enrollment_id: str) -> bytes:
        said = orjson.loads(device.details)
        said.pop("counters", None)  # of a heartbeat: an enrolment has none
        body = {
            "enrollment_id": enrollment_id,
            "epoch": device.epoch,
            "device_id": device.sent_id,
            "instance_id": device.instance_id or self.gateway_id,
            "kind": device.kind,
            "first_seen_at": rfc3339_ms(self.to_wall_ms(device.first_seen_ms)),
            "gateway_id": self.gateway_id,
            **said,
        }
        return orjson.dumps(body)

    async def put_back(self, sent: Enrolment, delay_s: float, *, answered: bool, tried: bool) -> None:
        due_ms = self._now_ms() + int(delay_s * 1000)
        await self._home.commit(lambda kept: sending.put_back(kept, sent, due_ms, answered=answered, tried=tried))

    async def enrolled(self, sent: Enrolment, answer: DeviceAnswer) -> None:
        now_ms = self._now_ms()
        await self._home.commit(lambda kept: sending.enrolled(kept, sent, answer, now_ms))
        if answer.state == "blocked":
            self._ask_anew(sent.device.device_no)
        self.on_due()

    async def forbidden(self, device: Device, message: str) -> bool:
        return await self._home.commit(lambda kept: sending.forbidden(kept, device.device_no, message))

    async def lost(self, *, after_no: int = 0) -> Device | None:
        """One of the devices that the service forgot and that are to be
        enrolled again, each in its turn.
        """
        return await self._home.read(lambda kept: kept.lost(after_no))

    async def recall(self) -> int:
        return await self._home.commit(sending.recall)

    async def due_beats(self, most: int, but_for: Collection[int]) -> list[Device]:
        now_ms = self._now_ms()
        return await self._home.read(lambda kept: sending.due_beats(kept, now_ms, most, but_for))

    async def beaten(self, sent: Device, answer: DeviceAnswer) -> None:
        now_ms = self._now_ms()
        await self._home.commit(lambda kept: sending.beaten(kept, sent, answer, now_ms))
        if answer.state == "blocked":
            self._ask_anew(sent.device_no)

    def _ask_anew(self, device_no: int) -> None:
        """What memory knows of the device is wrong, under each of its names."""
        for name in [name for name, known in self._known.items() if known.device_no == device_no]:
            del self._known[name]

    async def given_up(self, sent: Device) -> None:
        await self._home.commit(lambda kept: sending.given_up(kept, sent))

    async def noted(self, name: str) -> int | None:
        return await self._home.read(lambda kept: kept.noted(name))

    async def note(self, name: str, value: int) -> None:
        await self._home.commit(lambda kept: kept.note(name, value))

    # ---- as time goes by

    async def look_after(self, but_for: Collection[int]) -> None:
        """Write down who spoke, drop heartbeats that are out of date, and judge who is silent.

        *but_for*: their heartbeats are under way.
        """
        now_ms, interval_ms = self._now_ms(), self.interval_ms
        await self._write_spoken()
        if await self._home.read(lambda kept: kept.late_beats(now_ms, interval_ms, 1)):
            await self._home.commit(lambda kept: sending.expire_beats(kept, now_ms, interval_ms, but_for))
        if now_ms - self._silence_seen_ms >= JUDGE_MS:
            self._silence_seen_ms = now_ms
            await self._home.commit(lambda kept: kept.call_silent(now_ms, interval_ms))
            if await self._home.commit(lambda kept: sending.forget_silent(kept, now_ms)):
                self._known.clear()
        self.states = await self._home.read(lambda kept: kept.states())

    async def _write_spoken(self) -> None:
        spoke, self._spoke = self._spoke, {}
        if not spoke:
            return
        each = [Spoke(*pair) for pair in spoke.items()]
        try:
            await self._home.commit(lambda kept: sending.note_spoken(kept, each, self.interval_ms))
        except BaseException:
            self._spoke = spoke | self._spoke
            raise

    # ---- an operator's words (`OperatedDevices`)

    async def read(self, question: Callable[[DeviceRows], T]) -> T:
        return await self._home.read(question)

    async def change(self, change: Callable[[DeviceRows], T]) -> T:
        """What memory knows may be wrong afterwards: it is asked again."""
        changed = await self._home.commit(change)
        self._known.clear()
        self.on_due()
        return changed

    async def ask_service(self, device: Device) -> dict[str, Any]:
        """What the service states of the device now. Raises NoAnswer."""
        if self.pinging is None:
            raise NoAnswer("the lane to the service is not set up yet")
        return await self.pinging(device)
