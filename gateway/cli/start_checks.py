"""What `run` would refuse, found without a change to the data directory or a database.

Keys, devices, secrets and a small spool are opened as `run` opens them, on a copy. Of a large spool
only its layout and its streams are looked at. With `store.type: postgres` the database is asked in
their place (`gateway.cli.cell_checks`).
"""

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.probe import Probed, probe_key
from exporters.keyring import Keyring
from exporters.registry import build_client, build_otlp
from gateway.access.errors import PepperMismatch
from gateway.access.key_files import INBOUND, OF_SERVICE, KeyFiles
from gateway.access.store import KeyStore
from gateway.cli.options import without_psycopg
from gateway.common import unix_socket
from gateway.common.contract.errors import CannotStart, not_bound
from gateway.common.plugins import BrokenPlugin
from gateway.common.storage.database import Database, read_only
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.tls import ending, load
from gateway.common.wall_clock import wall_ms
from gateway.config.model import (
    Config,
    OtlpExporter,
    PluginExporter,
    Upstream,
    refuse_open_intake,
    refuse_shared_totals,
)
from gateway.config.values import Address, TcpAddress, UnixAddress
from gateway.operate.findings.finding import Found, Part
from gateway.operate.mcp.route import refuse_without_sdk
from gateway.operate.session import TOKEN_FILES, open_access
from gateway.pipeline.assembly import MACHINE_SECRET_FILE, USER_SECRET_FILE, read_secrets
from gateway.pipeline.delivery.embedded import NO_SERVICE_ADDRESS
from gateway.pipeline.delivery.lanes import key_settings, otlp_settings, plugged_exporter, upstream_settings
from gateway.pipeline.delivery.webhooks import webhooks_of
from gateway.stores.sql.devices import SqlDevices
from gateway.stores.sqlite.keys import open_control, open_keys
from spool.data_dir import DATABASE, refuse_data_dir, refuse_moved
from spool.data_lock import held_by
from spool.disk_faults import disk_fault
from spool.errors import SpoolError
from spool.sqlite import database as spool_database
from spool.sqlite.recovery import opening
from spool.sqlite.reserve import lacking_bytes

COPIED_BYTES: Final = 256 << 20
"""A larger database is not copied."""
SECRET_FILES: Final = (
    INBOUND.pepper, OF_SERVICE.pepper, USER_SECRET_FILE, MACHINE_SECRET_FILE, *TOKEN_FILES.values(),
)  # fmt: skip
MAX_UNIX_PATH: Final = 107
_ANYWHERE: Final = frozenset[Part](("data directory", "open intake", "secrets", "upstream", "mcp", "TLS", "listeners"))
IN_FILES: Final = _ANYWHERE | frozenset[Part](("disk", "keys", "local service", "spool"))
IN_DATABASE: Final = _ANYWHERE | frozenset[Part](("database", "clock", "connections", "cell"))
REFUSALS: Final = (CannotStart, SpoolError, DatabaseUnavailable, PepperMismatch, OSError, ValueError, sqlite3.Error)


