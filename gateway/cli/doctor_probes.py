"""What `doctor` asks of the system and of the upstream: room, syncs, file systems, the clock."""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp

from gateway.config.model import Upstream
from gateway.pipeline.delivery.lanes import upstream_settings
from spool.system.sync import sync_file

SYNCS: Final = 20
SYNC_BYTES: Final = 4096
DISK_SLOW_S: Final = 0.02
"""With half of its syncs longer, a disk lets fifty requests in a second that come one by one."""
NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "afs"})
MOUNTS: Final = Path("/proc/self/mounts")
ASK_S: Final = 10.0


def free_bytes(folder: Path) -> int:
    """For this user."""
    return shutil.disk_usage(folder).free


def sync_s(folder: Path) -> float:
    """Median seconds of a write of a page with its sync, in a file that is gone again after.
    Raises OSError.
    """
    with _scratch(folder) as file:
        took = []
        for _ in range(SYNCS):
            os.write(file, secrets.token_bytes(SYNC_BYTES))
            begun_s = time.perf_counter()
            sync_file(file)
            took.append(time.perf_counter() - begun_s)
    return median(took)


@contextmanager
def _scratch(folder: Path) -> Iterator[int]:
    path = folder / f".doctor-{secrets.token_hex(8)}"
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        yield file
    finally:
        os.close(file)
        path.unlink()


def network_file_system(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """Its kind, such as `nfs4`; None for a disk of this machine, and where the system does not
    report it.
    """
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    best, kind = Path("/"), ""
    here = folder.absolute()
    for line in lines:
        _, point, name, *_ = [*line.split(), "", "", ""]
        mounted = Path(point.replace("\\040", " ") or "/")
        if (mounted == here or mounted in here.parents) and len(mounted.parts) >= len(best.parts):
            best, kind = mounted, name
    return kind if kind in NETWORK else None


async def clock_skew_s(upstream: Upstream) -> float | None:
    """How far this machine's clock is ahead of the upstream's, by the `Date` of an answer; None
    where it states none. No key goes with it.
    """
    settings = upstream_settings(upstream)
    proxy = None if settings.proxy is None else settings.proxy.reveal()
    timeout = aiohttp.ClientTimeout(total=ASK_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.head(upstream.base_url, proxy=proxy, allow_redirects=False) as answer,
        ):
            date = answer.headers.get("Date")
            return None if date is None else time.time() - parsedate_to_datetime(date).timestamp()
    except (aiohttp.ClientError, OSError, ValueError):
        return None
