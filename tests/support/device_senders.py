"""Devices as senders: what each posts of itself, and a fleet that posts over a few connections
until all of it is answered.
"""

import asyncio
import itertools
import json
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import aiohttp

from tests.support.commands import Ended, run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess

JSON = {"Content-Type": "application/json"}


class Message(NamedTuple):
    path: str
    body: bytes


def heartbeat(device_id: str, sequence: int = 1, instance: str = "one") -> Message:
    beat = {"instance_id": instance, "sequence": sequence, "status": "healthy", "kind": "workstation"}
    return Message(f"/v1/devices/{quote(device_id, safe='')}/heartbeat", json.dumps(beat).encode())


def ping(device_id: str) -> Message:
    return Message(f"/v1/devices/{quote(device_id, safe='')}/ping", b"{}")


def attributes(said: dict[str, str | int]) -> list[dict[str, object]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in said.items()
    ]


_span_ids = itertools.count(1)


def resource_spans(resource: dict[str, str | int], calls: int = 1) -> dict[str, object]:
    """So many AI calls, none like another."""
    said = attributes({
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 120, "gen_ai.usage.output_tokens": 17,
    })  # fmt: skip
    now_ns = time.time_ns()
    spans = [
        {
            "traceId": f"{number:032x}",
            "spanId": f"{number:016x}",
            "name": "chat",
            "startTimeUnixNano": str(now_ns - 1_000_000),
            "endTimeUnixNano": str(now_ns),
            "attributes": said,
        }
        for number in itertools.islice(_span_ids, calls)
    ]
    return {"resource": {"attributes": attributes(resource)}, "scopeSpans": [{"scope": {"name": "s"}, "spans": spans}]}


def telemetry(*resources: dict[str, object]) -> Message:
    return Message("/v1/traces", json.dumps({"resourceSpans": resources}).encode())


def telemetry_of(device_id: str) -> Message:
    return telemetry(resource_spans({"service.name": "checkout", "device.id": device_id}))


@dataclass(slots=True)
class Answered:
    """What became of a fleet's messages."""

    statuses: list[int] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    """For the answer that each got in the end."""
    tries: int = 0
    took_s: float = 0.0


async def post_all(
    intake_url: Callable[[], str | None], messages: Iterable[Message], *, connections: int = 50
) -> Answered:
    """Post *messages* in order over so many connections, each until it is answered.

    *intake_url* is None while no one listens.
    """
    answered, left, began_s = Answered(), deque(messages), time.monotonic()

    async def work() -> None:
        timeout = aiohttp.ClientTimeout(total=20)
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=JSON) as session:
            while left:
                await _post(session, intake_url, left.popleft(), answered)

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(work())
    answered.took_s = time.monotonic() - began_s
    return answered


async def _post(
    session: aiohttp.ClientSession, intake_url: Callable[[], str | None], message: Message, answered: Answered
) -> None:
    while True:
        url = intake_url()
        if url is not None:
            began_s = time.monotonic()
            answered.tries += 1
            try:
                async with session.post(url + message.path, data=message.body) as response:
                    await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            else:
                if response.status < 500:
                    answered.statuses.append(response.status)
                    answered.waited_s.append(time.monotonic() - began_s)
                    return
        await asyncio.sleep(0.02)  # no one states when the gateway is back


class Enrolled(NamedTuple):
    """A device as the service has it."""

    device_id: str
    status: str
    epoch: int
    enrolments: int
    enrolled_ms: int
    heartbeats: int


def enrolled_at(service_folder: Path) -> list[Enrolled]:
    """Every device of the local service in that folder, without the gateway itself."""
    with closing(sqlite3.connect(service_folder / "service.db")) as connection:
        found = connection.execute(
            "SELECT device_id, status, epoch,"
            " (SELECT count(*) FROM device_enrollments AS e WHERE e.device_no = d.device_no), enrolled_at_ms,"
            " (SELECT ifnull(sum(heartbeats), 0) FROM device_instances AS i WHERE i.device_no = d.device_no)"
            " FROM devices AS d WHERE kind <> 'gateway' ORDER BY enrolled_at_ms"
        )
        return [Enrolled(*row) for row in found]


def most_over_bucket(times_ms: list[int], per_s: float) -> float:
    """How many of these came at once at most, beyond what a bucket that fills by
    *per_s* would have let through.
    """
    most, tokens, last_ms = 0.0, 0.0, times_ms[0]
    for at_ms in sorted(times_ms):
        tokens = max(0.0, tokens - (at_ms - last_ms) / 1000 * per_s) + 1
        most, last_ms = max(most, tokens), at_ms
    return most


def run_devices(gateway: GatewayProcess, *arguments: str, runs: bool = True) -> Ended:
    """`telemetry-gateway devices …` as an operator has it; *runs*: the gateway does."""
    return run_command(gateway, "devices", *arguments, runs=runs)


def run_command(gateway: GatewayProcess, *arguments: str, runs: bool = True) -> Ended:
    environ = {"TELEMETRY_GATEWAY_DATA": str(gateway.data_dir)}
    if runs:
        environ["TELEMETRY_GATEWAY_LISTEN_ADMIN"] = gateway.admin_url.removeprefix("http://")
    return run_telemetry_gateway(*arguments, environ=environ)
