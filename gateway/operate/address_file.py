"""Where the running gateway's admin listener is, for commands that
are given a data directory alone.

The gateway writes it to `data_dir/admin-address` once it listens, and holds a lock on that
very file for as long as it lives. A file that no one holds was left behind by a killed
gateway, or came with a copy: who listens there now may be anyone, so it is not believed, and
the admin token is not sent there. No process number or time has to be trusted for that: each
start writes a file of its own, only the gateway's user can open it, and the system lets go of
the lock when the process ends, however that happens.

Two lines: the address, and the network that it is an address in, for a data directory
can be shared with a container. Where it speaks TLS three more: the files of certificate and key,
and that of the clients' authority, empty for none.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from gateway.common.tls import TlsFiles
from gateway.config.values import Address, TcpAddress, UnixAddress, parse_address
from spool.system.files import BINARY
from spool.system.locks import is_locked, lock

log = structlog.get_logger()

FILE: Final = "admin-address"
_BESIDE: Final = ".admin-address"
_MAX_BYTES: Final = 4096


class WrittenAddress:
    """The file, held until `close`. The caller holds the data directory's lock."""

    def __init__(self, data_dir: Path, address: TcpAddress | UnixAddress, tls: TlsFiles | None = None) -> None:
        """Raises OSError."""
        lines = [str(reachable(address)), network(), *(() if tls is None else lines_of(tls))]
        self._path, beside = data_dir / FILE, data_dir / _BESIDE
        beside.unlink(missing_ok=True)  # a killed gateway's
        written = self._path if sys.platform == "win32" else beside  # it renames no file that is open
        self._descriptor = os.open(written, os.O_CREAT | os.O_TRUNC | os.O_RDWR | BINARY, 0o600)
        try:
            os.write(self._descriptor, "".join(f"{line}\n" for line in lines).encode())
            lock(self._descriptor)
            if written != self._path:
                beside.replace(self._path)
        except BaseException:
            beside.unlink(missing_ok=True)
            self.close()
            raise

    def close(self) -> None:
        """Take it away; to be called while the listener still listens."""
        if sys.platform == "win32":
            os.close(self._descriptor)
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        if sys.platform != "win32":
            os.close(self._descriptor)


def announce_address(
    data_dir: Path, address: TcpAddress | UnixAddress, tls: TlsFiles | None = None
) -> Callable[[], None]:
    """Write the address for commands beside the gateway, which runs on where it cannot;
    call the result to remove it.
    """
    try:
        return WrittenAddress(data_dir, address, tls).close
    except OSError as error:
        log.warning(
            "the admin address cannot be written: commands do not find this gateway", error=type(error).__name__
        )
        return lambda: None


def reachable(address: TcpAddress | UnixAddress) -> TcpAddress | UnixAddress:
    """As it is reached from this machine, whatever folder a command runs in."""
    match address:
        case UnixAddress(path):
            return UnixAddress(path.absolute())
        case TcpAddress("0.0.0.0"):  # noqa: S104 compared, not bound
            return replace(address, host="127.0.0.1")
        case TcpAddress("::"):
            return replace(address, host="::1")
        case _:
            return address


def network() -> str:
    """Of this process; the same text in every process, where the system has but one."""
    try:
        return str(Path("/proc/self/ns/net").readlink())
    except OSError:
        return ""


def running_address(data_dir: Path) -> Address:
    """The address that the gateway that runs on *data_dir* wrote; None where none runs, or it has
    no admin listener that is reached from here.
    """
    found = running_listener(data_dir)
    return None if found is None else found.address


class Written(NamedTuple):
    address: Address
    tls: TlsFiles | None
    """None where it speaks none."""


def running_listener(data_dir: Path) -> Written | None:
    """The same with its TLS."""
    try:
        with (data_dir / FILE).open("rb") as file:
            if not is_locked(file.fileno()):
                return None  # no one holds it
            address, of_network, *more = file.read(_MAX_BYTES).decode().split("\n")
            return Written(parse_address(address), tls_in(more)) if of_network == network() else None
    except (OSError, ValueError):
        return None


def lines_of(tls: TlsFiles) -> tuple[str, ...]:
    return str(tls.cert_file.absolute()), str(tls.key_file.absolute()), str(tls.client_ca_file or "")


def tls_in(lines: Sequence[str]) -> TlsFiles | None:
    """What `lines_of` wrote, with what may follow; None where nothing did."""
    if len(lines) < 3 or not lines[0]:  # noqa: PLR2004 - as many as it writes
        return None
    cert, key, client_ca, *_ = lines
    return TlsFiles("tls.admin", Path(cert), Path(key), Path(client_ca) if client_ca else None)
