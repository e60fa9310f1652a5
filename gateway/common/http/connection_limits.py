"""How many connections each listener may have, of the files that this process may open."""

import time
from typing import Final, NamedTuple

import structlog

from gateway.common.open_files import open_files

log = structlog.get_logger()

OTHER_FILES: Final = 256
"""Databases, the lanes' own connections, the parser's process, a backup."""
MAX_OPERATORS: Final = 256
OPERATORS_OF: Final = 16
"""A listener of operators has at most one of so many files."""
MIN_CONNECTIONS: Final = 16
QUIET_S: Final = 600.0


class Shares(NamedTuple):
    """Connections that one listener may have."""

    senders: int
    """Over HTTP, and over gRPC."""
    operators: int
    """Of the admin listener, and of the local service."""


def shares_of(files: int) -> Shares:
    """No listener takes the files of another one."""
    operators = max(MIN_CONNECTIONS, min(MAX_OPERATORS, files // OPERATORS_OF))
    return Shares(max(MIN_CONNECTIONS, (files - OTHER_FILES - 2 * operators) // 2), operators)


class OperatorLimits:
    """`gateway.common.http.incoming.ConnectionLimits` of a listener for operators."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._most = shares_of(open_files()).operators
        self._logged_s: dict[str, float] = {}

    def max_connections(self) -> int:
        return self._most

    def too_many(self, peer: str | None) -> None:
        self._log("too_many_connections", peer)

    def not_admitted(self, peer: str | None) -> None:
        self._log("no_key_on_connection", peer)

    def _log(self, reason: str, peer: str | None) -> None:
        """Once in `QUIET_S`."""
        now_s = time.monotonic()
        if now_s - self._logged_s.get(reason, -QUIET_S) >= QUIET_S:
            self._logged_s[reason] = now_s
            log.warning("connection closed", listener=self._listener, reason=reason, peer=peer)
