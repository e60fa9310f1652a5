"""How AI gateways that cannot send a bare key show who they are: other headers, a token in
the address, a signature.

All of them name an inbound key, but for the signature, which is checked with the secret that
the configuration gives the source. A request may show its key in several of these places; all
must show the same one (`gateway.serve.authenticator.only_key`), and where it is signed
besides, both must be right.
"""

import hmac
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs

from gateway.common.contract.auth_methods import SIGNATURES
from gateway.serve.authenticator import BLANKS, Headers, key_of, keys_in

FIREHOSE_HEADER = "X-Amz-Firehose-Access-Key"
VENDOR_HEADERS = ("x-goog-api-key", "cf-aig-authorization", "hec")
"""What Tailscale Aperture's hook may be asked to use."""
MAX_QUERY_CHARACTERS = 4096

Shown = Callable[[Headers, str, str], list[str]]
"""(headers, token in the path or "", query) -> every key that the request shows."""


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
        """Whether each of the request's signatures is that of *body*; mostly there is one."""
        made = hmac.new(self.secret, body, self.algorithm).hexdigest().encode()
        return all(hmac.compare_digest(made, self._plain(sent)) for sent in headers.getall(self.header))

    def _plain(self, sent: str) -> bytes:
        return sent.strip(BLANKS).lower().removeprefix(f"{self.algorithm}=").encode("utf-8", "replace")


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
    """How the keys are found in a request of a source with these *ways_in*."""
    names = [FIREHOSE_HEADER] if "firehose_access_key" in ways_in else []
    if "vendor_headers" in ways_in:
        names += VENDOR_HEADERS

    def shown(headers: Headers, token: str, query: str) -> list[str]:
        found = keys_in(headers)
        for name in names:
            found += [key for value in headers.getall(name, ()) if (key := key_of(value))]
        if url_token:
            found += [token] if token else []
            found += query_tokens(query)
        return found

    return shown


def query_tokens(query: str) -> list[str]:
    """Each `token` that is not empty.

    A query longer than any that holds one token is not looked at beyond that.
    """
    return parse_qs(query[:MAX_QUERY_CHARACTERS]).get("token", []) if "token" in query else []
