"""Whether a lane that states it is well really moves. Pure: what the pump did and the time come in.

A pump asks its spool every two seconds even when no one wakes it, and a send has a time limit of
its own. This is the net below both: a fault that no one foresaw must not keep a lane still until
someone restarts the gateway.
"""

STILL_S = 3.0
"""How long a lane with nothing under way may leave alone what is ready to go."""
LATE = 2
"""Asked so many times later than it should be, the process did not get the CPU that it needs."""
STILL_SENDING_S = 600.0
"""The same while batches are under way: far longer than any exporter's own time limit."""


class LaneWatch:
    """One lane. Asked again and again, every *every_s*."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._moved = -1
        self._still_s = 0.0
        self._asked_s = 0.0

    def stands_still(self, now_s: float, *, moved: int, holding: int) -> bool:
        """Whether the count *moved* has been the same for too long, with *holding*
        batches leased by the pump.

        Time in which the process got no CPU does not count: the lane got none either.
        """
        passed_s, self._asked_s = now_s - self._asked_s, now_s
        if moved != self._moved:
            self._moved, self._still_s = moved, 0.0
            return False
        if passed_s <= LATE * self._every_s:
            self._still_s += passed_s
        return self._still_s >= (STILL_SENDING_S if holding else STILL_S)

    def began(self, now_s: float) -> None:
        """The lane begins again, or has nothing to send: its time counts from here."""
        self._still_s, self._asked_s = 0.0, now_s
