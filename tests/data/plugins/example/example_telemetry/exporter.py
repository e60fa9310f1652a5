"""Appends records to a file, a line each."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from exporters.base import Delivered, Hold, Outcome
from spool.record import Batch


class Archive:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, batch: Batch) -> Outcome:
        try:
            await asyncio.to_thread(self._append, batch)
        except OSError as error:
            return Hold(f"the archive cannot be written: {error.strerror}", answered=False)
        return Delivered()

    def _append(self, batch: Batch) -> None:
        with self._path.open("ab") as file:
            file.writelines(record + b"\n" for record in batch.records)

    async def close(self) -> None:
        """Nothing stays open."""


def archive(lane: str, options: Mapping[str, str]) -> Archive:
    """*lane*: the exporter's name in the configuration. Raises ValueError for its options."""
    if options.keys() != {"path"}:
        raise ValueError("options: path is needed, and nothing else")
    return Archive(Path(options["path"]))
