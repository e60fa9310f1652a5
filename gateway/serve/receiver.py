"""What all transports of senders share: limits, budget, admission, how an error is answered, and
what is noted.
"""

from collections.abc import Callable
from http import HTTPStatus

from gateway.common.heap import Heap
from gateway.common.wall_clock import wall_ms
from gateway.fleet.senders.activity import Senders
from gateway.observability.metrics import WebFigures
from gateway.observability.telemetry.tracer import Tracer
from gateway.serve.admission import Admission
from gateway.serve.body import BodyLimits, Budget
from gateway.serve.cors import Cors
from gateway.serve.outcome import Outcomes
from gateway.serve.recent_senders import RecentSenders
from gateway.serve.routes import RouteTable


class Receiver:
    """Takes requests: over HTTP by `gateway.serve.http.server`, over gRPC by
    `gateway.serve.grpc`.
    """

    def __init__(
        self,
        routes: RouteTable,
        admission: Admission,
        limits: BodyLimits,
        cors: Cors,
        *,
        now_ms: Callable[[], int] = wall_ms,
        senders: Senders | None = None,
        recent: RecentSenders | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """*senders* notes what each sends and what is refused of it, *recent* who posts on open
        intake; *tracer* samples requests.
        """
        self.outcomes = Outcomes(now_ms, senders, recent, tracer)
        self.note, self.refused_unread = self.outcomes.note, self.outcomes.refused_unread
        self.counts, self.refused = self.outcomes.counts, self.outcomes.refused
        self.tracer = tracer
        self.budget = Budget(limits.max_in_flight_bytes)
        self.admission = admission
        self.routes = routes
        self.limits = limits
        self.cors = cors
        self.heap = Heap()
        self.http_at: str | None = None
        self.grpc_at: str | None = None
        """The addresses of the two listeners; None where one is off."""

    def use(self, routes: RouteTable, limits: BodyLimits, cors: Cors) -> None:
        """Take requests by these from now on; those under way end by the ones they began with."""
        self.routes, self.limits, self.cors = routes, limits, cors
        self.budget.limit_bytes = limits.max_in_flight_bytes

    def figures(self) -> WebFigures:
        """What `gateway.observability.metrics` shows."""
        self.counts.in_flight_bytes = self.budget.used_bytes
        return self.counts

    # ---- connections: `gateway.common.http.incoming.ConnectionLimits`, of each listener of senders

    def max_connections(self) -> int:
        return self.limits.max_connections

    def too_many(self, peer: str | None) -> None:
        remedy = "limits.max_connections, or fewer connections a sender"
        self.refused_unread(HTTPStatus.SERVICE_UNAVAILABLE, "too_many_connections", peer, remedy)

    def not_admitted(self, peer: str | None) -> None:
        remedy = "find who opens connections and shows no key; honest senders connect again"
        self.refused_unread(HTTPStatus.SERVICE_UNAVAILABLE, "no_key_on_connection", peer, remedy)

    def for_grpc(self, peer: str | None) -> str:
        """What a sender reads that speaks gRPC to this port; noted as refused."""
        there = f"OTLP/gRPC is {f'on {self.grpc_at}' if self.grpc_at else 'off (listen.grpc)'}"
        self.refused_unread(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "grpc_on_http_port", peer, there)
        return f"this port speaks OTLP over HTTP; {there}"

    def for_http(self, peer: str | None) -> str:
        """What a sender reads that speaks HTTP/1.1 to the gRPC port; noted as refused."""
        there = f"OTLP over HTTP is {f'on {self.http_at}' if self.http_at else 'off (listen.http)'}"
        self.refused_unread(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "http_on_grpc_port", peer, there)
        return f"this port speaks OTLP/gRPC; {there}"
