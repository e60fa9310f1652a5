"""When a lane may send, how much, and what becomes of a refusal. Pure: time and chance
come in, decisions go out.

One `Pacing` belongs to one pump. Its states:

- `ok`: full speed.
- `retrying`: the last answer was a failure that may pass; nothing is sent before `opens_at_s`,
  then few batches at a time, so that one batch that always fails cannot hide that others pass.
- `held`: the lane cannot work as it is set up, or the upstream refuses everything; one batch at
  a time probes, ever more seldom, until one passes.

The brake: when `BRAKE_RECORDS` records of `BRAKE_BATCHES` batches were refused in a row, with none
taken between them, the lane is held. Bad records come among good ones; this is a change of the
schema on either side, and the backlog is not to become dead letters for it. A probe that passes
releases the brake, and so does an operator.
"""

from dataclasses import dataclass
from typing import Literal

from exporters.backoff import LONGEST_S, full_jitter_s, probe_delay_s
from exporters.base import Hold, Refused, Retry

LaneState = Literal["ok", "retrying", "held", "off"]
Verdict = Literal["split", "bury", "keep"]
"""For a refused batch: halve it, make it a dead letter, or keep it leased and
unsent while the lane is held."""

BRAKE_RECORDS = 20
BRAKE_BATCHES = 3
"""The last one included, which is kept. A part of a batch counts as a batch."""
REFUSES_ALL = "the upstream refuses every record"
"""How the reason of a lane begins that is held by the brake."""
CEILING_CUT = 0.75
CEILING_GROWTH = 1.05
CEILING_SUCCESSES = 50
CEILING_LOWEST_BYTES = 1024


@dataclass(frozen=True, slots=True)
class BackoffRules:
    """How a lane meets failures that may pass."""

    tolerated: int = 0
    """Failures in a row that do not pause the lane; above 0 only where each item
    has a back-off of its own."""
    longest_s: float = LONGEST_S
    """Longest pause of the lane."""
    retrying_slots: int = 2
    """Batches in flight at once while the lane is `retrying`."""


RECORD_BACKOFF = BackoffRules()


