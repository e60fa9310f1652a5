"""A gateway with far more dead letters, keys, devices and insights than a page shows, and how large
and how fast each view of the page is.

`python -m tests.support.crowded` prints both.
"""

import json
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from gateway.operate.site.registry import VIEWS
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess

DEAD_LETTERS, KEYS, DEVICES, INSIGHTS, COMMENTS = 10_000, 2_000, 20_000, 1_000, 500
LONG = "a long text with <marks> & more, " * 20
RUNS = 9


class Seen(NamedTuple):
    path: str
    size_bytes: int
    median_ms: float
    """Of the answers, over loopback."""
    cpu_ms: float
    """That the gateway's processes took for each, its background work included."""


@contextmanager
def crowded_gateway(folder: Path) -> Iterator[GatewayProcess]:
    """A running gateway whose files were filled while it stood still."""
    gateway = GatewayProcess(folder)
    with gateway:
        made = run_command(gateway, "keys", "create", "--name", "first", "--managed", "send-ai-telemetry", "--yes")
        assert made.code == 0, made.err
        assert gateway.stop() == 0
        fill_spool(gateway.data_dir / "spool.db")
        fill_control(gateway.data_dir / "control.db")
        gateway.start()
        yield gateway


def fill_spool(file: Path) -> None:
    record = json.dumps(
        {"record_id": "0" * 32, "usage": {"input_tokens": 7}, "labels": {str(n): LONG for n in range(400)}}
    )
    now_ms = int(time.time() * 1000)
    rows = [
        (n, "ai_telemetry", now_ms - n, f"reason_{n % 90}", LONG[:512], record if n == 7 else "{}", 2)
        for n in range(1, DEAD_LETTERS + 1)
    ]
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany(
            "INSERT INTO dead_letter (id, lane, buried_ms, code, message, record, bytes) VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )


def fill_control(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        fill_devices(connection)
        fill_keys(connection)
        fill_insights(connection)


def fill_devices(connection: sqlite3.Connection) -> None:
    now_ms = int(time.time() * 1000)
    details = json.dumps({"client": {"name": "claude-code"}, "labels": {f"label {n}": LONG[:256] for n in range(64)}})
    connection.executemany(
        "INSERT INTO devices (device_id, state, epoch, kind, origin, details, first_seen_ms, last_contact_ms, cycles,"
        " forbidden, beat_no, beat_waits, enrolment_waits)"
        " VALUES (?, 'enrolled', 1, 'workstation', 'heartbeat', ?, ?, ?, x'5b5d', 0, 0, 0, 0)",
        [(f"device-{n:05}", details.encode(), now_ms - 10**8, now_ms - n * 10_000) for n in range(DEVICES)],
    )


def fill_keys(connection: sqlite3.Connection) -> None:
    """Copies of the first key under other ids and names."""
    cursor = connection.execute("SELECT * FROM keys")
    names = [column[0] for column in cursor.description]
    first = dict(zip(names, cursor.fetchone(), strict=True))
    copies = [
        {**first, "key_id": f"k{n:09}", "name": f"key {n:04} {LONG[:200]}", "secret_hash": n.to_bytes(32, "big")}
        for n in range(KEYS)
    ]
    slots = ", ".join("?" * len(names))
    connection.executemany(f"INSERT INTO keys VALUES ({slots})", [tuple(copy.values()) for copy in copies])


def fill_insights(connection: sqlite3.Connection) -> None:
    connection.executemany(
        "INSERT INTO insights (insight_id, insight_no, cause, title, category, effort, cost_impact, status,"
        " last_updated_ms, standing) VALUES (?, ?, '', ?, 'models', 'low', '12.50', 'new', ?, 0)",
        [(f"{n:032x}", n + 1000, f"insight {n} {LONG[:480]}", 1_767_607_200_000 + n) for n in range(INSIGHTS)],
    )
    connection.executemany(
        "INSERT INTO insight_comments (comment_no, comment_id, insight_id, author, text, created_at_ms, updated_at_ms)"
        " VALUES (?, ?, ?, 'operator', ?, ?, ?)",
        [(n, f"{n:032x}", f"{0:032x}", (LONG * 20)[:9000], n, n) for n in range(1, COMMENTS + 1)],
    )


def look_at_views(gateway: GatewayProcess, runs: int = RUNS) -> list[Seen]:
    """Each view, and one of each kind that has a page of its own. Raises HTTPStatusError."""
    token = (gateway.data_dir / "admin-token").read_text().strip()
    headers = {"Authorization": token, "Accept": "text/html"}
    with httpx.Client(base_url=gateway.admin_url, headers=headers, timeout=60) as client:
        return [look_at(gateway, client, path, runs) for path in paths(client)]


def paths(client: httpx.Client) -> Sequence[str]:
    key = re.findall(r'href="(/keys/[0-9A-Za-z]{5,})"', client.get("/keys").text)[-1]
    return [view.path for view in VIEWS if "{" not in view.path] + [
        key,
        "/devices/device-19999",
        f"/insights/{0:032x}",
        "/dead-letters/7",
        "/connect/litellm",
    ]


def look_at(gateway: GatewayProcess, client: httpx.Client, path: str, runs: int) -> Seen:
    took_ms, before_s = [], gateway.process.cpu_s()
    for _ in range(runs):
        began = time.perf_counter()
        answer = client.get(path).raise_for_status()
        took_ms.append((time.perf_counter() - began) * 1000)
    cpu_ms = (gateway.process.cpu_s() - before_s) * 1000 / runs
    return Seen(path, len(answer.content), statistics.median(took_ms), cpu_ms)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, crowded_gateway(Path(folder)) as gateway:
        for seen in look_at_views(gateway):
            figures = f"{seen.size_bytes / 1000:7.1f} kB {seen.median_ms:7.1f} ms {seen.cpu_ms:7.1f} ms of CPU"
            print(f"{seen.path:<48} {figures}")  # noqa: T201 a command
