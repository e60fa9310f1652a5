"""The operation that begins a backup: copies of all databases and secrets, as of one moment, in a
private folder on this machine.

`telemetry-gateway backup` makes one file of them and deletes the folder.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypedDict

from pydantic import ConfigDict, Field

from gateway.common.body import Body
from gateway.common.contract.errors import Unauthenticated
from gateway.common.contract.json_types import Time
from gateway.operate.archive.staging import stage
from gateway.operate.operation import Operation, OperationAnswer, OperationCall
from spool.clock import rfc3339_ms
from spool.store import FileSpool, Snapshots


class Staged(NamedTuple):
    folder: Path
    taken_ms: int
    """Wall clock: the one moment that the copies are of."""


class StagedBackup(TypedDict):
    folder: str
    """Holds the copies, 0700, until the caller or the next backup deletes it."""
    taken_at: Time
    """The moment that all copies are of."""


class BackupSource(Protocol):
    """The running gateway, or the files of a stopped one."""

    async def stage(self, work_dir: Path | None) -> Staged:
        """Write the copies into a new folder in *work_dir*, by default in the data directory.

        Raises SpoolError, DatabaseUnavailable, OSError; nothing is left then.
        """


class Stage(Body):
    """Where the copies wait; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    work_dir: Annotated[
        str | None,
        Field(pattern="^/", description="absolute path of a folder for the copies; absent: the data directory"),
    ] = None


class DatabaseFile(Protocol):
    @property
    def path(self) -> Path: ...

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Nothing is committed until the end of the block."""


class LiveBackup:
    """Of the running gateway."""

    def __init__(
        self, data_dir: Path, spool: FileSpool, databases: Mapping[str, DatabaseFile], now_ms: Callable[[], int]
    ) -> None:
        """*databases*: name of the copy -> database, of all but the spool."""
        self._data_dir = data_dir
        self._spool = spool
        self._databases = databases
        self._now_ms = now_ms

    async def stage(self, work_dir: Path | None) -> Staged:
        snapshots, taken_ms = await self._snapshot()
        try:
            to, keep_free = work_dir or self._data_dir, self._spool.settings.reserve_bytes
            folder = await asyncio.to_thread(stage, snapshots, self._data_dir, to, keep_free_bytes=keep_free)
        finally:
            snapshots.close()
        return Staged(folder, taken_ms)

    async def _snapshot(self) -> tuple[Snapshots, int]:
        """No database commits between the first snapshot and the last: milliseconds."""
        async with AsyncExitStack() as paused:
            for database in self._databases.values():
                await paused.enter_async_context(database.paused())
            others = {name: database.path for name, database in self._databases.items()}
            return await self._spool.snapshot(others), self._now_ms()


async def begin(backup: BackupSource, call: OperationCall[Stage]) -> StagedBackup:
    work_dir = call.body.work_dir
    staged = await backup.stage(None if work_dir is None else Path(work_dir))
    if not call.is_admitted():
        await asyncio.to_thread(shutil.rmtree, staged.folder, ignore_errors=True)
        raise Unauthenticated("the credential was revoked while the copies were made: they are deleted")
    return {"folder": str(staged.folder.absolute()), "taken_at": rfc3339_ms(staged.taken_ms)}


BEGIN: Final = Operation(
    method="POST", path="/v2/backup", id="beginBackup", tag="Spool",
    summary="Copy all databases, keys and secrets, as of one moment, into a private folder of this machine",
    text="`telemetry-gateway backup` makes one file of the folder and deletes it; it holds secrets.",
    handler=begin, body=Stage, is_body_needed=False, answer=OperationAnswer("The copies are on disk.", StagedBackup),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[BackupSource, Any], ...]] = (BEGIN,)
