"""Puts the receiver together from the configuration."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.config import Config
from gateway.config_values import TcpAddress
from gateway.intake import Intake
from gateway.web.body import Limits
from gateway.web.cors import Cors
from gateway.web.gate import Gate, IntakeGate, KeyGate, Keys, OpenGate
from gateway.web.otlp import otlp_routes
from gateway.web.receiver import Receiver
from gateway.web.routes import Route, RouteTable
from gateway.web.telemetry import telemetry_routes


class InboundKeys(Keys, Protocol):
    """The part of the key store that decides whether intake is open."""

    @property
    def ever_created(self) -> Callable[[], bool]:
        """Whether a key was ever made."""


def build_gate(config: Config, keys: InboundKeys) -> Gate:
    """Open intake checks the Host only on loopback TCP: no browser reaches a unix socket, and elsewhere our names are not known."""
    address = config.listen.http
    opened = OpenGate(check_host=isinstance(address, TcpAddress) and address.is_loopback)
    if config.auth == "none":
        return opened
    return IntakeGate(any_key_ever=keys.ever_created, opened=opened, keyed=KeyGate(keys))


def build_receiver(config: Config, intake: Intake, gate: Gate, further: Sequence[Route] = ()) -> Receiver:
    """The receiver with OTLP, events, heartbeats, and the *further* routes of other formats."""
    limits = Limits(
        max_body_bytes=config.limits.max_body_bytes,
        max_decompressed_bytes=config.limits.max_decompressed_bytes,
        max_in_flight_bytes=config.limits.max_in_flight_bytes,
        body_timeout_s=config.limits.body_timeout_s,
    )
    routes = RouteTable([*otlp_routes(intake), *telemetry_routes(intake), *further], config.http.base_path)
    return Receiver(routes, gate, limits, Cors(frozenset(config.http.cors_origins)))
