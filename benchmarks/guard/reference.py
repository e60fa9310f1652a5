"""The reference loop: work that no change of the gateway makes faster or slower, of the kinds that
the hot paths are made of. Their cost is stated as a ratio to it, so that a committed ratio holds on
another machine, and on a busy one.
"""

import sqlite3
import time
from typing import Final

import orjson

RECORDS: Final = 8_000
_RECORD: Final = {
    "schema": "inference/1",
    "kind": "call",
    "billed": True,
    "source": {"format": "otlp.traces", "convention": "gen_ai", "library": "openai_v2", "library_version": "2.2"},
    "operation": "chat",
    "provider": "openai",
    "request_model": "gpt-4o-mini",
    "response_model": "gpt-4o-mini-2024-07-18",
    "started_at": "2026-01-05T10:00:01.250Z",
    "duration_ms": 840,
    "usage": {"status": "reported", "input_tokens": 1200, "output_tokens": 120, "cache_read_input_tokens": 300},
    "status": "ok",
    "attribution": {"service_name": "checkout-bot", "environment": "prod", "labels": {"namespace": "shop"}},
}


def reference_ns() -> int:
    """CPU time of this thread in ns for `RECORDS` records: made, changed, written as JSON, read
    back, and inserted into SQLite in memory.
    """
    began = time.thread_time_ns()
    rows = [_row(number) for number in range(RECORDS)]
    connection = sqlite3.connect(":memory:")
    with connection:
        connection.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, key TEXT NOT NULL, body BLOB NOT NULL)")
        connection.executemany("INSERT INTO record VALUES (?, ?, ?)", rows)
    connection.close()
    return time.thread_time_ns() - began


def _row(number: int) -> tuple[int, str, bytes]:
    key = f"{number:032x}"
    record = {name: value for name, value in _RECORD.items() if value is not None} | {"record_id": key}
    read = orjson.loads(orjson.dumps(record))
    total = sum(count for count in read["usage"].values() if isinstance(count, int))
    read["usage"] = {**read["usage"], "total_tokens": total + number}
    return number, key, orjson.dumps(read)
