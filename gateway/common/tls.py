"""TLS of a listener: certificate, key and client authority, read again when their files change.

A handshake takes what was read last; connections that are open keep what they began with. Files
that do not fit (a key of another certificate, half of a renewal) are logged and leave what is in
use.
"""

import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from gateway.common.wall_clock import wall_ms

log = structlog.get_logger()

LOOK_EVERY_S: Final = 5.0
WARN_DAYS: Final = 14
"""Before a certificate ends."""
READS: Final = 3
"""Of files that change while they are read, before they are left to the next look."""
_DAY_MS: Final = 86_400_000
_SEQUENCE, _INTEGER, _UTC_TIME = 0x30, 0x02, 0x17
_EXPLICIT_VERSION = 0xA0
_ENCRYPTED: Final = "is encrypted: write it without a pass phrase, readable by the gateway's user alone"


class TlsFault(ValueError):
    """What is wrong with the files, in words that name the option."""


class TlsFiles(NamedTuple):
    option: str
    """`tls.http`"""
    cert_file: Path
    """PEM: the certificate, and behind it those that lead to its authority."""
    key_file: Path
    client_ca_file: Path | None = None
    """None: clients show no certificate."""

    def stamp(self) -> tuple[object, ...]:
        """Changes when a file does. A file that is missing is one more state."""
        return tuple(stamp_of(path) for path in (self.cert_file, self.key_file, self.client_ca_file))


class Contents(NamedTuple):
    """The bytes of the files."""

    cert: bytes
    key: bytes
    client_ca: bytes | None


class Loaded(NamedTuple):
    """What the files held at one moment; whole, or not at all."""

    context: ssl.SSLContext
    cert: bytes
    key: bytes
    client_ca: bytes | None
    ends: datetime
    """When the certificate does."""
    stamp: tuple[object, ...]


