"""HTTP to one upstream: a session, one `request`, and how its failures read.

TLS is verified, and no redirect is followed: a secret would travel elsewhere. Bodies of answers are
read up to a bound (`exporters.answer_body`); a secret that the upstream echoes is masked before
anyone sees the text.
"""

import ipaddress
import os
import random
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from exporters.answer_body import ERROR_BYTES, Cut, read_body
from exporters.attempts import NO_ANSWER, count_answer
from exporters.base import Hold, Retry
from exporters.clock import SystemClock
from exporters.destination import Destination
from exporters.secret import MASK, Secret

PRODUCT = "ai-telemetry-gateway"
LARGE_BODY_BYTES = 512 * 1024
"""Bodies from here on are written in pieces, so that one request does not keep the loop."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the upstream is and how to get there.

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
    has_secrets: bool = True
    """Whether requests carry a secret: then http is for this machine alone."""

    def __post_init__(self) -> None:
        url = urlsplit(self.base_url)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise ValueError("base_url is not an http or https address")
        if url.username or url.password:
            raise ValueError("base_url holds credentials; keys belong under upstream.keys")
        if url.query or url.fragment:
            raise ValueError("base_url has a query or a fragment")
        if self.has_secrets and url.scheme == "http" and not _is_loopback(url.hostname):
            raise ValueError("base_url is http beyond this machine: the key would travel in the clear")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    """Case-insensitive look-up."""
    body: bytes
    """Unpacked, in UTF-8 where it is text, without any key; as much of it as was read."""
    cut: Cut | None = None
    """Why it was not read whole; None when it was."""


class _Connector(aiohttp.TCPConnector):
    """Uses no connection again on which bytes came behind its last answer: they would be taken for
    the answer to the next request.
    """

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the base class has it
    ) -> aiohttp.connector.Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None or not protocol.should_close:
                return connection
            connection.close()


class HttpClient:
    """Make it inside a running loop; `close()` it once, after every
    exporter that shares it is done.
    """

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str], destination: Destination | None = None) -> None:
        """*headers* go with every request, beside the product's name."""
        self.destination = destination or Destination(SystemClock(), random.random)
        """Called for every answer and every silence; give it to the pumps of all lanes
        that send by this client."""
        self._base_url = endpoint.base_url.rstrip("/")
        self._address = self.destination.address = urlsplit(endpoint.base_url).netloc
        self._proxy = endpoint.proxy
        self._session = aiohttp.ClientSession(
            connector=_Connector(ssl=_tls(endpoint), limit=0),
            timeout=aiohttp.ClientTimeout(total=endpoint.timeout_s, sock_connect=endpoint.connect_timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"{PRODUCT}/{version(PRODUCT)}", "Accept-Encoding": "identity", **headers},
            auto_decompress=False,
        )

    def use_proxy(self, proxy: Secret | None) -> None:
        """Send by *proxy* from the next request on."""
        self._proxy = proxy

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        secrets: Sequence[Secret] = (),
        body: bytes | None = None,
        answer_bytes: int = ERROR_BYTES,
    ) -> HttpAnswer | Retry | Hold:
        """Make one request, and read the body of a success up to *answer_bytes*.

        *secrets* are among the *headers*, and masked in the answer. Raises nothing of the
        transport: silence and broken answers are values.
        """
        data = BytesIO(body) if body is not None and len(body) >= LARGE_BODY_BYTES else body
        try:
            async with self._session.request(
                method,
                f"{self._base_url}{path}",
                headers=headers,
                data=data,
                proxy=self._proxy.reveal() if self._proxy else None,
                allow_redirects=False,
            ) as response:
                self.destination.answered()
                count_answer(response.status)
                max_bytes = answer_bytes if response.ok else ERROR_BYTES
                text, cut = read_body(
                    *await _raw_body(response, max_bytes),
                    coding=response.headers.get("Content-Encoding", ""),
                    content_type=response.headers.get("Content-Type", ""),
                    max_bytes=max_bytes,
                )
                return HttpAnswer(response.status, response.headers, _masked(text, secrets), cut)
        except (aiohttp.ClientError, OSError) as error:  # OSError includes TimeoutError
            self.destination.silent()
            count_answer(NO_ANSWER)
            return silence(error, self._address)

    async def close(self) -> None:
        await self._session.close()


def silence(error: BaseException, address: str) -> Retry | Hold:
    """What a request to *address* without an answer means for the lane: a set-up that cannot work
    is held, the rest is tried again.

    The text holds nothing of aiohttp's own, in which the URL of a proxy may stand with its
    credentials.
    """
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return Hold(f"the certificate of {address} is not trusted", answered=False)
        case aiohttp.ClientSSLError():
            return Hold(f"no TLS with {address}", answered=False)
        case aiohttp.ClientHttpProxyError():
            return Hold(f"the proxy answered HTTP {error.status}", answered=False)
        case TimeoutError():
            text = f"{address} did not answer in time"
        case aiohttp.ClientConnectorDNSError():
            text = f"the name of {address} cannot be resolved"
        case aiohttp.ClientProxyConnectionError():
            text = f"the proxy cannot be reached: {_system_text(error)}"
        case aiohttp.ClientConnectorError():
            text = f"{address} cannot be reached: {_system_text(error)}"
        case _:
            text = f"no answer from {address}: {type(error).__name__}"
    never_connected = isinstance(error, aiohttp.ConnectionTimeoutError | aiohttp.ClientConnectorError)
    return Retry(text, answered=False, may_be_there=not never_connected)


def _system_text(error: aiohttp.ClientConnectorError) -> str:
    """`Connection refused`, or what kind of error it was."""
    number = error.os_error.errno
    return type(error.os_error).__name__ if number is None else os.strerror(number)


async def _raw_body(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, Cut | None]:
    """The body's first *max_bytes* as they came; a connection with more on it is closed."""
    pieces = bytearray()
    cut: Cut | None = None
    try:
        while len(pieces) <= max_bytes and (piece := await response.content.readany()):
            pieces += piece
    except (aiohttp.ClientError, OSError):  # OSError includes TimeoutError
        cut = "broke off"
    if len(pieces) > max_bytes:
        cut = "is longer than its bound"
    if not response.content.at_eof():
        response.close()
    return bytes(pieces[:max_bytes]), cut


def _masked(body: bytes, secrets: Sequence[Secret]) -> bytes:
    for secret in secrets:
        body = body.replace(secret.reveal().encode(), MASK.encode())
    return body


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
