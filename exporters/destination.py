"""What all lanes to one upstream know of it together: whether it answers at all.

A key, a scope or a path is one lane's matter (`exporters.pacing`). Silence is the upstream's:
after `SILENCES` requests in a row that got no answer, whichever lane sent them, it counts as
down. Then one batch at a time probes it, with back-off, and the first answer, whatever it
states, opens it for every lane at once.
"""

from collections.abc import Callable

import structlog

from exporters.backoff import full_jitter_s
from exporters.clock import Clock

log = structlog.get_logger("exporters.destination")

SILENCES = 5
"""More than the resets of one restart that meets a lane with all its batches under way."""
PROBE_LONGEST_S = 120.0
"""A probe that no one heard of again stands in no one's way for longer."""


class Destination:
    def __init__(self, clock: Clock, chance: Callable[[], float], address: str = "") -> None:
        """*address* stands in the log; the client of the transport knows it."""
        self.address = address
        self.opens_at_s = float("-inf")
        """Monotonic time before which nothing is sent."""
        self._clock = clock
        self._chance = chance
        self._silences = 0
        self._failures = 0
        self._silent_since_s = 0.0
        """When the first of the silences in a row was noted."""
        self._is_probed = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_down(self) -> bool:
        return self._failures > 0

    def on_answering(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call *listener* whenever the upstream answers again after it
        was down; the result ends that.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def launch(self) -> bool:
        """A batch is about to go; True when it is the probe of an upstream that is
        down: `landed` wants to know.
        """
        if self.is_down:
            self._is_probed = True
            self.opens_at_s = self._clock.monotonic_s() + PROBE_LONGEST_S
        return self.is_down

    def landed(self, *, probe: bool) -> None:
        """The batch is back; when a probe never got as far as the upstream, another one may go."""
        if probe and self._is_probed:
            self._is_probed = False
            self.opens_at_s = self._clock.monotonic_s()

    def answered(self) -> None:
        """Some answer came, an error or not."""
        was_down = self.is_down
        self._silences = self._failures = 0
        self._is_probed = False
        if was_down:
            silent_s = self._clock.monotonic_s() - self._silent_since_s
            log.info("upstream answers again", upstream=self.address, silent_s=round(silent_s, 1))
            self.opens_at_s = float("-inf")
            for listener in list(self._listeners):
                listener()

    def silent(self) -> None:
        """A request was made and no answer came.

        Once it is down, only a probe shows more than that.
        """
        if not self._silences:
            self._silent_since_s = self._clock.monotonic_s()
        self._silences += 1
        if self._silences == SILENCES:
            log.warning("upstream does not answer", upstream=self.address)
        if self._silences >= SILENCES and (self._is_probed or not self.is_down):
            self._is_probed = False
            self._failures += 1
            self.opens_at_s = self._clock.monotonic_s() + full_jitter_s(self._failures, self._chance())
