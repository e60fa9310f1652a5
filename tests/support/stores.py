"""The homes of the control stores: control.db, and one in memory, which proves that a store is used
by its protocol alone.
"""

import copy
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, Self

import pytest

from gateway.access.home import KeyHome
from gateway.common.contract.errors import NameInUse, NotFound, TooManyKept
from gateway.common.lists.conventions import ListRequest, Page, SortValue
from gateway.common.lists.memory import page_of
from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.counting.bases import LearntBy, Proofs
from gateway.fleet.devices.home import DeviceHome
from gateway.fleet.senders.activity import Activity, SenderId
from gateway.fleet.senders.store import SenderStore
from gateway.pipeline.learnt_bases import LearntBasesStore
from gateway.stores.postgres.database import PostgresDatabase
from gateway.stores.postgres.keys import PostgresKeys
from gateway.stores.sql.allocation import open_allocation
from gateway.stores.sql.billing.days import open_billing
from gateway.stores.sql.billing.relayed import open_relayed
from gateway.stores.sql.budgets import open_budgets
from gateway.stores.sql.devices import SqlDevices
from gateway.stores.sql.insights import open_insights
from gateway.stores.sql.learnt_bases import SqlLearntBases
from gateway.stores.sql.recommendations import open_recommendations
from gateway.stores.sql.senders import SqlSenders
from gateway.stores.sql.sums.home import SqlSums
from gateway.stores.sql.views import SqlViews
from gateway.stores.sqlite.keys import SqliteKeys
from gateway.usage.allocation.home import AllocationHome
from gateway.usage.billing.home import BillingHome
from gateway.usage.billing.relay_home import RelayHome
from gateway.usage.budgets.home import BudgetHome
from gateway.usage.insights.home import InsightHome
from gateway.usage.recommendations.home import RecommendationHome
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.saved_filter import without_users
from gateway.usage.views.body import NewView, ViewChange, fields_of
from gateway.usage.views.store import MAX_VIEWS, NAME_TAKEN, NO_SUCH_VIEW, TOO_MANY, Views, checked, typed
from gateway.usage.views.view import View, view_item
from tests.support.memory_allocation import MemoryAllocationRows
from tests.support.memory_billing import MemoryBillingRows, MemoryRelayRows
from tests.support.memory_budgets import MemoryBudgetRows
from tests.support.memory_devices import KeptDevices, MemoryDevices
from tests.support.memory_home import MemoryHome as HomeOf
from tests.support.memory_insights import MemoryInsightRows
from tests.support.memory_keys import KeptKeys, MemoryKeys
from tests.support.memory_recommendations import MemoryRecommendationRows
from tests.support.memory_sums import KeptSums, MemorySums
from tests.support.postgres import needs_postgres, shared_server

HOMES: Final = ("sqlite", "memory")
SQL_HOMES: Final = (*HOMES, pytest.param("postgres", marks=needs_postgres))
"""Of a store that is written once for SQLite and Postgres."""
only_sql: Final = pytest.mark.parametrize("home", ["sqlite", SQL_HOMES[-1]], indirect=True)
"""Of a test about rows of a database; *home* is its fixture."""
only_sqlite: Final = pytest.mark.parametrize("home", ["sqlite"], indirect=True)
"""Of a test about what is in the file; *home* is its fixture."""


class Home(Protocol):
    """Where stores are; each call opens the store again, as a restart does."""

    async def senders(self) -> SenderStore: ...

    async def learnt_bases(self) -> LearntBasesStore: ...

    async def views(self, now_ms: Callable[[], int]) -> Views: ...

    async def keys(self) -> KeyHome:
        """A further one while another is open is as that of another process."""

    async def devices(self) -> DeviceHome: ...

    async def insights(self) -> InsightHome: ...

    async def sums(self) -> SumHome: ...

    async def budgets(self) -> BudgetHome: ...

    async def allocation(self) -> AllocationHome: ...
    async def recommendations(self) -> RecommendationHome: ...

    async def billing(self) -> BillingHome:
        """Of the days of `sums`."""

    async def relayed(self) -> RelayHome: ...

    async def close(self) -> None:
        """Nothing can be read or written any more."""


