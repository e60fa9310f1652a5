"""What keeps a fleet from running the service over. Pure: times and
chance come in, decisions go out.

`Budget`: how many new devices an hour may bring. `CircuitBreaker`: whether the lane may send now.
`MassNotFoundBreaker`: whether the service forgot some devices, or seems to have forgotten them all,
which is an outage or a wrong path and no reason to enrol a fleet again.
"""

from typing import Final

from exporters.backoff import probe_delay_s

LONGEST_S: Final = 600.0
"""Between two tries of one enrolment, and of a lane that fails."""
FAILURES: Final = 5
"""In a row, before the whole lane waits."""
IN_FLIGHT: Final = 4
WINDOW_S: Final = 60.0
FORGOTTEN_SHARE: Final = 0.2
FORGOTTEN_LEAST: Final = 5
"""Fewer devices prove nothing."""
_HOUR_S: Final = 3600.0
_DOUBLINGS: Final = 20


def retry_delay_s(attempt: int, chance: float) -> float:
    """Before the try after the *attempt*-th failure (from 1):
    anywhere up to 1 s, 2 s, 4 s … 10 min.
    """
    return chance * min(LONGEST_S, 2.0 ** min(max(attempt, 1) - 1, _DOUBLINGS))


class Budget:
    """New devices an hour: so many at once, and then as time goes by."""

    def __init__(self, per_hour: int, *, used: int, now_s: float) -> None:
        """*used*: of the last hour, as the store knows it."""
        self._per_hour = per_hour
        self._left = float(max(0, per_hour - used))
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        """Whether one more may come."""
        self._fill(now_s)
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def wait_s(self, now_s: float) -> int | None:
        """Until the next one may come; None when none ever may."""
        self._fill(now_s)
        if not self._per_hour:
            return None
        return max(1, int((1 - self._left) * _HOUR_S / self._per_hour) + 1)

    def _fill(self, now_s: float) -> None:
        grown = max(0.0, now_s - self._at_s) * self._per_hour / _HOUR_S
        self._left = min(float(self._per_hour), self._left + grown)
        self._at_s = now_s


class CircuitBreaker:
    """Open, closed for a while, or open for one call that probes."""

    def __init__(self) -> None:
        self.opens_at_s = float("-inf")
        self.reason: str | None = None
        """Why it is not simply open; safe to show."""
        self.is_held = False
        """The lane cannot work as it is set up: key, scope or path."""
        self._failures = 0
        self._closings = 0
        self._turn = 0

    @property
    def turn(self) -> int:
        """Goes up with each closing; what was sent in an earlier turn moves nothing."""
        return self._turn

    @property
    def slots(self) -> int:
        return IN_FLIGHT if self.reason is None else 1

    def succeeded(self, turn: int) -> None:
        if turn == self._turn:
            self._failures = self._closings = 0
            self.reason, self.is_held = None, False

    def failed(self, reason: str, *, turn: int, now_s: float, chance: float) -> None:
        """A call met a failure that may pass."""
        if turn != self._turn:
            return
        self._failures += 1
        if self._failures >= FAILURES or self.reason is not None:
            self._close(now_s + retry_delay_s(self._closings + 1, chance), reason, is_held=self.is_held)

    def paused(self, reason: str, seconds: float, *, turn: int, now_s: float) -> None:
        """The service asks for a pause."""
        if turn == self._turn:
            self._close(now_s + seconds, reason, is_held=False)

    def held(self, reason: str, *, turn: int, now_s: float) -> None:
        if turn == self._turn:
            probes = self._closings if self.is_held else 0
            self._closings = probes
            self._close(now_s + probe_delay_s(probes), reason, is_held=True)

    def wake(self) -> None:
        """Try at once: a key changed."""
        self.opens_at_s = float("-inf")

    def _close(self, opens_at_s: float, reason: str, *, is_held: bool) -> None:
        self.opens_at_s = max(self.opens_at_s, opens_at_s)
        self.reason, self.is_held = reason, is_held
        self._closings += 1
        self._turn += 1


class MassNotFoundBreaker:
    """Looks on as the service answers heartbeats, and states when it seems to have lost the fleet."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[float, bool]] = {}
        """Device -> when it was answered last, and whether as unknown; the oldest first."""
        self._row: dict[str, bool] = {}
        """The devices that were answered last, however long ago, and whether as unknown."""

    def note(self, device_id: str, now_s: float, *, is_unknown: bool) -> bool:
        """Take one answer; True when by now too many devices are unknown."""
        self._answers.pop(device_id, None)
        self._answers[device_id] = (now_s, is_unknown)
        self._row.pop(device_id, None)
        self._row[device_id] = is_unknown
        if len(self._row) > FORGOTTEN_LEAST:
            del self._row[next(iter(self._row))]
        while self._answers and next(iter(self._answers.values()))[0] < now_s - WINDOW_S:
            del self._answers[next(iter(self._answers))]
        if not is_unknown:
            return False
        unknown = sum(each for _, each in self._answers.values())
        is_many = unknown >= FORGOTTEN_LEAST and unknown > FORGOTTEN_SHARE * len(self._answers)
        return is_many or (len(self._row) == FORGOTTEN_LEAST and all(self._row.values()))

    def clear(self) -> None:
        self._answers.clear()
        self._row.clear()
