"""Puts the receiver together from the configuration."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from aiohttp import web

from exporters.keyring import read_secret
from gateway.common.contract.intake import Intake
from gateway.common.http.connection_limits import shares_of
from gateway.common.open_files import open_files
from gateway.common.tls import subject_of
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config, admits_by_certificate
from gateway.config.values import Address, TcpAddress
from gateway.fleet.senders.activity import Senders
from gateway.observability.telemetry.tracer import Tracer
from gateway.products.catalogue import SOURCES
from gateway.serve.admission import Admission, no_subject
from gateway.serve.authenticator import Authenticator, IntakeGate, KeyAuthenticator, Keys, OpenIntakeAuthenticator
from gateway.serve.body import BodyLimits
from gateway.serve.cors import Cors
from gateway.serve.http.forwarded import forwarded_routes
from gateway.serve.http.sources import SourceAccess, source_routes
from gateway.serve.http.telemetry import telemetry_routes
from gateway.serve.otlp import otlp_routes
from gateway.serve.quotas import Quotas
from gateway.serve.receiver import Receiver
from gateway.serve.recent_senders import MAX_SENDERS, RecentSenders
from gateway.serve.routes import Route, RouteTable


class InboundKeys(Keys, Protocol):
    """The part of the key store that decides whether intake is open."""

    @property
    def ever_created(self) -> Callable[[], bool]:
        """Whether a key was ever made."""


def build_gate(config: Config, keys: InboundKeys) -> Authenticator:
    """The gate of the HTTP listener.

    Open intake checks the Host only on loopback TCP: no browser reaches a unix socket, and
    elsewhere our names are not known.
    """
    address = config.listen.http
    return _gate_at(address, config, keys, check_host=isinstance(address, TcpAddress) and address.is_loopback)


def build_grpc_gate(config: Config, keys: InboundKeys) -> Authenticator:
    """The gate of the gRPC listener. No page in a browser can speak gRPC, so no Host is checked."""
    return _gate_at(config.listen.grpc, config, keys, check_host=False)


def _gate_at(address: Address, config: Config, keys: InboundKeys, *, check_host: bool) -> Authenticator:
    """Where others can reach the address, every request needs a key, were it that none exists,
    unless the configuration states `auth: none`.
    """
    opened = OpenIntakeAuthenticator(check_host=check_host)
    if config.auth == "none":
        return opened
    keyed = KeyAuthenticator(keys)
    if address is not None and not address.is_loopback:
        return keyed
    return IntakeGate(any_key_ever=keys.ever_created, opened=opened, keyed=keyed)


def build_receiver(
    config: Config,
    intake: Intake,
    gate: Authenticator,
    further: Sequence[Route] = (),
    *,
    now_ms: Callable[[], int] = wall_ms,
    monotonic_s: Callable[[], float] = time.monotonic,
    senders: Senders | None = None,
    tracer: Tracer | None = None,
    quotas: Quotas | None = None,
) -> Receiver:
    """The receiver with OTLP, AI gateways, events, heartbeats, what other gateways
    forward, and *further* routes. *quotas*: of keys, where this gateway is not the only one.
    """
    # Where no key is ever asked for, the first one shuts no one out.
    recent = RecentSenders(now_ms, most=0 if config.auth == "none" else MAX_SENDERS)
    admission = Admission(gate, quotas or Quotas(monotonic_s), subject_reader(config))
    routes, limits, cors = open_routes(config, intake, further)
    return Receiver(routes, admission, limits, cors, now_ms=now_ms, senders=senders, recent=recent, tracer=tracer)


def subject_reader(config: Config) -> Callable[[web.BaseRequest], str | None]:
    """How the name in a client's certificate is read from its request, where that may stand for a
    key.
    """
    return certificate_subject if admits_by_certificate(config, "http") else no_subject


def certificate_subject(request: web.BaseRequest) -> str | None:
    transport = request.transport
    return None if transport is None else subject_of(transport.get_extra_info("peercert"))


def open_routes(config: Config, intake: Intake, further: Sequence[Route] = ()) -> tuple[RouteTable, BodyLimits, Cors]:
    """What a reload may change, for `Receiver.use`. Raises KeyFault for a secret that cannot be
    read.
    """
    limits = BodyLimits(
        max_body_bytes=config.limits.max_body_bytes,
        max_decompressed_bytes=config.limits.max_decompressed_bytes,
        max_in_flight_bytes=config.limits.max_in_flight_bytes,
        body_timeout_s=config.limits.body_timeout_s,
        max_connections=min(config.limits.max_connections, shares_of(open_files()).senders),
    )
    cors = Cors(frozenset(config.http.cors_origins))
    sources = source_routes(tuple(SOURCES.values()), access_of(config), intake)
    own = (*otlp_routes(intake), *telemetry_routes(intake), *forwarded_routes(intake))
    return RouteTable([*own, *sources, *further], config.http.base_path), limits, cors


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
