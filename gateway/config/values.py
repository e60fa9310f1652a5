"""The values a configuration is written in: durations, sizes, addresses, secrets. Pure.

Each parser raises ValueError with words for the operator, never with the value: it may be a
secret put in the wrong place.
"""

import re
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema
from yarl import URL

from exporters.secret import MASK, Secret

SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES: Final = {
    "": 1, "B": 1,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip

DURATION_PATTERN = r"^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$"
SIZE_PATTERN = r"^(\d+(?:\.\d+)?)\s*([kKMGT]i?B|B)?$"

MAX_PORT = 65535
IN_CREDENTIALS: Final = "in whose user and password @ stands as %40, / as %2F, ? as %3F and # as %23"
HAS_UNIX_SOCKETS: Final = hasattr(socket, "AF_UNIX")


@dataclass(frozen=True, slots=True)
class TcpAddress:
    host: str
    port: int
    """0 lets the system choose."""

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: Path

    @property
    def is_loopback(self) -> bool:
        """No one off this machine, and no browser, reaches it."""
        return True

    def __str__(self) -> str:
        return f"unix:{self.path}"


Address = TcpAddress | UnixAddress | None
"""Where a listener binds; None is off."""


def parse_duration_s(value: object) -> float:
    """`250ms`, `10s`, `5m`, `24h`, `7d`; a bare 0 as well. Seconds."""
    if value == 0 and not isinstance(value, bool):
        return 0.0
    match = re.fullmatch(DURATION_PATTERN, value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("must be a duration such as 10s, 5m, 24h or 7d")
    return float(match[1]) * SECONDS[match[2]]


def parse_size_bytes(value: object) -> int:
    """`512KiB`, `64MiB`, `8GiB`, or a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(SIZE_PATTERN, value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("must be a size such as 512KiB, 64MiB or 8GiB")
    return int(float(match[1]) * BYTES[match[2] or ""])


def parse_address(value: object) -> Address:
    """`host:port`, `[v6]:port`, a port on 127.0.0.1, `unix:/path`, or `off`
    (which YAML reads as false).
    """
    if value is False or value == "off":
        return None
    if isinstance(value, TcpAddress | UnixAddress):
        return value
    text = str(value).strip() if isinstance(value, str | int) and value is not True else ""
    if text.startswith("unix:") and len(text) > len("unix:"):
        if not HAS_UNIX_SOCKETS:
            raise ValueError("names a Unix socket, which Python does not support on this system: set host:port")
        return UnixAddress(Path(text.removeprefix("unix:")))
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not port.isdecimal() or int(port) > MAX_PORT or (text.count(":") > 1 and not text.startswith("[")):
        raise ValueError('must be "host:port" (port 0 chooses a free one), "unix:/path" or "off"')
    return TcpAddress(host or "127.0.0.1", int(port))


def parse_secret(value: object) -> Secret:
    """`${env:NAME}`, `${file:path}`, or the secret itself, kept as written: the
    keyring reads what it names.
    """
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str) or not value.strip():
        raise ValueError('must be "${env:NAME}" or "${file:path}"')
    return Secret(value.strip())


def parsed_url(value: str) -> URL:
    try:
        url = URL(value)
    except ValueError:
        raise ValueError("must be a URL") from None
    if not url.host:
        raise ValueError("must be a URL")
    return url


def parse_proxy(value: object) -> Secret | None:
    """The URL of an HTTP proxy, in which credentials may stand."""
    if value is None or isinstance(value, Secret):
        return value
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        raise ValueError("must be an http or https URL")
    try:
        url = parsed_url(value)
    except ValueError as error:
        raise ValueError(f"{error}, {IN_CREDENTIALS}") from None
    if url.path != "/" or url.query_string or url.fragment:
        raise ValueError(f"must end after the host and port, {IN_CREDENTIALS}")
    return Secret(value)


def proxy_text(proxy: Secret | None) -> str | None:
    """Host and port alone, and whether credentials stand before them."""
    if proxy is None:
        return None
    url = URL(proxy.reveal())
    has_credentials = url.user is not None or url.password is not None
    return str(url.origin().with_user(MASK) if has_credentials else url.origin())


def duration_text(seconds: float) -> str:
    return f"{seconds:.12g}s"


def address_text(address: Address) -> str:
    return "off" if address is None else str(address)


def word_for_off(value: object) -> object:
    """YAML reads a bare `off` as false; an option that knows the word means the word."""
    return "off" if value is False else value


def word_for_switch(value: object) -> object:
    """The same where the other word is `on`, which YAML reads as true."""
    return "on" if value is True else word_for_off(value)


DurationS = Annotated[
    float,
    BeforeValidator(parse_duration_s, json_schema_input_type=str),
    PlainSerializer(duration_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["10s"]}),
]
SizeBytes = Annotated[
    int,
    BeforeValidator(parse_size_bytes, json_schema_input_type=str),
    WithJsonSchema({"type": ["string", "integer"], "pattern": SIZE_PATTERN, "minimum": 0, "examples": ["8GiB"]}),
]
AddressOption = Annotated[
    TcpAddress | UnixAddress | None,
    PlainValidator(parse_address),
    PlainSerializer(address_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "integer", "boolean"], "examples": ["127.0.0.1:4318", "unix:/path", "off"]}),
]
SecretOption = Annotated[
    Secret,
    PlainValidator(parse_secret),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["${env:NAME}", "${file:path}"]}),
]
ProxyOption = Annotated[
    Secret | None,
    PlainValidator(parse_proxy),
    PlainSerializer(proxy_text, return_type=str | None, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "string", "examples": ["http://proxy.example:3128"]}, {"type": "null"}]}),
]
"""Masked as `proxy_text` has it wherever the configuration is written."""
