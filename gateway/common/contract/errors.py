"""The receiver's errors, and the one table error -> answer.

An error's text is shown to senders and written to the log: it holds reasons and positions,
never payload text or keys.
"""

import errno
import os
from collections.abc import Mapping


class GatewayError(Exception):
    """Base of what the receiver raises on purpose."""

    def __init__(self, text: str = "", *, reason: str | None = None, key: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        """A word for the operator, closer than the class: `key_disabled`; the sender is not
        reported. None for the class's own."""
        self.key = key
        """Name of the key that was known, if one was."""


class CannotStart(Exception):
    """Why the gateway does not start, in words for the operator."""


class CannotGoOn(Exception):
    """Why a running gateway stopped by itself, in words for the operator."""


def not_bound(option: str, address: object, error: OSError) -> CannotStart:
    """Why *address* of *option*, as the operator names it, cannot be bound."""
    why = os.strerror(error.errno) if error.errno else str(error)
    remedy = "; stop what listens there, or set another address" if error.errno == errno.EADDRINUSE else ""
    return CannotStart(f"{option}: {address} cannot be listened on: {why}{remedy}")


class BadPayload(GatewayError):
    """The body can never be read: truncated, not the format it states, not
    UTF-8, nested without end.
    """


class BadRecord(BadPayload):
    """A record or request that the upstream would refuse; it was not kept."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text, reason=code)
        self.code = code
        """`error.type` of the answer."""


class NothingTaken(BadRecord):
    """Every item of the request has a fault of its own; the code and the
    text are the first one's.
    """

    def __init__(self, code: str, text: str, beside: Mapping[str, object]) -> None:
        super().__init__(code, text)
        self.beside = beside
        """What the answer reports each, beside the error."""


class StreamMismatch(GatewayError):
    """A record that does not belong to its stream as that is; nothing of the request was kept."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text, reason=code)
        self.code = code


class StreamUnknown(StreamMismatch):
    """No stream in use has this name."""


class StreamInUse(StreamMismatch):
    """It is not deleted, or not made, as things are."""


class TooLarge(GatewayError):
    """The body is larger than the limit, before or after decompression."""


class UnsupportedMedia(GatewayError):
    """Content-Type or Content-Encoding is none that we read."""


class Unauthenticated(GatewayError):
    """No key, or a key that no one knows or that is disabled."""


class Forbidden(GatewayError):
    """A known key without the scope, or a Host that is not ours."""


class DeviceBlocked(Forbidden):
    """A device that is blocked, whatever key sends for it."""


class DeviceUnknown(GatewayError):
    """A device that was never enrolled here, where it is not enrolled by speaking."""


class DeviceQuarantined(DeviceBlocked):
    """A device that the service refused to enrol as it is."""


class EnrolmentRefused(GatewayError):
    """The same for a gateway that forwards: the device is refused, not its key."""


class TooManyDevices(GatewayError):
    """More new devices than an hour may bring: a quota."""

    retry_after_s: int | None = None
    """None when nothing states how long it lasts."""


class NotFound(GatewayError):
    """No route has this path."""


class NameInUse(GatewayError):
    """Another of its kind has the name."""


class ConnectionInUse(GatewayError):
    """This gateway itself drops to the billing connection."""


class TooManyKept(GatewayError):
    """As many are kept as may be; none is evicted, so a further one is refused."""


class LaneNotHeld(GatewayError):
    """The lane is not held for what an operator would let it go on without."""


class MethodNotAllowed(GatewayError):
    """The path exists, for another method."""


class Overloaded(GatewayError):
    """Too much is in flight: the sender should keep its data and come again."""

    def __init__(self, text: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
        """None when nothing states how long it lasts."""


class OverQuota(GatewayError):
    """The key has sent what it may send in a minute; nothing is wrong
    here, and the same is taken later.
    """

    def __init__(self, text: str, *, retry_after_s: int, reason: str, key: str) -> None:
        super().__init__(text, reason=reason, key=key)
        self.retry_after_s = retry_after_s


class NoAnswer(GatewayError):
    """No one can ask the service now, or it did not answer; the text states why."""
