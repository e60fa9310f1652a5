"""A cell as its gateways show it: who counts, who else is there, what waits to be counted."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypedDict

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gateway.observability.latency import APPEND_SECONDS, REQUEST_SECONDS, histograms, transport_of
from gateway.observability.metrics import HTTP_ANSWERS, HTTP_GONE, IN_FLIGHT_BYTES, Name, WebFigures, family
from spool.histogram import Histogram

CELL_OWNER: Final = Name("telemetry_gateway_cell_owner", "gauge", "1 while this gateway owns its cell, else 0.")
CELL_EPOCH: Final = Name(
    "telemetry_gateway_cell_epoch", "gauge", "Number of the cell's present owner: it grows by one with each takeover."
)
CELL_TAKEOVERS: Final = Name(
    "telemetry_gateway_cell_takeovers", "counter", "Times that this gateway took the cell since it started."
)
CELL_MEMBERS: Final = Name(
    "telemetry_gateway_cell_members",
    "gauge",
    "Gateways of the cell, by whether they were seen in the last 10 s.",
    ("state",),
)
JOURNAL_BYTES: Final = Name(
    "telemetry_gateway_journal_bytes",
    "gauge",
    "Bytes that wait in the cell's journal: what the owner has not counted yet.",
)
JOURNAL_FAULT: Final = Name(
    "telemetry_gateway_journal_unavailable", "gauge", "1 while this gateway cannot write the cell's journal, else 0."
)
CELL_NAMES: Final = (CELL_OWNER, CELL_EPOCH, CELL_TAKEOVERS, CELL_MEMBERS, JOURNAL_BYTES, JOURNAL_FAULT)


class MemberFigures(TypedDict):
    """What a gateway of a cell knows without the owner."""

    owns: bool
    epoch: int
    takeovers: int
    members: Mapping[str, int]
    """`alive` or `silent` -> gateways."""
    journal_bytes: int
    is_unavailable: bool


class MemberCollector(Collector):
    """The metrics of a gateway of a cell, and those of the owner while it is that too."""

    def __init__(
        self,
        figures: Callable[[], MemberFigures],
        web: Callable[[], WebFigures],
        append: Histogram,
        of_owner: Callable[[], Iterable[Metric]],
    ) -> None:
        self._figures, self._web, self._append, self._of_owner = figures, web, append, of_owner

    def describe(self) -> Iterable[Metric]:
        """The names without samples."""
        return [family(name, []) for name in CELL_NAMES]

    def collect(self) -> Iterator[Metric]:
        own = [*self._own()]
        yield from own
        names = {metric.name for metric in own}
        yield from (metric for metric in self._of_owner() if metric.name not in names)

    def _own(self) -> Iterator[Metric]:
        figures, web = self._figures(), self._web()
        yield family(CELL_OWNER, [((), float(figures["owns"]))])
        yield family(CELL_EPOCH, [((), figures["epoch"])])
        yield family(CELL_TAKEOVERS, [((), figures["takeovers"])])
        yield family(CELL_MEMBERS, [((state,), n) for state, n in figures["members"].items()])
        yield family(JOURNAL_BYTES, [((), figures["journal_bytes"])])
        yield family(JOURNAL_FAULT, [((), float(figures["is_unavailable"]))])
        yield family(HTTP_ANSWERS, [((route, str(code)), n) for (route, code), n in web.answers.items()])
        yield family(HTTP_GONE, [((), web.gone)])
        yield family(IN_FLIGHT_BYTES, [((), web.in_flight_bytes)])
        yield histograms(REQUEST_SECONDS, [((transport_of(path), path), x) for path, x in list(web.seconds.items())])
        yield histograms(APPEND_SECONDS, [((), self._append)])
