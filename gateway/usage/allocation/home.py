"""Where versions of allocation rules are kept, as this room uses it."""

from typing import Protocol

from gateway.common.storage.home import Home
from gateway.usage.sums.allocation import Definition


class AllocationRows(Protocol):
    """What is kept, inside one commit or snapshot."""

    def every(self) -> list[Definition]:
        """All versions, by target and version."""

    def put(self, definition: Definition) -> None:
        """Store it, in place of the one with its target and version."""

    def drop(self, target: str, through_version: int) -> None:
        """Delete the versions of *target* through that one."""


AllocationHome = Home[AllocationRows]
