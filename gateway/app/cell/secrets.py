"""What must be secret and equal on all gateways of a cell: tokens of the admin listener, and keys
of hashes.

They are files of the data directory. With `store.secret` each is made of it, so that there is one
secret to give to all of them.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.access.key_files import INBOUND
from gateway.common.contract.errors import CannotStart
from gateway.common.storage.private_files import read_or_create
from gateway.operate.session import TOKEN_FILES
from gateway.pipeline.assembly import MACHINE_SECRET_FILE, USER_SECRET_FILE
from gateway.stores.postgres.cell import Member

MIN_CHARS: Final = 32
KEYED: Final = " hmac"
"""Ends the name of an entry. An earlier release compares entries of the same name alone, so it does
not take these for its own."""
FILES: Final = (*TOKEN_FILES.values(), INBOUND.pepper, MACHINE_SECRET_FILE, USER_SECRET_FILE)


def derive_files(data_dir: Path, secret: str) -> None:
    """Make the files that are missing in *data_dir* of *secret*. Raises CannotStart for a secret
    that is too short, and for a file that is there and not made of it.
    """
    if len(secret) < MIN_CHARS:
        raise CannotStart(f"store.secret: {MIN_CHARS} characters or more are needed")
    for name in FILES:
        wanted = derived(name, secret)
        if read_or_create(data_dir / name, lambda text=wanted: text).strip() != wanted.strip():  # type: ignore[misc]  # the default binds the round's text
            raise CannotStart(
                f"{data_dir / name} is not made of store.secret: delete it, or give the secret of the cell"
            )


def derived(name: str, secret: str) -> bytes:
    """The content of the file *name*."""
    return hmac.digest(secret.encode(), f"ai-telemetry-gateway {name}".encode(), "sha256").hex().encode() + b"\n"


def digests(data_dir: Path) -> dict[str, str]:
    """Entry -> digest, of the files that *data_dir* has. Keyed with the pepper: a token that was
    made by hand is not found from its digest. Empty before the pepper is there.
    """
    contents = _contents(data_dir)
    pepper = contents.get(INBOUND.pepper)
    if pepper is None:
        return {}
    return {
        name + KEYED: hmac.digest(pepper, name.encode() + b"\0" + text, "sha256").hex()
        for name, text in contents.items()
    }


def _plain_digests(data_dir: Path) -> dict[str, str]:
    """As a gateway of an earlier release notes them, under the names of the files alone."""
    return {name: hashlib.sha256(text).hexdigest() for name, text in _contents(data_dir).items()}


def _contents(data_dir: Path) -> dict[str, bytes]:
    paths = [data_dir / name for name in FILES]
    return {path.name: path.read_bytes().strip() for path in paths if path.exists()}


def differing(data_dir: Path, noted: Mapping[str, str]) -> list[str]:
    """Files of *data_dir* that differ from those of the gateway that *noted* its digests."""
    own = {**digests(data_dir), **_plain_digests(data_dir)}
    found = {entry.removesuffix(KEYED) for entry in own.keys() & noted.keys() if own[entry] != noted[entry]}
    return [INBOUND.pepper] if INBOUND.pepper in found else sorted(found)  # with another pepper all digests differ


def missing(data_dir: Path, noted: Mapping[str, str]) -> list[str]:
    """Files that the gateway has which *noted* its digests, and *data_dir* has not."""
    return sorted({entry.removesuffix(KEYED) for entry in noted} - _contents(data_dir).keys())


def refuse_others(data_dir: Path, members: Sequence[Member]) -> None:
    """Raises CannotStart where a gateway that is alive has another secret."""
    for member in members:
        differ = differing(data_dir, member.secrets)
        if member.is_alive and differ:
            raise CannotStart(
                f"{', '.join(differ)} in {data_dir} differ from those of the gateway on {member.name}: all gateways of a cell"
                " need the same; set the same store.secret on all of them, or copy the files"
            )
