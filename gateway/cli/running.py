"""`run` and `service run`: start, print the addresses, wait for a signal, stop."""

import asyncio
import gc
import json
import os
import random
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

import click
import structlog

from exporters.keyring import NOT_WANTED
from gateway.access.errors import PepperMismatch
from gateway.app import Gateway, Ports
from gateway.cli.logging import LEVELS, REPEATS, configure_logging
from gateway.cli.options import with_remedy, without_psycopg
from gateway.common.contract.errors import CannotGoOn, CannotStart, not_bound
from gateway.common.event_loop import on_signal
from gateway.common.event_loop import run as run_loop
from gateway.common.heap import configure_malloc
from gateway.common.native import READER, WHY_NOT, other_reader
from gateway.common.open_files import raise_open_files
from gateway.common.release import commit, release
from gateway.common.service_manager import ServiceManager
from gateway.common.signals import RELOAD, STOP, ignore, ignore_meaningless
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.traceback_summary import places
from gateway.config.changes import changed
from gateway.config.draft import ConfigFaults
from gateway.config.model import Config, TlsOptions
from gateway.config.values import Address, TcpAddress, parse_address
from gateway.local_service.misbehave import Misbehave
from gateway.local_service.service import Service
from gateway.observability.metrics import LaneStatus
from gateway.pipeline.delivery.embedded import READ_KEY_FILE, prepare_keys
from spool.data_dir import make_data_dir
from spool.data_lock import DataLock
from spool.errors import SpoolError, SpoolLocked

log = structlog.get_logger()


class AnyGateway(Protocol):
    """A gateway alone, or one of a cell."""

    @property
    def config(self) -> Config: ...

    @property
    def ports(self) -> Ports: ...

    @property
    def stop_wanted(self) -> asyncio.Event: ...

    @property
    def stop_reason(self) -> str | None: ...

    def lanes_at_start(self) -> Mapping[str, LaneStatus]:
        """The lanes that it has; none for one of a cell, which may not own it."""

    def reload(self, config: Config) -> list[str]: ...

    async def stop(self) -> None: ...


LOOK_FOR_REPEATS_S = 10.0
NOT_RELOADED = "not reloaded: the configuration before stays"
SWITCH_S = 0.0005
"""How long the event loop keeps the interpreter from the thread that waits to start a commit;
Python's own 5 ms would be the answer's latency."""
GC_YOUNGEST = 50_000
"""Allocations between collections of the youngest generation: the hot path makes no
cycles, so fewer are enough."""


def run_gateway(
    config: Config, config_file: Path | None, ports_file: Path | None, read_again: Callable[[], Config]
) -> int:
    """*config_file* is named in the log; *read_again* reads the configuration again, for SIGHUP; it
    raises ConfigFaults.
    """
    ignore(RELOAD)  # until the loop runs: it must end nothing
    configure_logging(LEVELS[config.log_level], config.log_format)
    return _run(_gateway_until_signal(config, config_file, ports_file, read_again))


def run_service(
    data_dir: Path, listen: str, misbehave: Misbehave | None, seed: int | None, ports_file: Path | None
) -> int:
    configure_logging()
    return _run(_service_until_signal(data_dir, listen, misbehave, seed, ports_file))


def _run(work: Coroutine[Any, Any, None]) -> int:
    """0 after a clean stop, 1 with the reason on stderr."""
    ignore_meaningless()
    raise_open_files()
    configure_malloc()
    try:
        run_loop(work)
    except SpoolLocked as error:
        click.echo(f"Error: data_dir {error}: stop it, or set another data_dir", err=True)
        return 1
    except (CannotStart, CannotGoOn, SpoolError, DatabaseUnavailable, PepperMismatch, OSError) as error:
        click.echo(f"Error: {with_remedy(error)}", err=True)
        return 1
    return 0


async def _gateway_until_signal(
    config: Config, config_file: Path | None, ports_file: Path | None, read_again: Callable[[], Config]
) -> None:
    hung_up = asyncio.Event()
    if RELOAD is not None:
        on_signal(RELOAD, hung_up.set)
    log_starting()
    gateway, manager = await start_gateway(config), ServiceManager()
    ports = gateway.ports
    stop_on_signals(gateway.stop_wanted)
    try:
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_YOUNGEST, 50, 100)
        sys.setswitchinterval(SWITCH_S)
        log_start(gateway, config_file)
        if config.log_format == "console":
            echo_addresses(config, ports)
        if ports_file is not None:
            write_ports(ports_file, http=ports.http, grpc=ports.grpc, admin=ports.admin, service=ports.service)
        manager.ready()
        beside = [
            asyncio.create_task(reload_on(hung_up, gateway, read_again, manager), name="reload"),
            asyncio.create_task(manager.keep_alive(), name="signs of life"),
            asyncio.create_task(count_repeats(), name="repeats in the log"),
        ]
        await gateway.stop_wanted.wait()
        for task in beside:
            task.cancel()
    finally:
        manager.stopping()
        log.info("gateway stopping", reason=gateway.stop_reason or "signal")
        await gateway.stop()
    log.info("gateway stopped")
    if gateway.stop_reason is not None:
        raise CannotGoOn(gateway.stop_reason)


async def start_gateway(config: Config) -> AnyGateway:
    """Alone on the files of its data directory, or as one of a cell. Raises CannotStart,
    SpoolError, OSError, and what a database raises.
    """
    if config.store.type == "sqlite":
        return await Gateway.start(config)
    try:
        from gateway.app.cell.member import CellGateway  # noqa: PLC0415 - psycopg is an extra
    except ImportError as error:
        raise CannotStart(without_psycopg(error)) from error
    return await CellGateway.start(config)