@asynccontextmanager
async def home_of(name: str, folder: Path) -> AsyncIterator[Home]:
    home: Home
    match name:
        case "memory":
            home = MemoryHome()
        case "postgres":
            home = await PostgresHome.open(shared_server().new_schema())
        case _:
            home = SqliteHome(await Database.open(folder / "control.db"))
    yield home
    await home.close()


class SqliteHome:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def senders(self) -> SenderStore:
        return await SqlSenders.open(self.database)

    async def learnt_bases(self) -> LearntBasesStore:
        return await SqlLearntBases.open(self.database)

    async def views(self, now_ms: Callable[[], int]) -> Views:
        return await SqlViews.open(self.database, now_ms=now_ms)

    async def keys(self) -> KeyHome:
        return await SqliteKeys.open(self.database)

    async def insights(self) -> InsightHome:
        return await open_insights(self.database)

    async def sums(self) -> SumHome:
        return await SqlSums.open(self.database)

    async def allocation(self) -> AllocationHome:
        return await open_allocation(self.database)

    async def budgets(self) -> BudgetHome:
        return await open_budgets(self.database)

    async def recommendations(self) -> RecommendationHome:
        return await open_recommendations(self.database)

    async def billing(self) -> BillingHome:
        return await open_billing(self.database)

    async def relayed(self) -> RelayHome:
        return await open_relayed(self.database)

    async def devices(self) -> DeviceHome:
        return await SqlDevices.open(self.database)

    async def close(self) -> None:
        await self.database.close()


class MemoryHome:
    def __init__(self) -> None:
        self._senders = MemorySenders(self)
        self._bases = MemoryLearntBases(self)
        self._views: dict[str, View] = {}
        self._keys = KeptKeys()
        self._insights = MemoryInsightRows()
        self._sums = KeptSums()
        self._budgets = MemoryBudgetRows()
        self._allocation = MemoryAllocationRows()
        self._recommendations = MemoryRecommendationRows()
        self._billing = MemoryBillingRows(self._sums)
        self._relayed = MemoryRelayRows()
        self._devices = KeptDevices()
        self.is_closed = False

    def check(self) -> None:
        """Raises DatabaseUnavailable once it is closed."""
        if self.is_closed:
            raise DatabaseUnavailable("the home is closed")

    async def senders(self) -> SenderStore:
        return self._senders

    async def learnt_bases(self) -> LearntBasesStore:
        return self._bases

    async def views(self, now_ms: Callable[[], int]) -> Views:
        return MemoryViews(self, self._views, now_ms)

    async def keys(self) -> KeyHome:
        return MemoryKeys(self.check, self._keys)

    async def insights(self) -> InsightHome:
        return HomeOf(self.check, self._insights)

    async def sums(self) -> SumHome:
        return MemorySums(self.check, self._sums)

    async def budgets(self) -> BudgetHome:
        return HomeOf(self.check, self._budgets)

    async def allocation(self) -> AllocationHome:
        return HomeOf(self.check, self._allocation)

    async def recommendations(self) -> RecommendationHome:
        return HomeOf(self.check, self._recommendations)

    async def billing(self) -> BillingHome:
        return HomeOf(self.check, self._billing)

    async def relayed(self) -> RelayHome:
        return HomeOf(self.check, self._relayed)

    async def devices(self) -> DeviceHome:
        return MemoryDevices(self.check, self._devices)

    async def close(self) -> None:
        self.is_closed = True


