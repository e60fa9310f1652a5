"""What every step of a start builds with."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from gateway.common.background import run_in_background
from gateway.common.contract.errors import CannotStart
from gateway.common.tls import ServerTls, TlsFault
from gateway.config.model import Config
from gateway.observability.telemetry.tracer import Tracer

PROTOCOLS = ("http/1.1", "h2")
"""Of ALPN: a client that speaks nothing but gRPC is answered where to go."""


@dataclass(slots=True)
class Stop:
    """Whether the gateway must not go on; its owner then stops it."""

    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str | None = None
    """None: a signal, or nothing so far."""

    def want(self, reason: str) -> None:
        self.reason = reason
        self.wanted.set()


@dataclass(frozen=True, slots=True)
class Build:
    """The configuration of a start, its clocks, and what stops again all that it began."""

    config: Config
    stack: AsyncExitStack
    stop: Stop
    now_ms: Callable[[], int]
    """The wall clock."""
    monotonic_s: Callable[[], float]
    tls: Mapping[str, ServerTls]
    """Listener -> its TLS, of those that listen with it."""
    tracer: Tracer | None
    is_inner: bool = False
    """Whether it serves the gateways of its cell alone, whose listeners are announced."""

    def run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run *work* until the gateway stops."""
        run_in_background(self.stack, work, name)

    def context_of(self, listener: str) -> ssl.SSLContext | None:
        """None for a listener without TLS."""
        tls = self.tls.get(listener)
        return None if tls is None else tls.context


def open_tls(config: Config, now_ms: Callable[[], int]) -> dict[str, ServerTls]:
    """Listener -> its TLS, of those that listen with it. Raises CannotStart."""
    listening = config.listeners()
    try:
        return {
            name: ServerTls(options.files(f"tls.{name}"), PROTOCOLS, now_ms)
            for name, options in config.tls.groups().items()
            if listening[name] is not None
        }
    except TlsFault as fault:
        raise CannotStart(str(fault)) from fault
