"""Versions of allocation rules in memory: `gateway.usage.allocation.home` with a dictionary."""

from gateway.usage.sums.allocation import Definition


class MemoryAllocationRows:
    def __init__(self) -> None:
        self.versions: dict[tuple[str, int], Definition] = {}

    def every(self) -> list[Definition]:
        return [self.versions[each] for each in sorted(self.versions)]

    def put(self, definition: Definition) -> None:
        self.versions[definition.target, definition.version] = definition

    def drop(self, target: str, through_version: int) -> None:
        gone = [each for each in self.versions if each[0] == target and each[1] <= through_version]
        for each in gone:
            del self.versions[each]
