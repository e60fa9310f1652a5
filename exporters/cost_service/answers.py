"""What the service's answer means for a batch: the response table of the wire contract, once. Pure.

| answer | outcome |
|---|---|
| 200 201 202 204 that accounts for all (`exporters.accounting`) | delivered, but for the refused |
| 200 201 202 204 409, JSON not read whole | retry as after silence, then in halves |
| any other 2xx, or one that does not account for all | not understood: again, in halves, held |
| 3xx | hold: a redirect would carry the key elsewhere |
| 400 422 | refused: split until the culprits stand alone |
| 401 403 407 | hold: key, scope or proxy |
| 404 405 410 | hold: wrong path |
| 406 415 | hold: the upstream cannot read what we send |
| 408 425, 5xx (not 501) | retry with back-off |
| 409 | delivered when the body states that it was accepted already, else as 400 |
| 413 | refused, too large |
| 429 503 | retry, the whole lane pauses, for `Retry-After` where given |
| 501 and every other status | hold: the data stays until someone has looked |

A lane whose records the upstream cannot recognise as repeats (`repeatable=False`) does not try
again after a 5xx that may have been carried out (500, 502, 504 and other 5xx): the record is set
aside for the operator, as code `ambiguous_answer`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exporters.accounting import CODE_LONGEST, MESSAGE_LONGEST, Sent, accounted
from exporters.answer_body import (
    OBJECTS_PER_ITEM,
    AnswerNotUnderstood,
    Cut,
    UnreadableAnswer,
    lenient_json,
    whole_json,
)
from exporters.answer_words import clean
from exporters.backoff import http_date_unix_s, retry_after_s
from exporters.base import Delivered, Hold, NotUnderstood, Outcome, Refused, Retry
from spool.record import Lane

NOT_UNDERSTOOD: Final = "the answer is not understood"
"""Words of the reason of a lane that such answers hold."""
TAKEN: Final = frozenset({200, 201, 202, 204})
"""The statuses of the contract by which records are taken; any other 2xx is someone else's."""
_OF_A_PART: Final = re.compile(
    r"\b(?:but|except|not|only|other|partly|rest|some)\b|n't|partial|\d+ (?:of|out|records?|events?|spans?|items?)\b"
)
ACCEPTED_BEFORE = frozenset({"already_accepted", "already_exists", "duplicate", "duplicate_request"})


@dataclass(frozen=True, slots=True)
class ServiceError:
    """The service's own words about an error: `error.type` or `code`, and `error.message`,
    `message` or the body's start.
    """

    code: str | None
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.code, self.message) if part)


def outcome(  # noqa: C901, PLR0911, PLR0912 - the whole table in one place, a line an answer
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    lane: Lane,
    *,
    sent: Sent,
    now_unix_s: float,
    repeatable: bool = True,
    cut: Cut | None = None,
) -> Outcome:
    """The outcome for a batch of *lane*, which went as *sent*. *headers* has
    case-insensitive look-up; *cut* states why *body* was not read whole.

    *now_unix_s* is for a `Retry-After` date when the answer has no `Date` of its own.
    """
    match status:
        case _ if status in TAKEN:
            return _success(status, headers, body, cut, sent)
        case _ if 200 <= status < 300:  # noqa: PLR2004 - the 2xx class
            return leaves_open(status, AnswerNotUnderstood("its status is none of 200, 201, 202 and 204"))
        case _ if 300 <= status < 400:  # noqa: PLR2004 - the 3xx class
            return Hold(f"{lane}: HTTP {status}: the upstream redirects; check upstream.base_url")
        case 400 | 422:
            return _refused(status, body)
        case 401 | 403:
            return Hold(f"{lane}: HTTP {status}: the key is refused or lacks the scope: {fault(body)}")
        case 407:
            return Hold(f"{lane}: HTTP {status}: the proxy wants credentials")
        case 404 | 405 | 410:
            return Hold(f"{lane}: HTTP {status}: the upstream does not know the path: {fault(body)}")
        case 406 | 415:
            return Hold(f"{lane}: HTTP {status}: the upstream does not read this content type: {fault(body)}")
        case 408 | 425:
            return Retry(_said(status, body), answered=True)
        case 409:
            return _conflict(status, headers, body, cut, sent)
        case 413:
            return Refused("too_large", _said(status, body), too_large=True)
        case 429 | 503:
            return Retry(_said(status, body), answered=True, after_s=wish_s(headers, now_unix_s), throttled=True)
        case 501:
            return Hold(f"{lane}: HTTP {status}: the upstream does not offer this: {fault(body)}")
        case _ if status >= 500 and repeatable:  # noqa: PLR2004 - the 5xx class
            return Retry(_said(status, body), answered=True)
        case _ if status >= 500:  # noqa: PLR2004 - the 5xx class
            return Refused("ambiguous_answer", _said(status, body), may_be_there=True)
        case _:
            return Hold(f"{lane}: {_said(status, body)}")


