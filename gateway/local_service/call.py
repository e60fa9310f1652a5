"""One request and its answer as plain values; everything behind the socket speaks these. Pure."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import orjson


@dataclass(frozen=True, slots=True)
class Call:
    """A request that a known key made."""

    method: str
    path: str
    params: Mapping[str, str]
    """Named parts of the path."""
    query: tuple[tuple[str, str], ...]
    body: bytes
    """Decompressed."""
    now_ms: int
    request_id: str
    """32 hex digits, random: what the service names new things with."""
    idempotency_key: str | None = None
    key_name: str = ""
    """Of the key it was made with."""


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    """JSON, or nothing."""
    retry_after_s: int | None = None


Operation = Callable[[sqlite3.Connection, Call], Answer]
"""What one endpoint does, inside one transaction; raises ServiceError, and then nothing of it is kept."""


def json_answer(status: int, content: object) -> Answer:
    return Answer(status, orjson.dumps(content))
