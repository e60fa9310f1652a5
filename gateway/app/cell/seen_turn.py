"""The last turn of the cell that this gateway saw, in its data directory.

Each commit of an owner is a turn. A database with fewer of them was restored to an earlier moment.
"""

import asyncio
import time
from pathlib import Path
from typing import Final

import structlog

from gateway.common.storage.private_files import write_private

log = structlog.get_logger()

FILE: Final = "cell-turn"
WRITE_S: Final = 10.0


class SeenTurn:
    """Of one cell at a time: a data directory may come to another one."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE
        self._cell_id, self._turn = _read(self._path)
        self._next_write_s = 0.0
        self._is_said = False
        """Whether the log has that it was restored."""

    def of(self, cell_id: str | None) -> int:
        """0 where nothing was seen of that cell."""
        return self._turn if cell_id is not None and cell_id == self._cell_id else 0

    async def note(self, cell_id: str | None, turn: int) -> None:
        """What the database says now."""
        if turn < self.of(cell_id):
            await self._say(turn)
        elif cell_id is not None:
            self._cell_id, self._turn, self._is_said = cell_id, turn, False
            if time.monotonic() >= self._next_write_s:
                await self.write()

    async def write(self) -> None:
        """It is known after a restart. A disk that fails holds nothing up."""
        self._next_write_s = time.monotonic() + WRITE_S
        if self._cell_id is None:
            return
        try:
            await asyncio.to_thread(write_private, self._path, f"{self._cell_id} {self._turn}\n".encode())
        except OSError as error:
            log.warning("what was seen of the cell could not be noted", error=str(error.strerror))

    async def _say(self, turn: int) -> None:
        """Once, in the log; `doctor` reads it in the file."""
        if self._is_said:
            return
        self._is_said = True
        log.error(
            "the database was restored to an earlier moment; run telemetry-gateway store restored",
            turn=turn,
            seen_turn=self._turn,
        )
        await self.write()


def _read(path: Path) -> tuple[str | None, int]:
    """(None, 0) where nothing was noted."""
    try:
        cell_id, turn = path.read_text("ascii").split()
        return cell_id, int(turn)
    except (FileNotFoundError, ValueError):
        return None, 0