class ServerTls:
    """Of one listener."""

    def __init__(self, files: TlsFiles, protocols: Sequence[str] = (), now_ms: Callable[[], int] = wall_ms) -> None:
        """*protocols*: of ALPN, the one we like best first. Raises TlsFault."""
        self.files = files
        self._protocols = list(protocols)
        self._now_ms = now_ms
        self._warned_ms: int | None = None
        self.loaded = self._load()
        self._seen = self.loaded.stamp
        self.context = made_context(files, self._protocols)
        """For a listener: each handshake is given the context that was read last."""
        self.context.sni_callback = self._hand_over
        self.warn()

    def reload(self) -> None:
        """Take what the files hold now, where that fits."""
        self._seen = self.files.stamp()
        try:
            self.loaded = self._load()
        except TlsFault as fault:
            log.error("certificate not reloaded: the one before stays", always=True, fault=str(fault))  # noqa: TRY400 no traceback: an operator's slip
        else:
            log.info("certificate reloaded", option=self.files.option, ends=self.loaded.ends.isoformat())
            self._warned_ms = None
            self.warn()

    async def run_maintenance(self) -> None:
        """Reload where a file changed; warn daily of a certificate that ends soon."""
        if self.files.stamp() != self._seen:
            self.reload()
        self.warn()

    def warn(self) -> None:
        """Log, once a day, that the certificate ends soon or has ended."""
        now_ms = self._now_ms()
        text = ending(self.loaded.ends, now_ms)
        if text is None or (self._warned_ms is not None and now_ms - self._warned_ms < _DAY_MS):
            return
        self._warned_ms = now_ms
        log.warning("certificate", always=True, option=self.files.option, file=str(self.files.cert_file), state=text)

    def _load(self) -> Loaded:
        return load(self.files, self._protocols)

    def _hand_over(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self.loaded.context


def load(files: TlsFiles, protocols: Sequence[str] = ()) -> Loaded:
    """What *files* hold at one moment: they are read again where they change. Raises TlsFault."""
    for _ in range(READS):
        stamp, contents = files.stamp(), contents_of(files)
        ends = not_after(f"{files.option}.cert_file", files.cert_file, contents.cert)
        context = made_context(files, protocols)  # reads them once more: `ssl` takes paths alone
        if contents_of(files) == contents:
            return Loaded(context, *contents, ends, stamp)
    raise TlsFault(f"{files.option}: its files change while they are read: replace them, and leave them as they are")


def contents_of(files: TlsFiles) -> Contents:
    """Raises TlsFault."""
    client_ca = None if files.client_ca_file is None else read(f"{files.option}.client_ca_file", files.client_ca_file)
    return Contents(
        read(f"{files.option}.cert_file", files.cert_file), read(f"{files.option}.key_file", files.key_file), client_ca
    )


def made_context(files: TlsFiles, protocols: Sequence[str]) -> ssl.SSLContext:
    """Raises TlsFault."""

    def no_password() -> str:
        raise TlsFault(f"{files.option}.key_file: {files.key_file} {_ENCRYPTED}")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if protocols:
        context.set_alpn_protocols(list(protocols))
    try:
        context.load_cert_chain(files.cert_file, files.key_file, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsFault(
                f"{files.option}.key_file: {files.key_file} is not the key of the certificate in {files.cert_file}"
            ) from None
        raise TlsFault(
            f"{files.option}: {files.cert_file} and {files.key_file} are no certificate and private key in PEM"
        ) from None
    except OSError as error:
        raise TlsFault(f"{files.option}: the certificate or its key cannot be read: {error.strerror}") from None
    if files.client_ca_file is not None:
        try:
            context.load_verify_locations(files.client_ca_file)
        except OSError:  # ssl.SSLError is one
            raise TlsFault(
                f"{files.option}.client_ca_file: {files.client_ca_file} holds no certificate in PEM"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
        # A resumed session is not verified again, by whatever authority stands here now. Without
        # tickets TLS 1.3 has none; TLS 1.2 also resumes by session id, which `ssl` cannot turn off.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
    return context


def context_to(files: TlsFiles) -> ssl.SSLContext:
    """For a client of the listener on this machine, by address: it trusts the listener's own
    certificate, and shows that where clients must show one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(files.cert_file)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if files.client_ca_file is not None:
        context.load_cert_chain(files.cert_file, files.key_file)
    return context


def read(option: str, path: Path) -> bytes:
    """Raises TlsFault."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsFault(f"{option}: {path} cannot be read: {error.strerror}") from None


def stamp_of(path: Path | None) -> tuple[int, int, int, int] | None:
    """Changes with the content of a file and with its rights. None for a file that is not there."""
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def has_ended(ends: datetime, now_ms: int) -> bool:
    return ends.timestamp() * 1000 < now_ms


def ending(ends: datetime, now_ms: int) -> str | None:
    """How soon the certificate ends, where that is soon."""
    if has_ended(ends, now_ms):
        return f"it ended at {ends.isoformat()}: senders refuse it"
    left_days = (ends.timestamp() * 1000 - now_ms) / _DAY_MS
    return f"it ends at {ends.isoformat()}, in {left_days:.0f} days" if left_days < WARN_DAYS else None


def not_after(option: str, path: Path, pem: bytes) -> datetime:
    """When the first certificate in *pem* ends (RFC 5280, 4.1.2.5). Raises TlsFault."""
    try:
        begin, end = (pem.index(line) for line in (b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"))
        der = ssl.PEM_cert_to_DER_cert(pem[begin : end + 25].decode())
        fields = items(items(items(der)[0][1])[0][1])
        validity = fields[4 if fields[0][0] == _EXPLICIT_VERSION else 3][1]
        kind, value = items(validity)[1]
        form = "%y%m%d%H%M%SZ" if kind == _UTC_TIME else "%Y%m%d%H%M%SZ"
        return datetime.strptime(value.decode("ascii"), form).replace(tzinfo=UTC)
    except (ValueError, IndexError):
        raise TlsFault(f"{option}: {path} holds no certificate in PEM") from None


def items(der: bytes) -> list[tuple[int, bytes]]:
    """(tag, content) of what stands in *der*, one behind the other. Raises IndexError."""
    found, at = [], 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length & 0x80:
            n_bytes = length & 0x7F
            length = int.from_bytes(der[at : at + n_bytes])
            at += n_bytes
        found.append((tag, der[at : at + length]))
        at += length
    return found


def subject_of(certificate: Mapping[str, Any] | None) -> str | None:
    """The name in a client's certificate, as `ssl` gives that: its common name, else the first URI
    or DNS name that it is for (a SPIFFE id is a URI). None for none.
    """
    if not certificate:
        return None
    names = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    others = certificate.get("subjectAltName", ())
    names += [value for kind in ("URI", "DNS") for name, value in others if name == kind]
    return next((name for name in names if name), None)
