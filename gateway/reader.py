"""Payloads read by a worker process: what goes there and what comes back, as types."""

from collections.abc import Mapping
from pathlib import Path

from gateway.errors import BadPayload
from gateway.normalise.context import Context
from gateway.packing import Packed
from gateway.worker import Job, Setup
from gateway.workers import Worker


class Reader:
    """Start it in a running loop; ask it while it `is_free`."""

    def __init__(
        self, *, users: str, user_secret: bytes, price_file: Path | None, prefer_metrics: frozenset[str]
    ) -> None:
        setup = Setup(
            users=users,
            user_secret=user_secret,
            price_file=None if price_file is None else str(price_file),
            prefer_metrics=sorted(prefer_metrics),
        )
        self.worker = Worker("gateway.worker", lambda: setup)

    def start(self) -> None:
        self.worker.start()

    async def stop(self) -> None:
        await self.worker.stop()

    @property
    def is_free(self) -> bool:
        return self.worker.is_free

    async def pack(self, kind: str, body: bytes, json: bool, context: Context) -> tuple[Packed, Mapping[str, int]]:  # noqa: FBT001 passed on
        """The payload read, and model -> calls without a price. Raises BadPayload, WorkerGone."""
        job = Job(
            kind=kind,
            json=json,
            body=body,
            received_at_ms=context.received_at_ms,
            received_at=context.received_at,
            key=context.key,
            peer=context.peer,
        )
        answer = await self.worker.ask(job)
        if not answer[0]:
            raise BadPayload(answer[1])
        return Packed._make(answer[1]), answer[2]
