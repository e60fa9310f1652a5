"""HTTP to the cost management service: one session for all lanes, one `request`,
and how its failures read.

The key goes out as the bare header value, over TLS that is verified, and never follows a
redirect. http is for loopback only. Bodies of answers are read up to a bound (`answer_body`); a
key that the upstream echoes is masked before anyone sees the text.
"""

import ipaddress
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from exporters.base import Hold, Retry
from exporters.clock import SystemClock
from exporters.cost_service.answer_body import ERROR_BYTES, Cut, read_body
from exporters.cost_service.preset import PRESETS, Preset
from exporters.destination import Destination
from exporters.keyring import Keyring, OutboundKey
from exporters.secret import MASK, Secret

PRODUCT = "ai-telemetry-gateway"
LARGE_BODY_BYTES = 512 * 1024
"""Bodies from here on are written in pieces, so that one request does not keep the loop."""
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the service is and how to get there.

    Raises ValueError when the address would leak the key.
    """

    base_url: str
    ca_file: Path | None = None
    """A private CA to trust besides the system's."""
    proxy: Secret | None = None
    """Proxy URL; may hold credentials."""
    connect_timeout_s: float = 10.0
    timeout_s: float = 60.0
    """For one request, from the first byte sent to the last one read."""

    def __post_init__(self) -> None:
        url = urlsplit(self.base_url)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise ValueError("base_url is no http or https address")
        if url.username or url.password:
            raise ValueError("base_url holds credentials; keys belong under upstream.keys")
        if url.query or url.fragment:
            raise ValueError("base_url has a query or a fragment")
        if url.scheme == "http" and not _is_loopback(url.hostname):
            raise ValueError("base_url is http beyond this machine: the key would travel in the clear")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Case-insensitive look-up."""
    body: bytes
    """Unpacked, in UTF-8, without any key; as much of it as was read."""
    cut: Cut | None = None
    """Why it was not read whole; None when it was."""


class CostServiceClient:
    """Make it inside a running loop; `close()` it once, after every
    exporter that shares it is done.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keyring: Keyring,
        gateway_id: str,
        *,
        preset: Preset = PRESETS["document"],
        now_unix_s: Callable[[], float] = time.time,
        destination: Destination | None = None,
    ) -> None:
        self.gateway_id = gateway_id
        self.destination = destination or Destination(SystemClock(), random.random)
        """Called for every answer and every silence; give it to the pumps of all lanes
        that send by this client."""
        self.preset = preset
        self.keyring = keyring
        self.now_unix_s = now_unix_s
        self._base_url = endpoint.base_url.rstrip("/")
        self._proxy = endpoint.proxy
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=_tls(endpoint), limit=0),
            timeout=aiohttp.ClientTimeout(total=endpoint.timeout_s, sock_connect=endpoint.connect_timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "User-Agent": f"{PRODUCT}/{version(PRODUCT)}",
                "Accept": JSON,
                "Accept-Encoding": "identity",
                preset.gateway_id_header: gateway_id,
            },
            auto_decompress=False,
        )

    def use_proxy(self, proxy: Secret | None) -> None:
        """Send by *proxy* from the next request on."""
        self._proxy = proxy

    async def post(
        self,
        path: str,
        body: bytes,
        key: OutboundKey,
        *,
        idempotency_key: str | None = None,
        batch_id: str | None = None,
        content_type: str = JSON,
        answer_bytes: int = ERROR_BYTES,
    ) -> Answer | Retry | Hold:
        """Post *body* once, and read the body of a success up to *answer_bytes*.

        Retry or Hold when no answer came.
        """
        headers = {"Content-Type": content_type}
        if idempotency_key is not None:
            headers[self.preset.idempotency_header] = idempotency_key
        if batch_id is not None:
            headers[self.preset.batch_id_header] = batch_id
        return await self.request("POST", path, key, headers=headers, body=body, answer_bytes=answer_bytes)

    async def request(
        self,
        method: str,
        path: str,
        key: OutboundKey,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        answer_bytes: int = ERROR_BYTES,
    ) -> Answer | Retry | Hold:
        """Make one request, and read the body of a success up to *answer_bytes*.

        Raises nothing of the transport: silence and broken answers are values.
        """
        data = BytesIO(body) if body is not None and len(body) >= LARGE_BODY_BYTES else body
        try:
            async with self._session.request(
                method,
                f"{self._base_url}{path}",
                headers={**headers, self.preset.authorization_header: key.secret.reveal()},
                data=data,
                proxy=self._proxy.reveal() if self._proxy else None,
                allow_redirects=False,
            ) as response:
                self.destination.answered()
                most_bytes = answer_bytes if response.ok else ERROR_BYTES
                text, cut = read_body(
                    *await _raw_body(response, most_bytes),
                    coding=response.headers.get("Content-Encoding", ""),
                    content_type=response.headers.get("Content-Type", ""),
                    most_bytes=most_bytes,
                )
                return Answer(response.status, response.headers, _masked(text, key.secret), cut)
        except (aiohttp.ClientError, OSError) as error:  # OSError includes TimeoutError
            self.destination.silent()
            return silence(error)

    async def close(self) -> None:
        await self._session.close()


def silence(error: BaseException) -> Retry | Hold:
    """What a request without an answer means for the lane: a set-up that cannot work is
    held, the rest is tried again.

    The text names the kind of failure only, since aiohttp's own may hold the URL of a
    proxy with its credentials.
    """
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return Hold("the upstream's certificate is not trusted", answered=False)
        case aiohttp.ClientSSLError():
            return Hold("no TLS with the upstream", answered=False)
        case aiohttp.ClientHttpProxyError():
            return Hold(f"the proxy answered HTTP {error.status}", answered=False)
        case TimeoutError():
            text = "the upstream did not answer in time"
        case aiohttp.ClientConnectorDNSError():
            text = "the upstream's name cannot be resolved"
        case _:
            text = f"no answer: {type(error).__name__}"
    never_connected = isinstance(error, aiohttp.ConnectionTimeoutError | aiohttp.ClientConnectorError)
    return Retry(text, answered=False, may_be_there=not never_connected)


async def _raw_body(response: aiohttp.ClientResponse, most_bytes: int) -> tuple[bytes, Cut | None]:
    """The body's first *most_bytes* as they came; a connection with more on it is closed."""
    pieces = bytearray()
    cut: Cut | None = None
    try:
        while len(pieces) <= most_bytes and (piece := await response.content.readany()):
            pieces += piece
    except (aiohttp.ClientError, OSError):  # OSError includes TimeoutError
        cut = "broke off"
    if len(pieces) > most_bytes:
        cut = "is longer than its bound"
    if not response.content.at_eof():
        response.close()
    return bytes(pieces[:most_bytes]), cut


def _masked(body: bytes, secret: Secret) -> bytes:
    return body.replace(secret.reveal().encode(), MASK.encode())


def _tls(endpoint: Endpoint) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if endpoint.ca_file is not None:
        context.load_verify_locations(cafile=endpoint.ca_file)
    return context


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
