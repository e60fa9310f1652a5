"""How AI gateways that cannot send a bare key show who they are: other headers, a token in the address, a signature.

All of them name an inbound key, but for the signature, which is checked with the secret that the configuration gives the source.
"""

import hmac
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs

from gateway.web.gate import Headers, credential

FIREHOSE_HEADER = "X-Amz-Firehose-Access-Key"
VENDOR_HEADERS = ("x-goog-api-key", "cf-aig-authorization", "hec")
"""What Tailscale Aperture's hook may be told to use."""
MAX_TOKEN_CHARACTERS = 256

Shown = Callable[[Headers, str, str], str | None]
"""(headers, token in the path or "", query) -> the key that the request shows."""


class Signature(NamedTuple):
    """A hex HMAC over the body as it was sent."""

    header: str
    algorithm: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Signature({self.header!r}, {self.algorithm!r})"

    def stands_in(self, headers: Headers) -> bool:
        return self.header in headers

    def is_right(self, headers: Headers, body: bytes) -> bool:
        sent = headers.get(self.header, "").strip().lower().removeprefix(f"{self.algorithm}=")
        made = hmac.new(self.secret, body, self.algorithm).hexdigest()
        return hmac.compare_digest(made.encode(), sent.encode("utf-8", "replace"))


SIGNATURES = {"hmac_sha256": ("Helicone-Signature", "sha256"), "hmac_sha1": ("x-vercel-signature", "sha1")}
"""Way in -> its header and hash."""


def signature_of(ways_in: Sequence[str], secret: str | None) -> Signature | None:
    """How the source signs; None where it does not, or no secret is configured."""
    if secret is None:
        return None
    for way in ways_in:
        if way in SIGNATURES:
            header, algorithm = SIGNATURES[way]
            return Signature(header, algorithm, secret.encode())
    return None


def shown_by(ways_in: Sequence[str], *, url_token: bool) -> Shown:
    """How the key is found in a request of a source with these *ways_in*."""

    def shown(headers: Headers, token: str, query: str) -> str | None:
        return (
            credential(headers)
            or ("firehose_access_key" in ways_in and headers.get(FIREHOSE_HEADER))
            or ("vendor_headers" in ways_in and vendor_key(headers))
            or (url_token and (token or query_token(query)))
            or None
        )

    return shown


def vendor_key(headers: Headers) -> str | None:
    for name in VENDOR_HEADERS:
        value = headers.get(name, "").strip()
        if value:
            scheme, _, rest = value.partition(" ")
            return rest.strip() if scheme.lower() == "bearer" else value
    return None


def query_token(query: str) -> str | None:
    found = parse_qs(query[: 4 * MAX_TOKEN_CHARACTERS]).get("token", [""])[0]
    return found[:MAX_TOKEN_CHARACTERS] or None