class StartChecks:
    """Run `look` once; then `faults` holds what `run` refuses, `notes` what it would do besides."""

    def __init__(self, config: Config) -> None:
        self.faults: list[Found] = []
        self.notes: list[Found] = []
        self.owner: str | None = None
        """The id of the process that runs on the data directory; None where there is none."""
        self._config = config

    async def look(self) -> None:
        config = self._config
        with self._noted("data directory"):
            refuse_data_dir(config.data_dir)
            if config.store.type == "sqlite":
                refuse_moved(config.data_dir)
            self.owner = held_by(config.data_dir)
        if not self.faults and config.store.type == "postgres":
            await self._look_at_cell()
        elif not self.faults:
            self._look_at_disk()
            await self.look_at_files()
        with self._noted("upstream"):
            await self._build_client()
        with self._noted("mcp"):
            if self._config.mcp == "on":
                refuse_without_sdk()
        self._look_at_certificates()
        if self.owner is not None:
            text = f"a gateway runs on this data directory (process {self.owner}): its ports were not tried"
            self.notes.append(Found("listeners", text))
            return
        for name, address in config.listeners().items():
            with self._noted("listeners"):
                if name == "service" and config.upstream is None and not isinstance(address, TcpAddress):
                    raise CannotStart(NO_SERVICE_ADDRESS)
                await bind_once(f"listen.{name}", address)

    def _look_at_disk(self) -> None:
        reserve_bytes = self._config.spool.reserve_bytes
        lacking = lacking_bytes(self._config.data_dir, reserve_bytes)
        if lacking and self.owner is None:
            text = f"{self._config.data_dir}: `run` would start, and refuse all data until {lacking >> 20} MiB more are free"
            self.faults.append(Found("disk", f"{text} on this disk (spool.reserve_bytes, and a quarter of it)"))

    @property
    def parts(self) -> frozenset[Part]:
        """What is looked at."""
        return IN_DATABASE if self._config.store.type == "postgres" else IN_FILES

    async def _look_at_cell(self) -> None:
        with self._noted("database"):
            try:
                from gateway.cli.cell_checks import look_at_cell  # noqa: PLC0415 - psycopg is an extra
            except ImportError as error:
                raise CannotStart(without_psycopg(error)) from error
            with _copy() as copy:
                for name in SECRET_FILES:
                    copy_file(self._config.data_dir / name, copy / name)
                faults, notes = await look_at_cell(self._config, copy)
            self.faults += faults
            self.notes += notes
        with self._noted("secrets"):
            webhooks_of(self._config.budgets)

    async def look_at_files(self) -> None:
        """Keys, secrets and databases of the data directory alone."""
        with _copy() as copy:
            await self._look_at_files(copy)

    @contextmanager
    def _noted(self, part: Part, copy: Path | None = None) -> Iterator[None]:
        """Note what is raised inside as a fault, of the file itself where it is one of *copy*."""
        try:
            yield
        except REFUSALS as error:
            text, fault = str(error), disk_fault(error)
            if fault is not None and fault not in text:
                text = f"{text}: {fault}"
            if copy is not None:
                text = text.replace(str(copy), str(self._config.data_dir))
            self.faults.append(Found(part, text))

    async def _look_at_files(self, copy: Path) -> None:
        data_dir = self._config.data_dir
        with self._noted("keys", copy):
            for name in SECRET_FILES:
                copy_file(data_dir / name, copy / name)
            self._copy_database(data_dir / INBOUND.database, copy / INBOUND.database)
            await self._open_keys(copy, INBOUND)
        with self._noted("secrets", copy):
            read_secrets(self._config.model_copy(update={"data_dir": copy}))
        with self._noted("secrets", copy):
            open_access(copy, self._config.metrics_token)
        with self._noted("secrets", copy):
            webhooks_of(self._config.budgets)
        if self._config.upstream is None:
            with self._noted("local service", copy):
                self._copy_database(data_dir / OF_SERVICE.database, copy / OF_SERVICE.database)
                await self._open_keys(copy, OF_SERVICE)
        with self._noted("spool", copy):
            self._look_at_spool(copy)

    async def _open_keys(self, copy: Path, files: KeyFiles) -> None:
        is_left_out = (self._config.data_dir / files.database).exists() and not (copy / files.database).exists()
        if is_left_out:
            self.notes.append(Found("keys", f"{files.database} is too large to be checked here"))
            return
        database = await open_control(copy, files)
        try:
            keys = await open_keys(database, copy, wall_ms, files)
            try:
                if files is INBOUND:
                    await self._look_at_control(database, keys)
            finally:
                await keys.close()
        finally:
            await database.close()

    async def _look_at_control(self, database: Database, keys: KeyStore) -> None:
        await SqlDevices.open(database)
        if reason := refuse_open_intake(self._config, enabled_keys=int(keys.any_enabled())):
            self.faults.append(Found("open intake", reason))

    def _copy_database(self, path: Path, to: Path) -> None:
        """With its write-ahead log; of one that a gateway has open, a snapshot."""
        log = Path(f"{path}-wal")
        size_bytes = sum(file.stat().st_size for file in (path, log) if file.exists())
        if not path.exists() or size_bytes > COPIED_BYTES:
            return
        to.parent.mkdir(exist_ok=True)
        if self.owner is not None and path.stat().st_size:
            with closing(read_only(path)) as source, closing(sqlite3.connect(to)) as target:
                source.backup(target)
            return
        copy_file(path, to)
        copy_file(log, Path(f"{to}-wal"))

    def _look_at_spool(self, copy: Path) -> None:
        if self.owner is not None:
            connection = spool_database.connect_to_read(self._config.data_dir)
        else:
            self._copy_database(self._config.data_dir / DATABASE, copy / DATABASE)
            if not (copy / DATABASE).exists():
                return
            if damage := opening.damage(copy):
                self.notes.append(Found("spool", f"`run` would salvage the spool, which is damaged: {damage}"))
                return
            connection = spool_database.connect_to_read(copy)
        with closing(connection):
            spool_database.refuse_newer(connection)
            replaced = replaced_streams(connection)
        if reason := refuse_shared_totals(self._config, replaced):
            raise CannotStart(reason)

    def _look_at_certificates(self) -> None:
        listening = self._config.listeners()
        for name, options in self._config.tls.groups().items():
            if listening[name] is None:
                continue
            with self._noted("TLS"):
                files = options.files(f"tls.{name}")
                state = ending(load(files).ends, wall_ms())
                if state is not None:
                    self.notes.append(Found("TLS", f"{files.option}.cert_file: {files.cert_file}: {state}"))

    async def _build_client(self) -> None:
        """A certificate authority that cannot be read, an address that cannot be."""
        if self._config.upstream is not None:
            await client_of(self._config.upstream).close()
        for name, options in self._config.exporters.items():
            if isinstance(options, OtlpExporter):
                await close_exporter(name, options)
            elif isinstance(options, PluginExporter):
                await close_plugged_exporter(name, options)


