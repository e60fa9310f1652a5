"""Whether a lane that states it is well really moves. Pure: what the pump did and the time come in.

A pump asks its spool every two seconds even when no one wakes it, and a send has a time limit of
its own. This is the net below both: a fault that no one foresaw must not keep a lane still until
someone restarts the gateway.
"""

STILL_S = 3.0
"""How long a lane with nothing under way may leave alone what is ready to go."""
STILL_SENDING_S = 600.0
"""The same while batches are under way: far longer than any exporter's own time limit."""


class LaneWatch:
    """One lane. Asked again and again."""

    def __init__(self) -> None:
        self._moved = -1
        self._since_s = 0.0

    def stands_still(self, now_s: float, *, moved: int, holding: int) -> bool:
        """Whether the count *moved* has been the same for too long, with *holding*
        batches leased by the pump.
        """
        if moved != self._moved:
            self._moved, self._since_s = moved, now_s
            return False
        return now_s - self._since_s >= (STILL_SENDING_S if holding else STILL_S)

    def began(self, now_s: float) -> None:
        """The lane begins anew, or has nothing to send: its time counts from here."""
        self._since_s = now_s
