"""A gateway within the test's own process, where a test reaches into it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.app import Gateway
from gateway.config.loader import load_config

ANY_PORT = "127.0.0.1:0"


def options(folder: Path, **more: object) -> dict[str, object]:
    """Options of a gateway in *folder*, all listeners but gRPC on ports that the system chooses,
    without a worker. *more* are added or replace them, by their names (`**{"listen.grpc": …}`).
    """
    return {
        "data_dir": str(folder / "data"),
        "listen.http": ANY_PORT,
        "listen.grpc": "off",
        "listen.admin": ANY_PORT,
        "listen.service": ANY_PORT,
        "workers": "off",
        **more,
    }


@asynccontextmanager
async def running_gateway(folder: Path, **more: object) -> AsyncIterator[Gateway]:
    """Started with `options`; stopped in the end."""
    gateway = await Gateway.start(load_config(None, options(folder, **more), {}))
    try:
        yield gateway
    finally:
        await gateway.stop()
