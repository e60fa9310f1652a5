"""Where one kind of state is kept, as its users see it.

A room has its own words for what it keeps (`InsightRows`, `BudgetRows`, …); each of its changes and
questions is one function of these, so that it is written once for all homes. `gateway.stores` has
the homes. Every call raises DatabaseUnavailable where what is kept cannot be read or written now.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
Rows_co = TypeVar("Rows_co", covariant=True)


class Home(Protocol[Rows_co]):
    async def commit(self, change: Callable[[Rows_co], T]) -> T:
        """Run *change*: all of it is kept when this returns or, where it raises, nothing."""

    async def read(self, question: Callable[[Rows_co], T]) -> T:
        """Run *question*, which changes nothing, on one snapshot."""