@contextmanager
def _copy() -> Iterator[Path]:
    """An empty folder, gone after."""
    with tempfile.TemporaryDirectory(prefix="telemetry-gateway-check-") as folder:
        yield Path(folder)


def client_of(upstream: Upstream) -> CostServiceClient:
    """A client as the lanes have it. Raises CannotStart."""
    try:
        return build_client(upstream_settings(upstream), Keyring(key_settings(upstream)), "check")
    except (OSError, ValueError) as error:
        option = "ca_file" if isinstance(error, OSError) else "base_url"
        raise CannotStart(f"upstream.{option}: {error}") from error


async def close_exporter(name: str, options: OtlpExporter) -> None:
    """Build the exporter as `run` does, and close it again. Raises CannotStart."""
    try:
        plan = build_otlp(name, otlp_settings(options))
    except OSError as error:
        raise CannotStart(f"exporters.{name}.ca_file: {error}") from error
    if plan.exporter is not None:
        await plan.exporter.close()


async def close_plugged_exporter(name: str, options: PluginExporter) -> None:
    """The same of a plug-in's. Raises CannotStart."""
    try:
        await plugged_exporter(name, options).close()
    except BrokenPlugin as error:
        raise CannotStart(str(error)) from error


async def try_upstream(upstream: Upstream) -> list[tuple[str, Probed]]:
    """Each key's name, and what the upstream made of it. Raises CannotStart."""
    client = client_of(upstream)
    try:
        in_otlp = upstream.encoding == "otlp"
        return [(setting.name, await probe_key(client, setting, in_otlp=in_otlp)) for setting in key_settings(upstream)]
    finally:
        await client.close()


def copy_file(path: Path, to: Path) -> None:
    """Nothing where it is missing."""
    if path.exists():
        to.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, to)


def replaced_streams(connection: sqlite3.Connection) -> list[str]:
    """Names of the streams that were begun with operation `replace`; none before there were any."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'unit_stream'").fetchone():
        return []
    return [name for (name,) in connection.execute("SELECT name FROM unit_stream WHERE ships = 'replace'")]


async def bind_once(option: str, address: Address) -> None:
    """Bind *address* and let it go again, without listening. Raises CannotStart."""
    match address:
        case None:
            return
        case TcpAddress(host, port):
            try:
                loop = asyncio.get_running_loop()
                server = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
            except OSError as error:
                raise not_bound(option, address, error) from error
            server.close()
        case UnixAddress(path):
            if fault := fault_of_socket(path):
                raise CannotStart(f"{option}: {address} cannot be listened on: {fault}")


def fault_of_socket(path: Path) -> str | None:
    if len(str(path).encode()) > MAX_UNIX_PATH:
        return f"the path is longer than {MAX_UNIX_PATH} bytes"
    if not path.parent.is_dir():
        return f"{path.parent} is no folder"
    if path.exists() and not path.is_socket():
        return "another file is there"
    if unix_socket.is_answered(path):
        return "a server answers there; stop it, or set another address"
    return None
