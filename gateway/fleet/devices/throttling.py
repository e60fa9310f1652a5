"""What keeps a fleet from overloading the upstream. Pure: times come in, decisions go out.

`Budget`: how many new devices an hour may bring. `MassNotFoundBreaker`: whether the upstream lost
some devices, or seems to have lost all, which is an outage or a wrong path and no reason to enrol
a fleet again.
"""

from typing import Final

WINDOW_S: Final = 60.0
FORGOTTEN_SHARE: Final = 0.2
FORGOTTEN_LEAST: Final = 5
"""Fewer devices prove nothing."""
_HOUR_S: Final = 3600.0


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


class MassNotFoundBreaker:
    """Sees the upstream's answers to heartbeats, and opens when it seems to have lost the fleet."""

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
