"""Puts the receiver together from the configuration."""

import os
from collections.abc import Callable, Sequence
from typing import Protocol

from exporters.keyring import read_secret
from gateway.config import Config
from gateway.config_values import TcpAddress
from gateway.intake import Intake
from gateway.sources.catalogue import SOURCES
from gateway.web.body import Limits
from gateway.web.cors import Cors
from gateway.web.gate import Gate, IntakeGate, KeyGate, Keys, OpenGate
from gateway.web.otlp import otlp_routes
from gateway.web.receiver import Receiver
from gateway.web.routes import Route, RouteTable
from gateway.web.sources import SourceAccess, source_routes
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
    """The receiver with OTLP, AI gateways, events, heartbeats, and *further* routes."""
    limits = Limits(
        max_body_bytes=config.limits.max_body_bytes,
        max_decompressed_bytes=config.limits.max_decompressed_bytes,
        max_in_flight_bytes=config.limits.max_in_flight_bytes,
        body_timeout_s=config.limits.body_timeout_s,
    )
    cors = Cors(frozenset(config.http.cors_origins))
    sources = source_routes(tuple(SOURCES.values()), access_of(config), intake, gate, limits, cors)
    routes = RouteTable([*otlp_routes(intake), *telemetry_routes(intake), *sources, *further], config.http.base_path)
    return Receiver(routes, gate, limits, cors)


def access_of(config: Config) -> dict[str, SourceAccess]:
    """What is configured of AI gateways, with their secrets read."""
    return {
        name: SourceAccess(
            None if options.secret is None else read_secret(options.secret, os.environ).reveal(),
            options.url_token,
            options.verify,
        )
        for name, options in config.sources.items()
    }
