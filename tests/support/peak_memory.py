"""The most resident memory of a process and of its children since a moment, as Linux counts it."""

from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
_RESET_PEAK: Final = "5"
"""For `clear_refs` of proc(5): the peak begins at what is resident now."""


class PeakMemory:
    """From now on."""

    def __init__(self, pid: int) -> None:
        self._rest_bytes = {}
        for name, each in processes_of(pid).items():
            Path(f"/proc/{each}/clear_refs").write_text(_RESET_PEAK)
            self._rest_bytes[name] = status_bytes(each, "VmRSS")
        self._pid = pid

    def grown_mib(self) -> dict[str, int]:
        """The peak of each process above what it began with: `main`, `worker`."""
        return self._above("VmHWM")

    def rest_mib(self) -> dict[str, int]:
        """The same of what is resident now."""
        return self._above("VmRSS")

    def _above(self, name: str) -> dict[str, int]:
        seen = {each: status_bytes(pid, name) for each, pid in processes_of(self._pid).items()}
        return {each: (n_bytes - self._rest_bytes.get(each, 0)) // MIB for each, n_bytes in seen.items()}


def processes_of(pid: int) -> dict[str, int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    names = ["worker", *(f"worker {number}" for number in range(2, len(children) + 1))]
    return {"main": pid} | dict(zip(names, map(int, children), strict=False))


def status_bytes(pid: int, name: str) -> int:
    """A field of /proc/PID/status."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
