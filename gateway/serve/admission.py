"""Letting a request in: by its key or on open intake, and against its key's quota.

Every receiver asks here.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gateway.access.record import KeyRecord
from gateway.serve.authenticator import Authenticator, Headers
from gateway.serve.body import Hold
from gateway.serve.quotas import Quotas


class Request(Protocol):
    """What admission asks of a request: aiohttp's is one, a gRPC call another."""

    @property
    def headers(self) -> Headers:
        """Of gRPC, its metadata."""

    @property
    def remote(self) -> str | None:
        """Address without port; None on a unix socket."""

    @property
    def content_length(self) -> int | None:
        """Bytes of the body as announced; None where nothing states it."""

    @property
    def protocol(self) -> Any:
        """Its connection, which `admitted` is called of."""


def no_subject(_: Any) -> None:
    """Where certificates stand for no key."""


class Admission:
    """*shown*, everywhere: the keys in the request, where others
    than those in its headers count.
    """

    def __init__(
        self,
        gate: Authenticator,
        quotas: Quotas | None = None,
        subject_in: Callable[[Any], str | None] = no_subject,
    ) -> None:
        """*subject_in*: the name in the certificate of a request's client, where that may stand for
        a key; given the request.
        """
        self._gate = gate
        self._subject_in = subject_in
        self.quotas = quotas or Quotas(time.monotonic)

    def admit(self, request: Request, scope: str, hold: Hold, shown: Sequence[str] | None = None) -> KeyRecord | None:
        """The inbound key; None on open intake. Raises what the gate raises, and OverQuota.

        What the request takes of its key's quota is noted in *hold*.
        """
        key = self._gate.admit(request.headers, scope, shown, self._subject_in(request))
        request.protocol.admitted()
        hold.belongs_to(key.key_id if key is not None else request.remote or "unix")
        if key is not None:
            is_bounded = key.limits.bytes_per_minute is not None
            hold.charge = self.quotas.charge(key, announced_bytes(request) if is_bounded else 1)
        return key

    @property
    def asks_headers_alone(self) -> bool:
        """Whether nothing else of a request can state its key."""
        return self._subject_in is no_subject

    def key_of(self, headers: Headers, scope: str) -> KeyRecord | None:
        """The inbound key of requests with these *headers*, as `admit` finds it; nothing is noted
        or taken of its quota.
        """
        return self._gate.admit(headers, scope)

    def ask_again(self, request: Request, scope: str, shown: Sequence[str] | None = None) -> None:
        """Whether it would be let in now as well: for a body that took its time, in which its
        key may have been disabled.
        """
        self._gate.admit(request.headers, scope, shown, self._subject_in(request))


def announced_bytes(request: Request) -> int:
    """What the plain body will have at least, as far as the headers state."""
    return 1 if "Content-Encoding" in request.headers else max(1, request.content_length or 1)