def log_starting() -> None:
    """The first line: what runs, and how to get the other reader."""
    log.info(
        "gateway starting",
        version=release(),
        commit=commit(),
        reader=READER,
        why_not_native=WHY_NOT or None,
        other_reader=other_reader(WHY_NOT),
    )


def log_start(gateway: AnyGateway, config_file: Path | None) -> None:
    """What runs, with which configuration, where it listens, and the lanes with why one is off."""
    config, ports = gateway.config, gateway.ports
    lanes = gateway.lanes_at_start()
    log.info(
        "gateway started",
        version=release(),
        config=None if config_file is None else str(config_file.absolute()),
        data_dir=str(config.data_dir.absolute()),
        profile=config.profile,
        http=address_text(ports.http, config.tls.http),
        grpc=address_text(ports.grpc, config.tls.grpc),
        admin=address_text(ports.admin, config.tls.admin),
        service=address_text(ports.service, config.tls.service),
        upstream=None if config.upstream is None else config.upstream.base_url,
        lanes=[name for name, lane in lanes.items() if lane["state"] != "off"],
    )
    for name, lane in lanes.items():
        if lane["state"] == "off" and lane["reason"] != NOT_WANTED:
            log.warning("lane off", lane=name, reason=lane["reason"])


def echo_addresses(config: Config, ports: Ports) -> None:
    """Where to point senders and a browser."""
    tls = config.tls
    click.echo(f"senders: {address_text(ports.http, tls.http)}", err=True)
    click.echo(f"senders, gRPC: {ports.grpc or 'off'}{'' if tls.grpc is None else ' (TLS)'}", err=True)
    click.echo(f"admin: {address_text(ports.admin, tls.admin)}", err=True)
    click.echo(f"local service: {address_text(ports.service, tls.service)}", err=True)
    click.echo(f"data: {config.data_dir.absolute()} (the status page's token is in admin-token there)", err=True)


async def reload_on(
    hung_up: asyncio.Event, gateway: AnyGateway, read_again: Callable[[], Config], manager: ServiceManager
) -> None:
    """Reload the configuration each time that *hung_up* is set; a bad one changes nothing."""
    while True:
        await hung_up.wait()
        hung_up.clear()
        manager.reloading()
        try:
            config = await asyncio.to_thread(read_again)
            before = gateway.config
            left = gateway.reload(config)
        except ConfigFaults as error:
            log.error(NOT_RELOADED, always=True, faults=[str(fault) for fault in error.faults])  # noqa: TRY400 no traceback: an operator's slip
        except Exception as error:  # noqa: BLE001 a reload must never end the gateway
            log.error(NOT_RELOADED, always=True, error=type(error).__name__, at=places(error))  # noqa: TRY400 its text may quote a secret
        else:
            configure_logging(LEVELS[config.log_level], config.log_format)
            log.info("configuration reloaded", changed=changed(before, gateway.config))
            if left:
                log.warning("changed options that need a restart", always=True, options=left)
        manager.ready()


async def count_repeats() -> None:
    """Log how often lines repeated that were left out of the log."""
    while True:
        await asyncio.sleep(LOOK_FOR_REPEATS_S)
        for text, repeats in REPEATS.ended():
            log.warning("repeated", always=True, line=text, times=repeats)


async def _service_until_signal(
    data_dir: Path, listen: str, misbehave: Misbehave | None, seed: int | None, ports_file: Path | None
) -> None:
    from gateway.operate.service_keys import open_to_commands  # noqa: PLC0415 - `run` needs none of it

    try:
        address = parse_address(listen)
    except ValueError as error:
        raise CannotStart(f"--listen {error}") from error
    if not isinstance(address, TcpAddress):
        raise CannotStart("--listen must be host:port")
    make_data_dir(data_dir)
    lock = DataLock(data_dir)  # commands on its keys ask the process, as they ask a gateway
    service = Service(data_dir / "service", misbehave=misbehave, random=random.Random(seed))  # noqa: S311 decides about misbehaviour only
    try:
        port = await service.start(address.host, address.port)
    except OSError as error:
        raise not_bound("--listen", address, error) from error
    try:
        await prepare_keys(service, data_dir)
        async with open_to_commands(service.keys, data_dir):
            click.echo(
                f"local service: http://{address.host}:{port} (read key in {data_dir / READ_KEY_FILE})", err=True
            )
            if ports_file is not None:
                write_ports(ports_file, service=TcpAddress(address.host, port))
            await signalled()
    finally:
        await service.stop()
        lock.close()


async def signalled() -> None:
    """Return on a signal that ends a command."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    await stop.wait()


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set *stop* on each signal that ends a command, from now on."""
    for number in STOP:
        on_signal(number, stop.set)


def address_text(address: Address, tls: TlsOptions | None = None) -> str:
    """As a URL where it is one."""
    scheme = "http" if tls is None else "https"
    return f"{scheme}://{address}" if isinstance(address, TcpAddress) else str(address or "off")


def write_ports(path: Path, **addresses: Address) -> None:
    """The bound ports as JSON, in one step; null for a listener that is off."""
    ports = {name: address.port if isinstance(address, TcpAddress) else None for name, address in addresses.items()}
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(ports))
    beside.replace(path)
