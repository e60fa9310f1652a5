"""`/v1/events`: usage events in the service's form, or CloudEvents in any of their three modes."""

from email.message import Message
from typing import Final

from aiohttp import web

from gateway.common.contract.errors import UnsupportedMedia
from gateway.common.contract.event_form import BATCHED, OWN_FORM, STRUCTURED, EventForm
from gateway.common.contract.intake import Intake
from gateway.serve.authenticator import Headers
from gateway.serve.http.http_exchange import BodyExchange
from gateway.serve.receiver import Receiver
from gateway.serve.routes import Route

OWN_TYPES: Final = frozenset(
    {"application/json", "application/x-ndjson", "application/ndjson", "application/jsonl"},
)
CLOUD_TYPE: Final = "application/cloudevents"
"""What the type of every event format begins with."""
CLOUD_FORMS: Final = {STRUCTURED: EventForm("structured"), BATCHED: EventForm("batched")}
CHARSETS: Final = frozenset({"utf-8", "utf8", "us-ascii"})
PREFIX: Final = "ce-"
ANY_OF: Final = frozenset({"specversion", "id", "source", "type"})
"""A request with a header of one of these is meant as a CloudEvent; it needs all of them."""


class EventsExchange(BodyExchange):
    """Usage events, some of whose fields may be headers."""

    def __init__(
        self, intake: Intake, receiver: Receiver, request: web.BaseRequest, route: Route, parameter: str
    ) -> None:
        super().__init__(receiver, request, route, parameter)
        self._intake = intake
        self._form = OWN_FORM

    def encoding(self) -> str:
        self._form = form_of(self.request.headers)
        return self._form.mode

    async def call(self) -> None:
        assert self.body is not None and self.sender is not None  # noqa: S101, PT018 since `admit` and `read`
        self.receipt = await self._intake.events(self.body, form=self._form, sender=self.sender)


def form_of(headers: Headers) -> EventForm:
    """Raises UnsupportedMedia. Of what a page in a browser may send without a preflight, nothing is
    taken: a header `ce-…` needs one.
    """
    content_type = headers.get("Content-Type", "")
    kind = content_type.partition(";")[0].strip().lower()
    if kind in CLOUD_FORMS:
        check_charset(content_type)
        return CLOUD_FORMS[kind]
    if kind.startswith(CLOUD_TYPE):
        raise UnsupportedMedia(f"of the formats of CloudEvents, {STRUCTURED} and {BATCHED} are read")
    attributes = attributes_in(headers)
    if any(name in ANY_OF for name, _ in attributes):
        return EventForm("binary", attributes, content_type)
    if kind in OWN_TYPES:
        return OWN_FORM
    raise UnsupportedMedia(
        f"Content-Type must be application/json or application/x-ndjson, or, for CloudEvents, {STRUCTURED} or {BATCHED}"
    )


def check_charset(content_type: str) -> None:
    """Raises UnsupportedMedia for one that is not UTF-8, in which JSON is."""
    if ";" not in content_type:
        return
    header = Message()
    header["Content-Type"] = content_type
    charset = header.get_content_charset()
    if charset is not None and charset not in CHARSETS:
        raise UnsupportedMedia("charset: only utf-8 is read")


def attributes_in(headers: Headers) -> tuple[tuple[str, str], ...]:
    """The attributes of a CloudEvent that are headers, as they came. Of the data's type the header
    is Content-Type (HTTP binding 3.1.1).
    """
    found = ((name[len(PREFIX) :].lower(), value) for name, value in headers.items() if is_attribute(name))
    return tuple((name, value) for name, value in found if name != "datacontenttype")


def is_attribute(name: str) -> bool:
    return name[: len(PREFIX)].lower() == PREFIX
