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
    """Name -> digest, of the files that *data_dir* has."""
    paths = [data_dir / name for name in FILES]
    return {path.name: hashlib.sha256(path.read_bytes().strip()).hexdigest() for path in paths if path.exists()}


def refuse_others(data_dir: Path, own: Mapping[str, str], members: Sequence[Member]) -> None:
    """Raises CannotStart where a gateway that is alive has another secret."""
    for member in members:
        differ = sorted(name for name in own.keys() & member.secrets.keys() if own[name] != member.secrets[name])
        if member.is_alive and differ:
            raise CannotStart(
                f"{', '.join(differ)} in {data_dir} differ from those of the gateway on {member.name}: all gateways of a cell"
                " need the same; set the same store.secret on all of them, or copy the files"
            )
