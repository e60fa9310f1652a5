"""How a command asks: the running gateway over its admin listener, or
the files while no gateway runs.

Both ways end in the handler of one operation (`gateway.operate.operation`).
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import click

from gateway.access.errors import KeyStoreError
from gateway.access.key_files import INBOUND, OF_SERVICE, KeyFiles
from gateway.cli.offline_spool import OfflineBackup, OfflineLanes, OfflineSpool
from gateway.cli.options import with_remedy
from gateway.common.contract.errors import GatewayError
from gateway.common.lists.conventions import BadListRequest
from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config, operators_of
from gateway.fleet.devices.clocks import now_by
from gateway.fleet.devices.offline import OfflineDevices
from gateway.fleet.senders.store import KeptSenders
from gateway.local_service.amounts import add_sql_functions
from gateway.local_service.forgetting import forget_users
from gateway.operate import allocation, billing, budgets, devices, keys, recommendations, senders, viewer_tokens, views
from gateway.operate.allocation import AllocationRequests
from gateway.operate.backup import BackupSource
from gateway.operate.dead_letters import DeadLetterRequests
from gateway.operate.devices import Devices
from gateway.operate.keys import KeyRequests
from gateway.operate.operation import AnyOperation, Operation
from gateway.operate.registry import SERVICE_KEY_OPERATIONS
from gateway.operate.senders import SenderSource
from gateway.operate.spool_files import StatusSource
from gateway.pipeline.assembly import USER_SECRET_FILE
from gateway.pipeline.delivery.assembly import billing_settings
from gateway.pipeline.delivery.webhooks import webhooks_of
from gateway.stores.sql.allocation import open_allocation
from gateway.stores.sql.billing.days import open_billing
from gateway.stores.sql.billing.relayed import open_relayed
from gateway.stores.sql.budgets import open_budgets
from gateway.stores.sql.devices import SqlDevices
from gateway.stores.sql.recommendations import open_recommendations
from gateway.stores.sql.senders import SqlSenders
from gateway.stores.sql.sums.home import SqlSums
from gateway.stores.sql.views import SqlViews
from gateway.stores.sqlite.keys import offline_keys
from gateway.usage.allocation.book import Allocations
from gateway.usage.billing.book import BillingBook
from gateway.usage.billing.requests import BillingRequests, RelayRequests
from gateway.usage.budgets.book import Budgets
from gateway.usage.insights.changes import InsightError
from gateway.usage.pricing.watch import open_prices
from gateway.usage.recommendations.book import Recommendations
from gateway.usage.recommendations.tariffs import price_of
from gateway.usage.sums.forgetting import Forget, UserForgetter
from gateway.usage.sums.query import UsageQueries
from gateway.usage.views.store import Views
from spool.data_access import refuse_no_access
from spool.data_dir import DATABASE, make_data_dir, refuse_moved
from spool.data_lock import DataLock
from spool.errors import SpoolError, SpoolLocked
from spool.sqlite.at_rest import at_rest
from spool.sqlite.reading import age_at_rest

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Subject(NamedTuple, Generic[S_co]):
    """What operations are about, and how it is opened while no gateway runs."""

    what: str
    file: str
    """In the data directory; without it, there is nothing to ask."""
    open: Callable[[Config], AbstractAsyncContextManager[S_co]]
    """Holds the lock of the data directory. Raises SpoolLocked."""


IN_DATABASE: Final = (
    "with store.type postgres everything is in the database, and this needs a running gateway: start it, or name one's"
    " data directory with --data-dir"
)


@asynccontextmanager
async def _keys(files: KeyFiles, config: Config) -> AsyncIterator[KeyRequests]:
    if files is INBOUND and config.store.type == "postgres":
        from gateway.app.cell.home import keys_of_cell  # noqa: PLC0415 - psycopg is an extra

        async with keys_of_cell(config, wall_ms) as store:
            yield KeyRequests(store, operators=operators_of(config))
        return
    async with offline_keys(config.data_dir, files, wall_ms) as store:
        yield KeyRequests(store, operators=operators_of(config))


@asynccontextmanager
async def _control(config: Config) -> AsyncIterator[Database]:
    """control.db of a stopped gateway."""
    with DataLock(config.data_dir):
        database = await Database.open(config.data_dir / INBOUND.database)
        try:
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def _devices(config: Config) -> AsyncIterator[Devices]:
    async with _control(config) as database:
        now_ms = now_by(age_at_rest(config.data_dir, wall_ms()), wall_ms())
        yield OfflineDevices(await SqlDevices.open(database), now_ms)


@asynccontextmanager
async def _senders(config: Config) -> AsyncIterator[SenderSource]:
    async with _control(config) as database:
        yield (await KeptSenders.open(await SqlSenders.open(database), wall_ms)).senders


@asynccontextmanager
async def _dead_letters(config: Config) -> AsyncIterator[DeadLetterRequests]:
    with at_rest(config.data_dir, wall_ms) as letters:
        yield DeadLetterRequests(letters, wall_ms)


@asynccontextmanager
async def _status(config: Config) -> AsyncIterator[StatusSource]:
    yield OfflineSpool(config.data_dir).status


@asynccontextmanager
async def _spool(config: Config) -> AsyncIterator[OfflineSpool]:
    yield OfflineSpool(config.data_dir)


@asynccontextmanager
async def _lanes(config: Config) -> AsyncIterator[OfflineLanes]:
    with DataLock(config.data_dir):
        yield OfflineLanes()


@asynccontextmanager
async def _backup(config: Config) -> AsyncIterator[BackupSource]:
    yield OfflineBackup(config.data_dir)


@asynccontextmanager
async def _usage(config: Config) -> AsyncIterator[UsageQueries]:
    async with _control(config) as database:
        yield await _queries(config, database)


async def _queries(config: Config, database: Database) -> UsageQueries:
    queries = UsageQueries(await SqlSums.open(database), now_ms=wall_ms, tags=tuple(config.tags))
    queries.allocation = (await _allocations(database)).current
    return queries


async def _allocations(database: Database) -> Allocations:
    return await Allocations.open(await open_allocation(database), wall_ms)


@asynccontextmanager
async def _allocation(config: Config) -> AsyncIterator[AllocationRequests]:
    async with _control(config) as database:
        yield AllocationRequests(await _allocations(database), await _queries(config, database))


@asynccontextmanager
async def _budgets(config: Config) -> AsyncIterator[Budgets]:
    async with _control(config) as database:
        sums = await SqlSums.open(database)
        webhooks = webhooks_of(config.budgets)
        yield await Budgets.open(await open_budgets(database), sums, now_ms=wall_ms, webhooks=webhooks)


@asynccontextmanager
async def _billing(config: Config) -> AsyncIterator[BillingRequests]:
    async with _control(config) as database:
        sums = await SqlSums.open(database)
        book = None
        if config.billing is not None:
            settings = billing_settings(config.billing, config.upstream)
            book = await BillingBook.open(await open_billing(database), sums, settings, None, wall_ms)
        yield BillingRequests(book, None, wall_ms)


@asynccontextmanager
async def _billing_relay(config: Config) -> AsyncIterator[RelayRequests]:
    async with _control(config) as database:
        yield RelayRequests(await open_relayed(database), None)


@asynccontextmanager
async def _views(config: Config) -> AsyncIterator[Views]:
    async with _control(config) as database:
        yield await SqlViews.open(database, now_ms=wall_ms)


@asynccontextmanager
async def _delivered(data_dir: Path) -> AsyncIterator[Forget | None]:
    """What an embedded service holds; None where there never was one."""
    if not _holds(data_dir, OF_SERVICE.database):
        yield None
        return
    database = await Database.open(data_dir / OF_SERVICE.database, setup=add_sql_functions)
    try:
        yield partial(forget_users, database)
    finally:
        await database.close()


@asynccontextmanager
async def _recommendations(config: Config) -> AsyncIterator[Recommendations]:
    async with _control(config) as database:
        queries = UsageQueries(await SqlSums.open(database), now_ms=wall_ms, tags=tuple(config.tags))
        prices, _ = open_prices(config.pricing.file, has_list=config.pricing.price_list == "on")
        yield Recommendations(
            await open_recommendations(database),
            queries,
            price_of(prices, wall_ms),
            least_saving=config.recommendations.least_saving,
        )


@asynccontextmanager
async def _users(config: Config) -> AsyncIterator[UserForgetter]:
    data_dir = config.data_dir
    with at_rest(data_dir, wall_ms) as letters:
        database = await Database.open(data_dir / INBOUND.database)
        try:
            sums = await SqlSums.open(database)
            budgets = await Budgets.open(await open_budgets(database), sums, now_ms=wall_ms, webhooks={})
            views, rules = await SqlViews.open(database, now_ms=wall_ms), await _allocations(database)
            queries = UsageQueries(sums, now_ms=wall_ms)
            async with _delivered(data_dir) as service:
                named_in = budgets.forget_users, views.forget_users, rules.forget_users
                yield UserForgetter(letters, queries, data_dir / USER_SECRET_FILE, service, named_in)
        finally:
            await database.close()


KEYS: Final = Subject("keys", INBOUND.database, partial(_keys, INBOUND))
SERVICE_KEYS: Final = Subject("keys", OF_SERVICE.database, partial(_keys, OF_SERVICE))
DEVICES: Final = Subject("devices", INBOUND.database, _devices)
SENDERS: Final = Subject("senders", INBOUND.database, _senders)
DEAD_LETTERS: Final = Subject("spool", DATABASE, _dead_letters)
STATUS: Final = Subject("spool", DATABASE, _status)
SPOOL: Final = Subject("spool", DATABASE, _spool)
LANES: Final = Subject("spool", DATABASE, _lanes)
BACKUP: Final = Subject("gateway's files", INBOUND.database, _backup)

BUDGETS: Final = Subject("budgets", INBOUND.database, _budgets)
ALLOCATION: Final = Subject("usage", INBOUND.database, _allocation)
VIEWS: Final = Subject("views", INBOUND.database, _views)
RECOMMENDATIONS: Final = Subject("usage", INBOUND.database, _recommendations)
USAGE: Final = Subject("usage", INBOUND.database, _usage)
BILLING: Final = Subject("usage", INBOUND.database, _billing)
BILLING_RELAY: Final = Subject("billing drops", INBOUND.database, _billing_relay)
USERS: Final = Subject("spool", DATABASE, _users)

OPERATIONS: Final[Mapping[str, tuple[Subject[Any], AnyOperation]]] = {
    operation.id: (subject, operation)
    for subject, operations in (
        (KEYS, keys.OPERATIONS),
        (SERVICE_KEYS, SERVICE_KEY_OPERATIONS),
        (KEYS, viewer_tokens.OPERATIONS),
        (DEVICES, devices.OPERATIONS),
        (SENDERS, senders.OPERATIONS),
        (BUDGETS, budgets.OPERATIONS),
        (VIEWS, views.OPERATIONS),
        (ALLOCATION, allocation.OPERATIONS),
        (RECOMMENDATIONS, recommendations.OPERATIONS),
        (BILLING, billing.OPERATIONS),
        (BILLING_RELAY, billing.RELAY_OPERATIONS),
    )
    for operation in operations
}
"""Id -> operation, and what it is about."""


async def ask(
    config: Config,
    subject: Subject[S],
    operation: Operation[S, Any],
    *,
    path: Mapping[str, str] | None = None,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
    makes_files: bool = False,
) -> dict[str, Any]:
    """The answer of *operation*. Raises ClickException with the reason, Refused
    with the gateway's error.

    Where *makes_files*, the data directory and the subject's file are made if they are missing;
    else a directory without the file is reported, since it is likely the wrong one.
    """
    try:
        if not makes_files and not _holds(config.data_dir, subject.file):
            refuse_locked(config.data_dir)
            raise click.ClickException(
                f"{config.data_dir} holds no {subject.what}: name the gateway's with --data-dir or --config"
            )
        if makes_files:
            make_data_dir(config.data_dir)
        if config.store.type == "postgres" and subject is not KEYS:
            refuse_locked(config.data_dir)
            raise click.ClickException(IN_DATABASE)
        if config.store.type == "sqlite" and operation.method != "GET":
            refuse_locked(config.data_dir)
            refuse_moved(config.data_dir)
        async with subject.open(config) as store:
            call = operation.call(path=path, query=query, fields=body)
            return dict(await operation.handler(store, call) or {})
    except SpoolLocked as error:
        from gateway.cli.admin_client import ask_gateway  # noqa: PLC0415 offline commands need no HTTP client

        return await ask_gateway(config, error, operation, path or {}, query, body)
    except (
        SpoolError,
        GatewayError,
        KeyStoreError,
        DatabaseUnavailable,
        InsightError,
        BadListRequest,
        OSError,
    ) as error:
        raise click.ClickException(with_remedy(error)) from error


def refuse_locked(data_dir: Path) -> None:
    """Raises SpoolLocked while a gateway runs there."""
    if _holds(data_dir, ""):
        DataLock(data_dir).close()


def _holds(data_dir: Path, file: str) -> bool:
    """Raises ClickException, with the command to type, where this user may not look."""
    try:
        return (data_dir / file).exists()
    except PermissionError as error:
        try:
            refuse_no_access(data_dir)
        except SpoolError as denied:
            raise click.ClickException(str(denied)) from denied
        raise click.ClickException(str(error)) from error
