"""Sends the calls of the lane of devices: an answer about the device settles the call, the pump
judges any other.
"""

from collections.abc import Callable
from typing import Final, assert_never

from exporters.base import Delivered, Hold, NotUnderstood, Outcome, Refused, Retry
from exporters.cost_service.devices import SCOPES, DeviceAnswer, DeviceCalls
from gateway.fleet.devices.lane_store import FORBIDDEN_S, DeviceLaneStore, LostProbe
from spool.record import Batch

HOLDS_AT: Final = 2
"""Answers in a row that are not understood."""


class DeviceSender:
    """An `exporters.base.Exporter` for the batches of a `DeviceLaneStore`."""

    def __init__(self, lane_store: DeviceLaneStore, calls: DeviceCalls, ok_epoch: Callable[[], int | None]) -> None:
        """*ok_epoch*: the lane's epoch while it is `ok`, else None."""
        self._lane_store = lane_store
        self._calls = calls
        self._ok_epoch = ok_epoch
        self._accepted_since_forbidden = False
        self._not_understood = 0
        """Answers in a row."""

    async def send(self, batch: Batch) -> Outcome:
        """Make the batch's one call."""
        flight = self._lane_store.flights[batch.batch_id]
        epoch = self._ok_epoch()
        reply = await self._calls.send(flight.call)
        match reply:
            case DeviceAnswer(state="forbidden") if not isinstance(flight.item, LostProbe):
                if not self._is_about_the_device(epoch):
                    flight.is_answered, flight.retry_after_s = True, FORBIDDEN_S
                    scope = SCOPES[flight.call.type]
                    return Hold(f"devices: HTTP 403: the key is refused or lacks the scope {scope}: {reply.message}")
                flight.answer = reply
                return Delivered()
            case DeviceAnswer():
                self._accepted_since_forbidden = True
                self._not_understood = 0
                flight.answer = reply
                return Delivered()
            case Retry():
                flight.retry_after_s = reply.after_s or 0.0
                return reply
            case NotUnderstood():
                flight.retry_after_s = 0.0
                return self._unclear(reply)
            case Hold() | Refused():
                flight.is_answered = isinstance(reply, Hold) and reply.answered
                return reply
            case _:
                assert_never(reply)

    def _unclear(self, reply: NotUnderstood) -> Retry | Hold:
        """A device alone tries again under the same id; where others are answered so too, no call
        is understood.
        """
        self._not_understood += 1
        if self._not_understood < HOLDS_AT:
            return Retry(reply.reason, answered=False, may_be_there=True)
        return Hold(reply.reason, answered=False)

    def _is_about_the_device(self, epoch: int | None) -> bool:
        """A 403 that names no reason is about the device while others are
        accepted, else about the key.
        """
        if epoch is None or epoch != self._ok_epoch() or not self._accepted_since_forbidden:
            return False
        self._accepted_since_forbidden = False
        return True

    async def close(self) -> None:
        """The client's owner closes it."""
