"""The server under test: its addresses, and what else the kit may know of it."""

import asyncio
import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.otlp.grpc_wire import Grpc
from tests.conformance.otlp.http_wire import Http


@dataclass(slots=True)
class Target:
    http: Http | None = None
    grpc: Grpc | None = None
    busy_http: Http | None = None
    """The same server in a state in which it takes nothing for now (a full queue, no memory)."""
    busy_grpc: Grpc | None = None
    weak_key: str | None = None
    """A key that it knows and that may not send OTLP."""
    origin: str | None = None
    """Of a page that may post to it, such as `https://app.example`."""
    pid: int | None = None
    """Its process, on this machine: memory is looked at."""
    status_url: str | None = None
    """`/v2/status` of a telemetry gateway: how many calls it kept."""
    sender: Http | None = None
    """The same server where it forwards to `destination`; `http` where that does."""
    destination: tuple[str, int] | None = None
    """Where the kit listens for what the target forwards."""

    def speaks(self, over: str) -> bool:
        match over:
            case "http":
                return self.http is not None
            case "grpc":
                return self.grpc is not None
            case _:
                return self.destination is not None and (self.sender or self.http) is not None

    async def kept(self) -> int | None:
        """Calls that it kept since it started; None where the kit cannot see them."""
        return None if self.status_url is None else await asyncio.to_thread(kept_by, self.status_url)

    def peak_mib(self) -> int | None:
        """The most memory that its process had so far; None where the kit cannot see it."""
        if self.pid is None:
            return None
        for text in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if text.startswith("VmHWM:"):
                return int(text.split()[1]) // 1024
        return None


def kept_by(status_url: str) -> int:
    with urllib.request.urlopen(status_url) as answer:
        kept: int = json.load(answer)["edge"]["kept"]
    return kept


async def kept_since(target: Target, before: int) -> int:
    """Calls kept since *before* were."""
    return (await target.kept() or 0) - before
