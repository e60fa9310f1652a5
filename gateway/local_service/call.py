"""One request and its response as plain values. Pure."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import orjson


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """A request made with a known key."""

    method: str
    path: str
    params: Mapping[str, str]
    """Named parts of the path."""
    query: tuple[tuple[str, str], ...]
    body: bytes
    """Decompressed."""
    now_ms: int
    request_id: str
    """32 hex digits, random: the id of whatever the request creates."""
    idempotency_key: str | None = None
    key_name: str = ""
    """Of the key it was made with."""
    key_id: str = ""
    """The same."""
    content_type: str = ""
    """Of the body, as it was stated."""
    gateway_id: str = ""
    """Of the gateway that states to send it; empty where none does."""


class ServiceAnswer(NamedTuple):
    status: int
    body: bytes = b""
    """JSON, or nothing."""
    retry_after_s: int | None = None


Operation = Callable[[sqlite3.Connection, ServiceCall], ServiceAnswer]
"""One endpoint's work, inside one transaction; a ServiceError rolls it back."""


def json_answer(status: int, content: object) -> ServiceAnswer:
    return ServiceAnswer(status, orjson.dumps(content))
