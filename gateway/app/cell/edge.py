"""The part of a gateway of a cell that takes telemetry: it is read and priced here, kept in the
journal, and answered. Whatever else senders ask goes to the owner.
"""

from dataclasses import dataclass
from typing import Any, Final

from gateway.access.store import KeyStore
from gateway.app.building import Build
from gateway.app.cell.home import CellHome
from gateway.app.cell.owning import Owning
from gateway.common.native import NATIVE
from gateway.config.model import Config
from gateway.fleet.devices.blocked import BlockedDevices
from gateway.fleet.senders.noting import NotingSenders
from gateway.pipeline.assembly import base_context, build_worker, parse_rules, read_secrets
from gateway.pipeline.front import Front
from gateway.pipeline.intake import GatewayIntake
from gateway.pipeline.journal.edge import Edge
from gateway.pipeline.journal.waiting import Waiting
from gateway.pipeline.journal.waiting_senders import WaitingSenders
from gateway.pipeline.parsing.parser import Parser
from gateway.serve.assembly import build_gate, build_receiver, open_routes
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.body import BodyLimits
from gateway.serve.cors import Cors
from gateway.serve.http.billing_drops import billing_drop_routes
from gateway.serve.http.forwarded import budget_state_route, liveness_route
from gateway.serve.http.to_owner import OwnerClient, routes_of_edge
from gateway.serve.quotas import Quotas
from gateway.serve.receiver import Receiver
from gateway.serve.routes import Route, RouteTable
from gateway.stores.sql.devices import SqlDevices
from gateway.usage.pricing.watch import PriceFileWatch, open_prices

NOT_HERE: Final[Any] = None
"""For routes of which the edge uses path, scope and wording alone."""


@dataclass(frozen=True, slots=True)
class EdgeParts:
    edge: Edge
    intake: GatewayIntake
    receiver: Receiver
    price_file: PriceFileWatch | None
    further: list[Route]
    owner: OwnerClient

    async def not_ready(self) -> str | None:
        """Why data cannot be kept now; None where it can."""
        return self.edge.fault

    def routes(self, config: Config) -> tuple[RouteTable, BodyLimits, Cors]:
        """As `open_routes`, of an edge."""
        table, limits, cors = open_routes(config, self.intake, self.further)
        routes = routes_of_edge(table.routes, self.owner, self.edge.refuse_if_unwritten)
        return RouteTable(routes, config.http.base_path), limits, cors


async def start_edge(
    build: Build,
    home: CellHome,
    owner: OwnerClient,
    owning: Owning,
    waiting: Waiting,
    waiting_senders: WaitingSenders,
) -> EdgeParts:
    """Raises CannotStart."""
    config, keys = build.config, home.keys
    senders = NotingSenders(build.now_ms)
    edge = Edge(
        home.journal,
        senders,
        max_bytes=config.spool.max_bytes,
        waiting=waiting,
        waiting_senders=waiting_senders,
        form=owning.form,
        unanswered_s=home.cell.unanswered_s,
    )
    build.stack.push_async_callback(edge.close)
    await edge.measure()
    build.run(edge.run(), "journal")
    prices, price_file = open_prices(config.pricing.file, has_list=config.pricing.price_list == "on")
    secrets = read_secrets(config)
    worker = build_worker(config, secrets, None)
    if worker is not None:
        worker.start() if NATIVE is None else worker.start_later()
        build.stack.push_async_callback(worker.stop)
    parser, context = Parser(parse_rules(config, prices), worker), base_context(config, secrets, None)
    blocked = await _blocked_devices(build, home)
    front = Front(edge, edge, parser, now_ms=build.now_ms, context=context, devices=blocked)
    intake = GatewayIntake(edge, front, None)
    gate = build_gate(config, keys)
    quotas = Quotas(build.monotonic_s, owning.alive)
    receiver = build_receiver(config, intake, gate, now_ms=build.now_ms, senders=senders, quotas=quotas)
    parts = EdgeParts(edge, intake, receiver, price_file, further_routes(keys), owner)
    receiver.use(*parts.routes(config))
    return parts


async def _blocked_devices(build: Build, home: CellHome) -> BlockedDevices:
    """Raises DatabaseUnavailable."""
    devices = await SqlDevices.open(home.shared)
    build.stack.push_async_callback(devices.close)
    blocked = BlockedDevices(devices)
    await blocked.look()
    build.run(blocked.run(), "blocked devices")
    return blocked


def further_routes(keys: KeyStore) -> list[Route]:
    reading = KeyAuthenticator(keys, divides=True)
    return [
        liveness_route(NOT_HERE, reading),
        budget_state_route(NOT_HERE, reading),
        *billing_drop_routes(NOT_HERE),
    ]
