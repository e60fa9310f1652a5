"""Binds the gRPC server, with the standard health service and reflection; stops it in order."""

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its words about bytes of strangers, which may be a key

from grpc import aio, dynamic_ssl_server_credentials, ssl_server_certificate_configuration
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha.reflection_pb2_grpc import add_ServerReflectionServicer_to_server

from gateway.common import unix_socket
from gateway.common.tls import Loaded, ServerTls
from gateway.config.values import Address, TcpAddress, UnixAddress
from gateway.contract.errors import not_bound
from gateway.grpc.health import Health
from gateway.grpc.receiver import SERVICES, GrpcReceiver
from gateway.grpc.reflection import SERVICE as REFLECTION_SERVICE
from gateway.grpc.reflection import Reflection
from gateway.receiver.body import Limits
from gateway.receiver.listen import OWNER_AND_GROUP, SHUTDOWN_S, Closing

OPTION: Final = "listen.grpc"
HEALTH_SERVICE: Final = "grpc.health.v1.Health"
SLACK: Final = 1.25
"""The transport lets in so much more than a message may have: up to that the answer names the
option. Beyond it the transport answers RESOURCE_EXHAUSTED itself."""
APPEND_S: Final = 2.0
"""How long what calls left to be appended may still take, once the last one has ended."""
MAX_METADATA_BYTES: Final = 16 * 1024

OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.so_reuseport", 0),  # else a second gateway would share the port in silence
    ("grpc.per_message_decompression", 0),  # ours is bounded, and takes its bytes from the budget
    ("grpc.compression_enabled_algorithms_bitset", 0b101),  # identity and gzip
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.max_concurrent_streams", 256),
    ("grpc.keepalive_time_ms", 60_000),  # senders that vanished are noticed
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_connection_idle_ms", 300_000),  # without a call; a sender that has one connects again
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.http2.max_ping_strikes", 0),  # a sender's own keep-alive, however often, ends no connection
    ("grpc.http2.bdp_probe", 0),  # the window of a stream that is not read stays as it is
)


def make_server(receiver: GrpcReceiver, limits: Limits) -> Any:
    """A server with the handlers of *receiver*. Needs a running loop."""
    # The library would log an error with its traceback; ours become answers before.
    logging.getLogger("grpc").setLevel(logging.CRITICAL + 1)
    most = min(int(limits.max_body_bytes * SLACK), 2**31 - 1)
    limited = (
        ("grpc.max_receive_message_length", most),
        ("grpc.max_allowed_incoming_connections", limits.max_connections),  # a further one is closed
    )
    server = aio.server(options=(*OPTIONS, *limited))
    server.add_generic_rpc_handlers(tuple(receiver.handlers()))
    return server


async def bind_grpc(
    closing: Closing, receiver: GrpcReceiver, limits: Limits, address: Address, tls: ServerTls | None = None
) -> Address:
    """Serve at *address* until *closing* ends it; what was really bound, None when it is off.

    Raises CannotStart.
    """
    if address is None:
        return None
    server = make_server(receiver, limits)
    health = Health(SERVICES.values())
    add_HealthServicer_to_server(health, server)
    described = Reflection((*SERVICES.values(), HEALTH_SERVICE, REFLECTION_SERVICE))
    add_ServerReflectionServicer_to_server(described, server)
    bound = bind(server, address, tls)
    await server.start()
    file = unix_socket.id_of(bound.path) if isinstance(bound, UnixAddress) else None
    closing.add(partial(stop, server, health, receiver, bound, file))
    return bound


async def stop(
    server: Any,
    health: Health,
    receiver: GrpcReceiver,
    bound: TcpAddress | UnixAddress,
    file: unix_socket.FileId | None,
) -> None:
    """Take no more calls, and answer those that are under way. *file*: of a Unix socket."""
    if isinstance(bound, UnixAddress) and file is not None:
        unix_socket.remove(bound.path, file)
    health.stop()
    await server.stop(SHUTDOWN_S)
    with suppress(TimeoutError):
        async with asyncio.timeout(APPEND_S):
            await receiver.wait_until_taken()


def bind(server: Any, address: TcpAddress | UnixAddress, tls: ServerTls | None = None) -> TcpAddress | UnixAddress:
    """Bind *server*; the address with the port that was really bound. Raises CannotStart."""
    try:
        match address:
            case UnixAddress(path):
                unix_socket.clear(path)
                add_unix(server, path.absolute(), tls)
                return address
            case TcpAddress(host, _):
                return TcpAddress(host, add_port(server, str(address), tls))
    except OSError as error:
        raise not_bound(OPTION, address, error) from error
    except RuntimeError as error:
        raise not_bound(OPTION, address, fault_of(address)) from error


def add_unix(server: Any, path: Path, tls: ServerTls | None) -> None:
    """Bind to *path* by another name: when it binds and when it stops, grpc unlinks whatever socket
    has the name that it was given. Raises OSError, RuntimeError.
    """
    unix_socket.new().close()
    given = path.with_name(f".{os.getpid():x}")
    with rights_of_files(OWNER_AND_GROUP):
        add_port(server, f"unix:{given}", tls)
    try:
        path.hardlink_to(given)
    finally:
        given.unlink()


def add_port(server: Any, address: str, tls: ServerTls | None) -> int:
    """The port that was bound. Raises RuntimeError."""
    if tls is None:
        port: int = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, credentials_of(tls))
    return port


def credentials_of(tls: ServerTls) -> Any:
    """Asks *tls* before each handshake, in a thread of grpc, whether there is a new certificate."""
    given = tls.loaded

    def changed() -> Any:
        nonlocal given
        if tls.loaded is given:
            return None
        given = tls.loaded
        return configuration_of(given)

    has_clients = given.client_ca is not None
    return dynamic_ssl_server_credentials(configuration_of(given), changed, require_client_authentication=has_clients)


def configuration_of(loaded: Loaded) -> Any:
    return ssl_server_certificate_configuration([(loaded.key, loaded.cert)], loaded.client_ca)


@contextmanager
def rights_of_files(mode: int) -> Iterator[None]:
    """What is made inside has these rights at most."""
    before = os.umask(0o777 & ~mode)
    try:
        yield
    finally:
        os.umask(before)


def fault_of(address: TcpAddress | UnixAddress) -> OSError:
    """Why *address* cannot be bound, which grpc does not report."""
    try:
        if isinstance(address, UnixAddress):
            with unix_socket.new() as tried:
                tried.bind(str(address.path))
            address.path.unlink()
        else:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            socket.create_server((address.host, address.port), family=family).close()
    except OSError as error:
        return error
    return OSError("grpc cannot listen there")
