"""Parser processes for a test."""

from pathlib import Path
from typing import Literal

from gateway.pipeline.parsing.frames import Setup
from gateway.pipeline.parsing.worker_client import WorkerClient
from gateway.read.limits import DEFAULT_LIMITS


def worker_client(
    *, users: Literal["keep", "hash"] = "keep", user_secret: bytes = b"", price_file: Path | None = None
) -> WorkerClient:
    """Not started yet."""
    return WorkerClient(worker_setup(users=users, user_secret=user_secret, price_file=price_file))


def worker_setup(
    *, users: Literal["keep", "hash"] = "keep", user_secret: bytes = b"", price_file: Path | None = None
) -> Setup:
    return Setup(
        users=users,
        user_secret=user_secret,
        price_file=None if price_file is None else str(price_file),
        prefer_metrics=[],
        mapping=None,
        machine_secret=b"",
        price_list=True,
        own_device=None,
        limits=list(DEFAULT_LIMITS),
        events=("auto", False, []),
        niceness=0,
        tags={},
    )
