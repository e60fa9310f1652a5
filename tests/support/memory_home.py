"""`gateway.common.storage.home.Home` in memory: a change works on a copy, which a fault drops."""

import copy
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Rows = TypeVar("Rows")


class MemoryHome(Generic[Rows]):
    def __init__(self, check: Callable[[], None], rows: Rows) -> None:
        """*check* raises DatabaseUnavailable once the home is closed. *rows* are kept over a
        restart: another home may be opened with them.
        """
        self._check = check
        self._rows = rows

    async def commit(self, change: Callable[[Rows], T]) -> T:
        self._check()
        changed = copy.deepcopy(self._rows)
        found = change(changed)
        vars(self._rows).update(vars(changed))
        return found

    async def read(self, question: Callable[[Rows], T]) -> T:
        self._check()
        return question(self._rows)
