"""The wall clock of one process, which a test makes wrong while it runs; see `clock_shim.c`."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.shims import compiled

SOURCE: Final = Path(__file__).with_name("clock_shim.c")


class WrongClock:
    """Start the process with `environ`."""

    def __init__(self, folder: Path) -> None:
        """Right as yet; skips the test where no C compiler is."""
        self._file = folder / "clock"
        self.step(0)
        self.environ: Mapping[str, str] = {
            "LD_PRELOAD": str(compiled(SOURCE, folder)),
            "CLOCK_SHIM_FILE": str(self._file),
        }

    def step(self, ms: int) -> None:
        """From now on the clock is so far ahead; behind, where it is negative."""
        self._file.touch()
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", ms))
