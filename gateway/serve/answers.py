"""The one table error -> answer: what each error class becomes for a sender or an operator."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

from gateway.access.errors import (
    InvalidKey,
    KeyRefused,
    LegacyKeyExists,
    NameTaken,
    NoSuchKey,
    NotConfirmed,
    OpenIntakeInUse,
)
from gateway.common.contract.errors import (
    BadPayload,
    BadRecord,
    ConnectionInUse,
    DeviceUnknown,
    EnrolmentRefused,
    Forbidden,
    GatewayError,
    LaneNotHeld,
    MethodNotAllowed,
    NameInUse,
    NoAnswer,
    NotFound,
    Overloaded,
    OverQuota,
    StreamInUse,
    StreamMismatch,
    StreamUnknown,
    TooLarge,
    TooManyDevices,
    TooManyKept,
    Unauthenticated,
    UnsupportedMedia,
)
from gateway.common.lists.conventions import BadListRequest
from gateway.common.storage.errors import DatabaseUnavailable
from spool.errors import NoSuchLane, SpoolError, SpoolFull


class ErrorAnswer(NamedTuple):
    """How an error is reported: HTTP status, gRPC code (google.rpc.Code), seconds for Retry-After,
    and whether its text is shown.
    """

    status: int
    code: int
    retry_after_s: int | None = None
    """Where the error itself does not know it."""
    show_text: bool = True
    beside: Mapping[str, object] = MappingProxyType({})
    """What an answer in JSON states beside the error."""


ANSWERS: dict[type[BaseException], ErrorAnswer] = {
    BadPayload: ErrorAnswer(400, 3),
    BadListRequest: ErrorAnswer(400, 3),
    StreamMismatch: ErrorAnswer(422, 3),
    StreamUnknown: ErrorAnswer(404, 5),
    StreamInUse: ErrorAnswer(409, 9),
    NoSuchLane: ErrorAnswer(400, 3),
    InvalidKey: ErrorAnswer(400, 3),
    NotConfirmed: ErrorAnswer(400, 3),
    NoSuchKey: ErrorAnswer(404, 5),
    NameTaken: ErrorAnswer(409, 6),
    LegacyKeyExists: ErrorAnswer(409, 6),
    OpenIntakeInUse: ErrorAnswer(409, 9),
    Unauthenticated: ErrorAnswer(401, 16),
    Forbidden: ErrorAnswer(403, 7),
    NotFound: ErrorAnswer(404, 5),
    DeviceUnknown: ErrorAnswer(404, 5),
    EnrolmentRefused: ErrorAnswer(422, 9),
    NameInUse: ErrorAnswer(409, 6),
    ConnectionInUse: ErrorAnswer(409, 9),
    LaneNotHeld: ErrorAnswer(409, 9),
    TooManyKept: ErrorAnswer(409, 9),
    MethodNotAllowed: ErrorAnswer(405, 12),
    TooLarge: ErrorAnswer(413, 8),
    UnsupportedMedia: ErrorAnswer(415, 3),
    OverQuota: ErrorAnswer(429, 8),
    TooManyDevices: ErrorAnswer(429, 8, retry_after_s=60),
    Overloaded: ErrorAnswer(503, 14, retry_after_s=1),
    NoAnswer: ErrorAnswer(503, 14),
    SpoolFull: ErrorAnswer(503, 14, retry_after_s=30),
    SpoolError: ErrorAnswer(503, 14, retry_after_s=5),
    DatabaseUnavailable: ErrorAnswer(503, 14, retry_after_s=5),
}


UNFORESEEN = ErrorAnswer(503, 14, retry_after_s=5, show_text=False)
"""What we did not think of is counted apart and stated as retryable, so that our bug loses nothing.
"""

UNFORESEEN_TEXT = "an unforeseen error; send the same again later"

TO_COME_AGAIN = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Answers on which the sender is to send the same once more: it is
charged for the one that is kept."""


def answer_for(error: BaseException) -> ErrorAnswer:
    """The answer of the error's class or of its nearest base in the table; when to come again as
    the error knows, if it does.
    """
    known_s: int | None = getattr(error, "retry_after_s", None)
    for cls in type(error).__mro__:
        if cls in ANSWERS:
            answer = ANSWERS[cls] if known_s is None else ANSWERS[cls]._replace(retry_after_s=known_s)
            return answer._replace(beside=getattr(error, "beside", answer.beside))
    return UNFORESEEN


def kind_of(error: Exception) -> str:
    """The error's class as a word: TooLarge -> `too_large`; what is not ours -> `unavailable`; some
    have a code of their own.
    """
    if isinstance(error, BadListRequest):
        return error.kind
    if isinstance(error, BadRecord | StreamMismatch):
        return error.code
    if not isinstance(error, GatewayError | KeyRefused):
        return "unavailable"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()


def reason_of(error: Exception) -> str:
    """The word for the operator: the error's own, else its kind; a full spool or disk is
    distinguished from what else is unavailable.
    """
    if isinstance(error, SpoolFull):
        return "spool_full"
    own = error.reason if isinstance(error, GatewayError) else None  # another's `reason` may quote the request
    return own or kind_of(error)