class PostgresHome:
    """A schema, which is dropped with its server."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database

    @classmethod
    async def open(cls, dsn: str) -> Self:
        return cls(await PostgresDatabase.open(dsn, durability="storage"))

    async def senders(self) -> SenderStore:
        return await SqlSenders.open(self.database)

    async def learnt_bases(self) -> LearntBasesStore:
        return await SqlLearntBases.open(self.database)

    async def sums(self) -> SumHome:
        return await SqlSums.open(self.database)

    async def recommendations(self) -> RecommendationHome:
        return await open_recommendations(self.database)

    async def billing(self) -> BillingHome:
        return await open_billing(self.database)

    async def allocation(self) -> AllocationHome:
        return await open_allocation(self.database)

    async def budgets(self) -> BudgetHome:
        return await open_budgets(self.database)

    async def insights(self) -> InsightHome:
        return await open_insights(self.database)

    async def keys(self) -> KeyHome:
        return await PostgresKeys.open(self.database)

    async def devices(self) -> DeviceHome:
        return await SqlDevices.open(self.database)

    async def views(self, now_ms: Callable[[], int]) -> Views:
        return await SqlViews.open(self.database, now_ms=now_ms)

    async def relayed(self) -> RelayHome:
        return await open_relayed(self.database)

    async def close(self) -> None:
        await self.database.close()


class MemorySenders:
    def __init__(self, home: MemoryHome) -> None:
        self._home = home
        self._kept: dict[int, tuple[SenderId, Activity]] = {}

    async def read(self) -> list[tuple[SenderId, Activity]]:
        self._home.check()
        return [(sender, _unchanged(activity)) for sender, activity in self._kept.values()]

    async def write(self, changed: Sequence[tuple[SenderId, Activity]], gone: Sequence[int]) -> None:
        self._home.check()
        for number in gone:
            self._kept.pop(number, None)
        self._kept |= {activity.sender_no: (sender, _unchanged(activity)) for sender, activity in changed}


def _unchanged(activity: Activity) -> Activity:
    kept = copy.deepcopy(activity)
    kept.is_changed = False
    return kept


class MemoryLearntBases:
    def __init__(self, home: MemoryHome) -> None:
        self._home = home
        self._kept: dict[LearntBy, Proofs] = {}

    async def read(self) -> list[tuple[LearntBy, Proofs]]:
        self._home.check()
        found = sorted(self._kept.items(), key=lambda each: each[1].last_ms)
        return [(by, replace(proofs, is_changed=False, written_ms=proofs.last_ms)) for by, proofs in found]

    async def write(self, changed: Sequence[tuple[LearntBy, Proofs]], gone: Sequence[LearntBy]) -> None:
        self._home.check()
        for by in gone:
            self._kept.pop(by, None)
        self._kept |= {by: replace(proofs) for by, proofs in changed}


class MemoryViews:
    def __init__(self, home: MemoryHome, kept: dict[str, View], now_ms: Callable[[], int]) -> None:
        self._home = home
        self._kept = kept
        self.now_ms = now_ms

    async def page(self, request: ListRequest) -> Page:
        self._home.check()
        return page_of(request, self._kept.values(), field_of=_field, id_of=lambda x: x.view_no, item_of=view_item)

    async def every(self) -> list[View]:
        self._home.check()
        return list(self._kept.values())

    async def read(self, view_id: str) -> View:
        self._home.check()
        if view_id not in self._kept:
            raise NotFound(NO_SUCH_VIEW)
        return self._kept[view_id]

    async def create(self, body: NewView, *, by: str) -> View:
        self._home.check()
        if len(self._kept) >= MAX_VIEWS:
            raise TooManyKept(TOO_MANY)
        number = 1 + max((view.view_no for view in self._kept.values()), default=0)
        now_ms = self.now_ms()
        who: dict[str, Any] = {"created_at_ms": now_ms, "created_by": by, "updated_at_ms": now_ms, "updated_by": by}
        return self._put(View(view_id=f"{number:032x}", view_no=number, **typed(fields_of(body)), **who))

    async def change(self, view_id: str, body: ViewChange, *, by: str) -> View:
        view = await self.read(view_id)
        return self._put(replace(view, **typed(fields_of(body)), updated_at_ms=self.now_ms(), updated_by=by))

    async def delete(self, view_id: str) -> None:
        await self.read(view_id)
        del self._kept[view_id]

    async def forget_users(self, users: Collection[str], *, dry_run: bool) -> int:
        self._home.check()
        named = without_users(self._kept.values(), users)
        for view, left in () if dry_run else named:
            if left is None:
                del self._kept[view.view_id]
            else:
                self._put(replace(view, filter=left))
        return len(named)

    def _put(self, view: View) -> View:
        checked(view)
        if any(each.name == view.name and each.view_id != view.view_id for each in self._kept.values()):
            raise NameInUse(NAME_TAKEN)
        self._kept[view.view_id] = view
        return view


def _field(view: View, name: str) -> SortValue:
    return {"created_at": view.created_at_ms, "updated_at": view.updated_at_ms}.get(name, view.name)
