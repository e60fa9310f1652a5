"""What the service's answer means for a batch: the response table of the wire contract, once. Pure.

| answer | outcome |
|---|---|
| 2xx, no body, or text that is no JSON | delivered |
| 2xx, JSON | delivered, but for what it lists under `rejected` |
| 2xx 409, JSON not read whole | retry as after silence, then in halves: it may list refusals |
| 3xx | hold: a redirect would carry the key elsewhere |
| 400 422 | refused: split until the culprits stand alone |
| 401 403 407 | hold: key, scope or proxy |
| 404 405 410 | hold: wrong path |
| 406 415 | hold: the upstream cannot read what we send |
| 408 425, 5xx (not 501) | retry with back-off |
| 409 | delivered when the body states that it was accepted already, else as 400 |
| 413 | refused, too large |
| 429 503 | retry, the whole lane pauses, for `Retry-After` where given |
| 501 and every other 4xx | hold: the data stays until someone has looked |

A lane whose records the upstream cannot recognise as repeats (`repeatable=False`) does not try
again after a 5xx that may have been carried out (500, 502, 504 and other 5xx): the record is set
aside for the operator, as code `ambiguous_answer`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from exporters.answer_body import OBJECTS_PER_ITEM, Cut, UnreadableAnswer, lenient_json, media_type, whole_json
from exporters.backoff import http_date_unix_s, retry_after_s
from exporters.base import Delivered, Hold, Outcome, Refused, Retry
from spool.record import Lane
from spool.store import Refusal

MESSAGE_LONGEST = 512
CODE_LONGEST = 64
ACCEPTED_BEFORE = frozenset({"already_accepted", "already_exists", "duplicate", "duplicate_request"})


@dataclass(frozen=True, slots=True)
class Fault:
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
    records: int,
    now_unix_s: float,
    repeatable: bool = True,
    cut: Cut | None = None,
) -> Outcome:
    """The outcome for a batch of *lane* with *records* records. *headers* has
    case-insensitive look-up; *cut* states why *body* was not read whole.

    *now_unix_s* is for a `Retry-After` date when the answer has no `Date` of its own.
    """
    match status:
        case _ if 200 <= status < 300 and is_web_page(headers, body):  # noqa: PLR2004 - the 2xx class
            return web_page(status, lane)
        case _ if 200 <= status < 300:  # noqa: PLR2004 - the 2xx class
            return _success(status, headers, body, cut, records)
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
            taken = _success(status, headers, body, cut, records)
            return taken if isinstance(taken, Retry) or accepted_before(fault(body)) else _refused(status, body)
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
    """The JSON of a success about *records* records; None when it has none.

    Raises UnreadableAnswer when it may have been JSON and cannot be read whole.
    """
    content_type = headers.get("Content-Type", "")
    return whole_json(body, cut, content_type=content_type, most_objects=OBJECTS_PER_ITEM * (records + 1))


def is_web_page(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a person is spoken to (a login, a proxy's notice), so no upstream took anything."""
    return media_type(headers.get("Content-Type", "")) == "text/html" and body.lstrip()[:1] == b"<"


def web_page(status: int, lane: Lane) -> Hold:
    return Hold(f"{lane}: HTTP {status} with a web page: a login or a proxy answers in the upstream's place")


def unreadable(status: int, error: UnreadableAnswer) -> Retry:
    """What a success that cannot be read whole means: it may list refused records, or none."""
    return Retry(f"HTTP {status}: {error}", answered=False, may_be_there=True, unreadable=True)


def refusals(document: object, records: int) -> tuple[Refusal, ...]:
    """The records that the document of a 2xx answer lists as rejected."""
    rejected = document.get("rejected") if isinstance(document, dict) else None
    if not isinstance(rejected, list):
        return ()
    found: dict[int, Refusal] = {}
    for entry in rejected:
        if isinstance(entry, dict):
            index = entry.get("index")
            if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < records:
                code = clean(entry.get("code"), CODE_LONGEST) or "rejected"
                found.setdefault(index, Refusal(index, code, clean(entry.get("message"), MESSAGE_LONGEST)))
    return tuple(found[index] for index in sorted(found))


def fault(body: bytes) -> Fault:
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
    return Fault(clean(code, CODE_LONGEST) or None, clean(message, MESSAGE_LONGEST))


def accepted_before(said: Fault) -> bool:
    """Whether a 409 states that the batch is there already."""
    return said.code in ACCEPTED_BEFORE or "already accepted" in said.message.lower()


def wish_s(headers: Mapping[str, str], now_unix_s: float) -> float | None:
    """`Retry-After` in seconds; a date counts from the answer's own `Date`, so that a
    wrong clock here does no harm.
    """
    sent_unix_s = http_date_unix_s(headers.get("Date"))
    return retry_after_s(headers.get("Retry-After"), now_unix_s=now_unix_s if sent_unix_s is None else sent_unix_s)


def _success(status: int, headers: Mapping[str, str], body: bytes, cut: Cut | None, records: int) -> Delivered | Retry:
    try:
        return Delivered(refusals(whole_document(headers, body, cut, records), records))
    except UnreadableAnswer as error:
        return unreadable(status, error)


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


def clean(value: object, longest: int) -> str:
    """*value* as one printable line of at most *longest* characters; empty when it is no text."""
    if not isinstance(value, str):
        return ""
    return "".join(sign if sign.isprintable() else " " for sign in value[:longest]).strip()
