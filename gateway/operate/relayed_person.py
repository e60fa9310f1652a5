"""The person behind a request that one gateway of a cell passes on to the owner.

Only the gateway that the request came to sees the client's certificate, or that a trusted proxy
sent it. It states the person in a header, with a proof that only gateways of the cell can make.
"""

import hmac
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final

from aiohttp import web

from gateway.access.key_files import INBOUND
from gateway.access.pepper import load_pepper

HEADER: Final = "Telemetry-Gateway-Person"
_SUBJECT: Final = b"person of a request that is passed on\0"


def secret_of(data_dir: Path) -> bytes:
    """The pepper of keys, which all gateways of a cell have and nobody is given."""
    return load_pepper(data_dir / INBOUND.pepper, os.urandom)


class RelayedPerson:
    def __init__(self, secret: bytes) -> None:
        """*secret*: the same on all gateways of the cell, and known to nobody else."""
        self._secret = secret

    def stated(self, person: str) -> str:
        """The value of the header."""
        return f"{b64encode(person.encode()).decode()}.{self._proof(person)}"

    def identity(self, request: web.Request) -> str | None:
        """As `IdentityOf`: None without a proof that holds, as of who came past the gateways."""
        text, _, proof = request.headers.get(HEADER, "").partition(".")
        try:
            person = b64decode(text, validate=True).decode()
        except ValueError:
            return None
        is_proven = hmac.compare_digest(proof.encode(errors="replace"), self._proof(person).encode())
        return person if is_proven and person else None

    def _proof(self, person: str) -> str:
        return hmac.digest(self._secret, _SUBJECT + person.encode(), "sha256").hex()
