"""What is made of the records beside their delivery: status, usage, budgets, views, insights, and
the drops of billing data.
"""

from dataclasses import dataclass

from gateway.app.building import Build
from gateway.app.delivering import Delivering
from gateway.app.stores import Stores
from gateway.common.maintenance import Maintained, maintain
from gateway.observability.intake_log import IntakeLog
from gateway.observability.lane_log import LaneLog
from gateway.observability.status import StatusReport
from gateway.pipeline.delivery.assembly import start_billing
from gateway.pipeline.delivery.webhooks import webhooks_of
from gateway.serve.receiver import Receiver
from gateway.usage.allocation.book import Allocations
from gateway.usage.billing.lane import BillingLane
from gateway.usage.budgets.book import Budgets
from gateway.usage.insights.rounds import Rounds
from gateway.usage.insights.snapshot import Snapshot
from gateway.usage.recommendations.book import Recommendations
from gateway.usage.recommendations.tariffs import price_of
from gateway.usage.sums.query import UsageQueries
from gateway.usage.views.store import Views


@dataclass(frozen=True, slots=True)
class Watching:
    status: StatusReport
    usage: UsageQueries
    budgets: Budgets
    views: Views
    allocation: Allocations
    rounds: Rounds
    recommendations: Recommendations
    billing: BillingLane | None
    """None where no billing connection is configured."""


async def start_watching(build: Build, stores: Stores, delivering: Delivering, receiver: Receiver) -> Watching:
    """Raises DatabaseUnavailable."""
    config, homes, spool, now_ms = build.config, stores.homes, stores.spool, build.now_ms
    follower = stores.follower
    usage = UsageQueries(stores.sums, now_ms=now_ms, follower=follower, tags=tuple(config.tags))
    allocation = await Allocations.open(homes.allocation, now_ms)
    usage.allocation = allocation.current
    billing = await start_billing(
        config, build.stack, delivering.delivery.lanes, homes.billing, usage, spool.gateway_id, now_ms
    )
    status = status_of(stores, delivering, receiver, billing)
    settler = delivering.ingest.settler
    intake_log = IntakeLog(status.not_ready, spool.commit_seconds, lambda: settler.held_s)
    logs = [
        Maintained("lane log", LaneLog(status.logged_lanes).run_maintenance),
        Maintained("intake log", intake_log.run_maintenance),
    ]
    build.run(maintain(logs), "log of states")
    budgets = await Budgets.open(
        homes.budgets,
        stores.sums,
        now_ms=now_ms,
        webhooks=webhooks_of(config.budgets),
        follower=follower,
    )
    snapshot = Snapshot(
        spool,
        stores.devices,
        stuck_lanes=status.stuck_lanes,
        gaps=settler.aggregates.gaps,
        uncovered=settler.uncovered,
        input_readings=settler.input_readings,
        key_names=stores.keys.names,
        crossings=budgets.crossings,
        prefer_metrics=settler.aggregates.settings.prefer_metrics,
        now_ms=now_ms,
        monotonic_s=build.monotonic_s,
    )
    rounds = await Rounds.open(homes.insights, follower, snapshot, has_prices=config.pricing.price_list == "on")
    build.stack.push_async_callback(rounds.last)
    build.run(rounds.run(), "insights")
    build.run(budgets.run(), "budgets")
    recommendations = Recommendations(
        homes.recommendations,
        usage,
        price_of(stores.prices, now_ms),
        least_saving=config.recommendations.least_saving,
        monotonic_s=build.monotonic_s,
    )
    return Watching(status, usage, budgets, homes.views, allocation, rounds, recommendations, billing)


def status_of(stores: Stores, delivering: Delivering, receiver: Receiver, billing: BillingLane | None) -> StatusReport:
    ingest, (lanes, device_lane, _) = delivering.ingest, delivering.delivery
    settler, aggregates = ingest.settler, ingest.settler.aggregates
    return StatusReport(
        stores.spool,
        None if stores.files is None else stores.files.spool,
        stores.devices,
        spool_lanes=lanes.status,
        device_lane=lambda: (device_lane.state, device_lane.reason),
        held_s=lambda: settler.held_s,
        behind_s=lambda: settler.behind_s,
        waiting_metrics=lambda: aggregates.n_held,
        unpriced=stores.prices.unpriced,
        gaps=aggregates.gaps,
        uncovered=settler.uncovered,
        input_readings=settler.input_readings,
        key_names=stores.keys.names,
        refused=receiver.refused.status,
        upstream=lanes.liveness.status,
        reader=ingest.intake.front.parser.reader.status,
        billing=lambda: None if billing is None else billing.status(),
        billing_relay=delivering.relay.status,
        cell=stores.cell,
    )
