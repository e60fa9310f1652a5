"""The person behind a request that one gateway of a cell passes on to the owner.

Only the gateway that the request came to sees the client's certificate, or that a trusted proxy
sent it. It states the person in a header, with a proof that only gateways of the cell can make.
"""

import hmac
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from gateway.access.key_files import INBOUND
from gateway.access.pepper import load_pepper

HEADER: Final = "Telemetry-Gateway-Person"
_SUBJECT: Final = b"person of a request that is passed on\0"
_LIST: Final = "["
"""Begins a person with groups, as JSON."""


def secret_of(data_dir: Path) -> bytes:
    """The pepper of keys, which all gateways of a cell have and nobody is given."""
    return load_pepper(data_dir / INBOUND.pepper, os.urandom)


class RelayedPerson:
    def __init__(self, secret: bytes) -> None:
        """*secret*: the same on all gateways of the cell, and known to nobody else."""
        self._secret = secret

    def stated(self, person: str, groups: Sequence[str] = ()) -> str:
        """The value of the header; with *groups* they are behind the person. A name that could be
        read as such a list is in one: a chosen name chooses no groups.
        """
        text = json.dumps([person, *groups]) if groups or person.startswith(_LIST) else person
        return f"{b64encode(text.encode()).decode()}.{self._proof(text)}"

    def identity(self, request: web.Request) -> str | None:
        """As `IdentityOf`: None without a proof that holds, as of who came past the gateways."""
        stated = self._stated_in(request)
        return stated[0] if stated and stated[0] else None

    def groups(self, request: web.Request) -> tuple[str, ...]:
        """Those that the person has, as `GroupsOf`."""
        return self._stated_in(request)[1:]

    def _stated_in(self, request: web.Request) -> tuple[str, ...]:
        """Person and groups; empty without a proof."""
        encoded, _, proof = request.headers.get(HEADER, "").partition(".")
        try:
            text = b64decode(encoded, validate=True).decode()
        except ValueError:
            return ()
        if not hmac.compare_digest(proof.encode(errors="replace"), self._proof(text).encode()):
            return ()
        return tuple(json.loads(text)) if text.startswith(_LIST) else (text,)

    def _proof(self, text: str) -> str:
        return hmac.digest(self._secret, _SUBJECT + text.encode(), "sha256").hex()
