"""What the web code calls with a request's bytes, and what it learns of them: the interface that
`gateway.pipeline.intake` fills.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from gateway.common.contract.event_form import OWN_FORM, EventForm
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.parsed_payload import Sent
from gateway.common.contract.scopes import Allowed, Grant, decide
from gateway.common.contract.unit_cost import Target
from spool.unit_cost import StreamState


class Sender(NamedTuple):
    """Who sent a payload, as far as the connection states."""

    key: str | None
    """Name of the inbound key; None on open intake."""
    peer: str
    """Address without port, or `unix`."""
    fixes: tuple[tuple[str, str], ...] = ()
    """Attribution that the key fixes: (field, value), as `gateway.rules.attribution.fixed_by`
    makes them of its labels."""
    repeat_key: str | None = None
    """The request's `Idempotency-Key`."""
    counted_as: str | None = None
    """What counting knows the key by, whatever it is renamed to; None: its name."""
    batch: tuple[str, str] | None = None
    """Ids of the gateway that forwards it and of its batch, the same on every try of it; None where
    the headers name no batch."""
    product: str = ""
    """What its User-Agent begins with; empty where it names none."""
    grant: Grant | None = None
    """What the inbound key may do; None without a key."""

    def may(self, scope: str) -> bool:
        """Whether its key grants *scope* as well. On open intake anyone may."""
        if self.grant is None:
            return self.key is None
        return isinstance(decide(self.grant, scope), Allowed)


class Receipt(NamedTuple):
    """What became of a payload, once it is on disk."""

    items: int
    rejected: tuple[Rejection, ...]
    warning: str | None = None
    """Shown as partial_success with 0 rejected items, such as "no known usage fields found"."""
    answer: Mapping[str, object] = MappingProxyType({})
    """What else the answer states: of a source's payload, ids; of events, how many are repeats."""
    ignored: int = 0
    """Of a source's items, those that are no AI usage."""
    format: str = ""
    """What it is in the list of senders: `otlp.traces`, a source's name, `usage_events` …"""
    sent: Sequence[Sent] = ()
    """What each service sent in it, for that list."""

    def noted(self, format_: str, size_bytes: int) -> "Receipt":
        """This, of a payload of *size_bytes* whose services are not known."""
        return self._replace(format=format_, sent=((None, 1, self.items, 0, 0, size_bytes),))


class TakenTogether(NamedTuple):
    """Payloads that go to disk in one commit."""

    kept: "asyncio.Future[object]"
    """Done when they are on disk; otherwise it raises what `gateway.common.contract.errors`
    names.
    """
    left: Sequence[int]
    """Places of the payloads of which nothing was done: each is to be taken by itself."""
    receipt: Receipt
    """Of the others."""


class Intake(Protocol):
    """What the web code calls.

    Returns after the commit; raises what `gateway.common.contract.errors` names.
    """

    async def traces(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        """An ExportTraceServiceRequest, decompressed; *json* for OTLP/JSON, else protobuf."""

    @property
    def takes_together(self) -> bool:
        """Whether `traces_together` may take any."""

    def traces_together(self, bodies: Sequence[bytes], *, sender: Sender) -> TakenTogether | None:
        """What `traces` takes of several protobuf payloads without waiting for anything but their
        commit, and without a word in the answer; None, with nothing done, where each is to be taken
        by itself.
        """

    async def logs(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        """An ExportLogsServiceRequest."""

    async def metrics(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        """An ExportMetricsServiceRequest."""

    async def source(self, name: str, body: bytes, *, sender: Sender, first_line: int = 1) -> Receipt:
        """What an AI gateway pushes in its own shape (`gateway.products`), or the part of it
        that begins with that line.
        """

    async def forwarded(self, body: bytes, *, sender: Sender) -> Receipt:
        """Records of another gateway, in its envelope (`gateway.products.records.envelope`).

        The position of each rejection begins with `records[3]`.
        """

    async def events(
        self, body: bytes, *, sender: Sender, form: EventForm = OWN_FORM, are_metered: bool = True
    ) -> Receipt:
        """Usage events: one JSON object, an array, `{"events": […]}` or NDJSON; or CloudEvents, as
        *form* names them.

        Unless *are_metered*, none goes into a total by itself.
        """

    async def unit_cost(self, target: Target | None, body: bytes, *, sender: Sender) -> Receipt:
        """Unit-cost records, `{"records": […]}`; all of them are kept, or none. Without a *target*
        each names its stream, and is summed.
        """

    async def create_stream(self, stream: str, body: bytes, *, sender: Sender) -> Receipt:
        """Make a unit-cost stream, with the shape in *body*."""

    async def delete_stream(self, stream: str, *, forced: bool, sender: Sender) -> Receipt:
        """Delete a unit-cost stream; unless *forced*, only one without records."""

    async def streams(self) -> Sequence[StreamState]:
        """The unit-cost streams in use."""

    async def heartbeat(self, device_id: str, body: bytes, *, sender: Sender, enrolls: bool = True) -> Receipt:
        """One device heartbeat, JSON.

        A new device is enrolled where the route *enrolls* and the sender's key may; otherwise
        Forbidden is raised, and DeviceUnknown where the route does not.
        """

    async def ping(self, device_id: str, body: bytes, *, sender: Sender, enrolls: bool = True) -> Receipt:
        """A device's sign of life. It enrols a new device on open intake alone; otherwise
        DeviceUnknown is raised.
        """

    async def enroll(self, body: bytes, *, sender: Sender) -> Receipt:
        """One device, JSON, to be enrolled before it states anything else."""