def whole_document(headers: Mapping[str, str], body: bytes, cut: Cut | None, records: int) -> object:
    """The JSON of a success about *records* records; an empty object when it has no body.

    Raises UnreadableAnswer when it may have been JSON and cannot be read whole, AnswerNotUnderstood
    when it is text.
    """
    content_type = headers.get("Content-Type", "")
    return whole_json(body, cut, content_type=content_type, most_objects=OBJECTS_PER_ITEM * (records + 1))


def leaves_open(status: int | str, error: UnreadableAnswer | AnswerNotUnderstood) -> Retry | NotUnderstood:
    """Of a success by which it is not known what became of the records. One that cannot be read
    whole may come whole the next time.
    """
    answer = f"HTTP {status}" if isinstance(status, int) else status
    if isinstance(error, AnswerNotUnderstood):
        return NotUnderstood(f"{answer}: {NOT_UNDERSTOOD}: {error}")
    return Retry(f"{answer}: {error}", answered=False, may_be_there=True, unreadable=True)


def fault(body: bytes) -> ServiceError:
    """The error in *body*: `{"error":{"message","type"}}`, `{"message","code"}`, or any
    text, cut and made printable.
    """
    document = _json_object(body)
    error = document.get("error")
    inner = error if isinstance(error, dict) else {}
    code = inner.get("type") or inner.get("code") or document.get("code")
    message = inner.get("message") or document.get("message") or (error if isinstance(error, str) else None)
    if message is None:
        message = body[:MESSAGE_LONGEST].decode("utf-8", "replace")
    return ServiceError(clean(code, CODE_LONGEST) or None, clean(message, MESSAGE_LONGEST))


def accepted_before(said: ServiceError) -> bool:
    """Whether a 409 states that all of the batch is there already."""
    if said.code in ACCEPTED_BEFORE:
        return True
    message = said.message.lower()
    return "already accepted" in message and _OF_A_PART.search(message) is None


def wish_s(headers: Mapping[str, str], now_unix_s: float) -> float | None:
    """`Retry-After` in seconds; a date counts from the answer's own `Date`, so that a
    wrong clock here does no harm.
    """
    sent_unix_s = http_date_unix_s(headers.get("Date"))
    return retry_after_s(headers.get("Retry-After"), now_unix_s=now_unix_s if sent_unix_s is None else sent_unix_s)


def _success(status: int, headers: Mapping[str, str], body: bytes, cut: Cut | None, sent: Sent) -> Outcome:
    try:
        found = accounted(whole_document(headers, body, cut, sent.records), sent)
        if found.unplaced:
            raise AnswerNotUnderstood(f"it counts {found.unplaced} rejected records and names none")
    except (UnreadableAnswer, AnswerNotUnderstood) as error:
        return leaves_open(status, error)
    return Delivered(found.refused)


def _conflict(status: int, headers: Mapping[str, str], body: bytes, cut: Cut | None, sent: Sent) -> Outcome:
    try:
        document = whole_document(headers, body, cut, sent.records)
    except UnreadableAnswer as error:
        return leaves_open(status, error)
    except AnswerNotUnderstood:  # text, by whose words it is judged
        document = {}
    if not accepted_before(fault(body)):
        return _refused(status, body)
    try:
        return Delivered(accounted(document, sent, is_repeat=True).refused)
    except AnswerNotUnderstood as error:
        return leaves_open(status, error)


def _refused(status: int, body: bytes) -> Refused:
    said = fault(body)
    return Refused(said.code or f"http_{status}", said.message)


def _said(status: int, body: bytes) -> str:
    said = str(fault(body))
    return f"HTTP {status}: {said}" if said else f"HTTP {status}"


def _json_object(body: bytes) -> dict[str, object]:
    try:
        document = lenient_json(body)
    except UnreadableAnswer:
        return {}
    return document if isinstance(document, dict) else {}
