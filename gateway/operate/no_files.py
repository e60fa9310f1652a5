"""What a gateway answers about files where it keeps none: all is in a Postgres of its own."""

from pathlib import Path
from typing import Final

from gateway.operate.backup import Staged
from spool.errors import SpoolError
from spool.status import Verified

REMEDY: Final = (
    "this gateway keeps all in Postgres (store.type): back up and check that with its own tools (docs/cell.md)"
)


class NoFiles:
    """`SpoolFiles` and `BackupSource`."""

    async def verify(self) -> Verified:
        raise SpoolError(REMEDY)

    async def back_up(self, to: Path) -> int:
        raise SpoolError(REMEDY)

    async def acknowledge(self) -> int:
        """No file was salvaged."""
        return 0

    async def stage(self, work_dir: Path | None) -> Staged:
        raise SpoolError(REMEDY)