class Pacing:
    def __init__(self, *, max_bytes: int, in_flight: int, backoff: BackoffRules = RECORD_BACKOFF) -> None:
        self.opens_at_s = float("-inf")
        """Monotonic time before which nothing is sent."""
        self.ceiling_bytes = max_bytes
        """Size to freeze batches at; below *max_bytes* once the upstream
        called a batch too large."""
        self.epoch = 0
        """Goes up when the lane closes; a batch carries the epoch it was sent in, so that a
        stale answer changes nothing."""
        self.reason: str | None = None
        self._max_bytes = max_bytes
        self._in_flight = in_flight
        self._backoff = backoff
        self._state: LaneState = "ok"
        self._met_silence = False
        self.is_braked = False
        """The upstream refuses everything: nothing becomes a dead letter."""
        self._failures = 0
        self._probes = 0
        self._refused_records = 0
        """In a row, in `_refused_batches`."""
        self._refused_batches = 0
        self._let_through = 0
        self._successes = 0

    @property
    def state(self) -> LaneState:
        return self._state

    @property
    def slots(self) -> int:
        """How many batches may be under way at once."""
        match self._state:
            case "held":
                return 1
            case "retrying":
                return min(self._backoff.retrying_slots, self._in_flight)
            case _:
                return self._in_flight

    def delivered(self, records: int, *, epoch: int) -> None:
        """The upstream took some of a batch of *records*; what was sent before a hold proves
        nothing about it.
        """
        self._let_through = max(0, self._let_through - records)
        if self._state == "held" and epoch != self.epoch:
            return
        if self._state != "ok" and epoch == self.epoch:
            self.open()
        self._failures = 0
        self._refused_records = self._refused_batches = 0
        self._successes += 1
        if self._successes % CEILING_SUCCESSES == 0:
            self.ceiling_bytes = min(self._max_bytes, int(self.ceiling_bytes * CEILING_GROWTH) + 1)

    def failed(self, retry: Retry, *, now_s: float, epoch: int, chance: float) -> None:
        """A try failed in a way that may pass. Batches that were under way
        together count as one failure.

        A held lane stays held: a server that is down proves nothing about the key.
        """
        self._met_silence = not retry.answered
        if self._state == "held":
            self.opens_at_s = now_s + (probe_delay_s(self._probes) if retry.after_s is None else retry.after_s)
            return
        wish_s = retry.after_s
        if wish_s is None or (retry.throttled and wish_s < 1.0):  # "Retry-After: 0" for ever would be a hot loop
            if epoch == self.epoch:
                self._failures += 1
            rules = self._backoff
            if not retry.throttled and self._state == "ok" and 0 < self._failures <= rules.tolerated:
                return
            attempt = self._failures - rules.tolerated
            wish_s = max(wish_s or 0.0, full_jitter_s(attempt, chance, longest_s=rules.longest_s))
        self._pause(now_s, wish_s, retry.reason)

    def hold(self, hold: Hold, *, now_s: float, epoch: int) -> None:
        """The lane cannot work; each probe that ends here makes the next one rarer."""
        self._hold(hold.reason, now_s, epoch)
        self._met_silence = not hold.answered
        self.is_braked = False

    def refused(self, refused: Refused, *, records: int, size_bytes: int, now_s: float, epoch: int) -> Verdict:
        """What becomes of a batch of *records* and *size_bytes* that the
        upstream refuses for ever.
        """
        if refused.too_large:
            self.ceiling_bytes = max(CEILING_LOWEST_BYTES, min(self.ceiling_bytes, int(size_bytes * CEILING_CUT)))
        if records == 1:
            return self.refused_all(1, f"{refused.code}: {refused.message}", now_s=now_s, epoch=epoch)
        self._reads_payloads(epoch)
        if self.is_braked:
            self.wake()  # a probe goes on down to one record
        return "split"

    def refused_all(self, count: int, why: str, *, now_s: float, epoch: int) -> Verdict:
        """The same for an answer that refused each of *count* records."""
        self._reads_payloads(epoch)
        if self.is_braked or self._is_to_brake(count):
            self.is_braked = True
            self._hold(f"{REFUSES_ALL}: {why}", now_s, epoch)
            return "keep"
        self._refused_records += count
        self._refused_batches += 1
        self._let_through = max(0, self._let_through - count)
        return "bury"

    def brake(self, reason: str) -> None:
        """The brake was on when the gateway stopped; a probe may go at once."""
        self.is_braked = True
        self._hold(reason, float("-inf"), self.epoch)

    def let_through(self, records: int) -> None:
        """An operator's word: the brake is off until *records* had their end."""
        self._let_through = records
        self._refused_records = self._refused_batches = 0
        self.open()

    def wake(self) -> None:
        """Try at once: something changed (a key, an operator's word)."""
        self.opens_at_s = float("-inf")

    def upstream_answers(self) -> None:
        """The upstream answers another lane again: try at once, if its
        silence was why this one waits.
        """
        if self._met_silence:
            self.wake()

    def _reads_payloads(self, epoch: int) -> None:
        """A refusal of the payload shows that key and path are right again."""
        if self._state == "held" and not self.is_braked and epoch == self.epoch:
            self.open()

    def _is_to_brake(self, count: int) -> bool:
        return (
            not self._let_through
            and self._refused_records + count >= BRAKE_RECORDS
            and self._refused_batches + 1 >= BRAKE_BATCHES
        )

    def _pause(self, now_s: float, delay_s: float, reason: str) -> None:
        self._state = "retrying"
        self.reason = reason
        self.epoch += 1
        self.opens_at_s = max(self.opens_at_s, now_s + delay_s)

    def _hold(self, reason: str, now_s: float, epoch: int) -> None:
        if self._state != "held":
            self._state = "held"
            self._probes = 0
            self.epoch += 1
        elif epoch == self.epoch:
            self._probes += 1
        self.reason = reason
        self.opens_at_s = now_s + probe_delay_s(self._probes)

    def open(self) -> None:
        """Full speed from now on."""
        self._state = "ok"
        self.reason = None
        self.is_braked = False
        self._probes = 0
        self.opens_at_s = float("-inf")
