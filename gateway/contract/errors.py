"""The receiver's errors, and the one table error -> answer.

An error's text is shown to senders and written to the log: it holds reasons and positions, never payload text or keys.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gateway.keys.errors import (
    DatabaseUnavailable,
    InvalidKey,
    KeyRefused,
    LegacyKeyExists,
    NameTaken,
    NoSuchKey,
    NotConfirmed,
    OpenIntakeInUse,
)
from gateway.lists.conventions import BadListRequest
from spool.errors import NoSuchLane, SpoolError, SpoolFull


class GatewayError(Exception):
    """Base of what the receiver raises on purpose."""

    def __init__(self, text: str = "", *, reason: str | None = None, key: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        """A word for the operator, closer than the class: `key_disabled`; the sender is not told. None for the class's own."""
        self.key = key
        """Name of the key that was known, if one was."""


class BadPayload(GatewayError):
    """The body can never be read: truncated, not the format it says, not UTF-8, nested without end."""


class BadRecord(BadPayload):
    """A record or request that the far end would refuse; it was not kept."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text, reason=code)
        self.code = code
        """`error.type` of the answer."""


class NothingTaken(BadRecord):
    """Every item of the request has a fault of its own; the code and the text are the first one's."""

    def __init__(self, code: str, text: str, beside: Mapping[str, object]) -> None:
        super().__init__(code, text)
        self.beside = beside
        """What the answer tells of each, beside the error."""


class StreamMismatch(GatewayError):
    """A record that does not belong to its stream as that is; nothing of the request was kept."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text, reason=code)
        self.code = code


class TooLarge(GatewayError):
    """The body is larger than the limit, before or after decompression."""


class UnsupportedMedia(GatewayError):
    """Content-Type or Content-Encoding is none that we read."""


class Unauthenticated(GatewayError):
    """No key, or a key that nobody knows or that is disabled."""


class Forbidden(GatewayError):
    """A known key without the scope, or a Host that is not ours."""


class DeviceBlocked(Forbidden):
    """A device that is blocked, whoever sends for it."""


class DeviceUnknown(GatewayError):
    """A device that was never enrolled here, where it is not enrolled by speaking."""


class DeviceQuarantined(DeviceBlocked):
    """A device that the service refused to enrol as it is."""


class EnrolmentRefused(GatewayError):
    """The same, told to a gateway that forwards: its device is refused, not its key."""


class TooManyDevices(GatewayError):
    """More new devices than an hour may bring: a quota."""

    retry_after_s: int | None = None
    """None when nothing tells how long it lasts."""


class NotFound(GatewayError):
    """No route has this path."""


class MethodNotAllowed(GatewayError):
    """The path exists, for another method."""


class Overloaded(GatewayError):
    """Too much is in flight: the sender should keep its data and come again."""

    def __init__(self, text: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
        """None when nothing tells how long it lasts."""


class OverQuota(GatewayError):
    """The key has sent what it may send in a minute; nothing is wrong here, and the same is taken later."""

    def __init__(self, text: str, *, retry_after_s: int, reason: str, key: str) -> None:
        super().__init__(text, reason=reason, key=key)
        self.retry_after_s = retry_after_s


class NoAnswer(GatewayError):
    """Nobody can ask the service now, or it did not answer; the text says why."""


class Answer(NamedTuple):
    """How an error is told: HTTP status, gRPC code (google.rpc.Code), seconds for Retry-After, and whether its text is shown."""

    status: int
    code: int
    retry_after_s: int | None = None
    """Where the error itself does not know it."""
    show_text: bool = True
    beside: Mapping[str, object] = MappingProxyType({})
    """What an answer in JSON tells beside the error."""


ANSWERS: dict[type[BaseException], Answer] = {
    BadPayload: Answer(400, 3),
    BadListRequest: Answer(400, 3),
    StreamMismatch: Answer(422, 3),
    NoSuchLane: Answer(400, 3),
    InvalidKey: Answer(400, 3),
    NotConfirmed: Answer(400, 3),
    NoSuchKey: Answer(404, 5),
    NameTaken: Answer(409, 6),
    LegacyKeyExists: Answer(409, 6),
    OpenIntakeInUse: Answer(409, 9),
    Unauthenticated: Answer(401, 16),
    Forbidden: Answer(403, 7),
    NotFound: Answer(404, 5),
    DeviceUnknown: Answer(404, 5),
    EnrolmentRefused: Answer(422, 9),
    MethodNotAllowed: Answer(405, 12),
    TooLarge: Answer(413, 8),
    UnsupportedMedia: Answer(415, 3),
    OverQuota: Answer(429, 8),
    TooManyDevices: Answer(429, 8, retry_after_s=60),
    Overloaded: Answer(503, 14, retry_after_s=1),
    NoAnswer: Answer(503, 14),
    SpoolFull: Answer(503, 14, retry_after_s=30),
    SpoolError: Answer(503, 14, retry_after_s=5),
    DatabaseUnavailable: Answer(503, 14, retry_after_s=5),
}

UNFORESEEN = Answer(503, 14, retry_after_s=5, show_text=False)
"""What we did not think of is counted apart and told as retryable, so that our bug loses nothing."""


def answer_for(error: BaseException) -> Answer:
    """The answer of the error's class or of its nearest base in the table; when to come again as the error knows, if it does."""
    known_s: int | None = getattr(error, "retry_after_s", None)
    for cls in type(error).__mro__:
        if cls in ANSWERS:
            answer = ANSWERS[cls] if known_s is None else ANSWERS[cls]._replace(retry_after_s=known_s)
            return answer._replace(beside=error.beside) if isinstance(error, NothingTaken) else answer
    return UNFORESEEN


def kind_of(error: Exception) -> str:
    """The error's class as a word: TooLarge -> `too_large`; what is not ours -> `unavailable`; some have a code of their own."""
    if isinstance(error, BadListRequest):
        return error.kind
    if isinstance(error, BadRecord | StreamMismatch):
        return error.code
    if not isinstance(error, GatewayError | KeyRefused):
        return "unavailable"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()


def reason_of(error: Exception) -> str:
    """The word for the operator: the error's own, else its kind; a full spool or disk is told apart from what else is unavailable."""
    if isinstance(error, SpoolFull):
        return "spool_full"
    own = error.reason if isinstance(error, GatewayError) else None  # another's `reason` may quote the request
    return own or kind_of(error)
