"""`restore`: a backup becomes the data directory of a gateway, once all of it was checked."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click

from exporters.secret import Secret
from gateway.cli.backup import CONFIG_COPY
from gateway.cli.options import with_remedy
from gateway.cli.progress import Shown, progress
from gateway.cli.start_checks import StartChecks
from gateway.common.plural import plural
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.operate.archive.age import MAGIC, Decrypting, Undecipherable
from gateway.operate.archive.archive import BadArchive, Manifest, Reader, extract
from spool.data_dir import DATABASE, LOCK, LOST_AND_FOUND, RESTORING, make_data_dir, make_private_dir
from spool.data_lock import DataLock
from spool.errors import SpoolError
from spool.sqlite.database import migrations
from spool.sqlite.recovery.restoring import Restored, settle_restored
from spool.system.sync import sync_path

NO_GATEWAY: Final = frozenset({LOCK, LOST_AND_FOUND, RESTORING})
"""Names in a directory that a restore may fill."""
CHECKED_PARTS: Final = frozenset({"keys", "local service", "secrets", "spool"})


def restore(file: Path, data_dir: Path, passphrase: Callable[[], Secret], *, as_json: bool) -> int:
    """0 when *data_dir* holds what *file* does. *passphrase* is called where *file* is encrypted.

    Raises ClickException with what is wrong, and the directory is as empty as it was.
    """
    refuse_used(data_dir)
    try:
        with file.open("rb") as source, progress() as shown:
            opened = _opened(source, passphrase)
            make_data_dir(data_dir)
            with DataLock(data_dir), unpacking(data_dir) as folder:
                manifest = extract(opened, folder, lambda found: _begun(found, shown))
                restored = _settled(folder)
                place(folder, data_dir)
    except (BadArchive, Undecipherable) as error:
        raise click.ClickException(f"{file} is not restored: {error}") from error
    except (SpoolError, OSError) as error:
        raise click.ClickException(with_remedy(error)) from error
    print_restored(data_dir, manifest, restored, as_json=as_json)
    return 0


def refuse_used(data_dir: Path, what: str = "a backup is restored") -> None:
    """Raises ClickException where *data_dir* holds anything; *what* begins the remedy."""
    try:
        found = sorted(path.name for path in data_dir.iterdir()) if data_dir.exists() else []
    except OSError as error:
        raise click.ClickException(f"{data_dir}: {error.strerror}") from error
    used = [name for name in found if name not in NO_GATEWAY]
    if used and RESTORING in found:
        raise click.ClickException(
            f"{data_dir}: a restore was interrupted while it put the files in place: delete what is in there, and"
            " restore again"
        )
    if used:
        raise click.ClickException(
            f"{data_dir} is not empty (it holds {used[0]}): {what} into an empty directory alone;"
            " name another with --data-dir, or move what is there away"
        )


def _opened(source: BinaryIO, passphrase: Callable[[], Secret]) -> Reader:
    """What *source* holds, decrypted. Raises Undecipherable."""
    is_encrypted = source.read(len(MAGIC)) == MAGIC
    source.seek(0)
    return Decrypting(source, passphrase()) if is_encrypted else source


def _begun(manifest: Manifest, shown: Shown) -> Callable[[int], None]:
    """Raises BadArchive for a spool that this release cannot read."""
    newest = migrations()[-1][0]
    if manifest.layouts.get(DATABASE, 0) > newest:
        raise BadArchive(f"release {manifest.release} wrote it: restore it with that release or a newer one")
    return shown.begin("Restoring", manifest.size_bytes)


@contextmanager
def unpacking(data_dir: Path) -> Iterator[Path]:
    """An empty private folder in *data_dir*; while it is there, no gateway starts on it."""
    folder = data_dir / RESTORING
    shutil.rmtree(folder, ignore_errors=True)
    make_private_dir(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        sync_path(data_dir)


def _settled(folder: Path) -> Restored | None:
    """Check the files in *folder* as a start does, and make them ready for one; None without a
    spool. Raises SpoolError, BadArchive.
    """
    restored = settle_restored(folder, wall_ms()) if (folder / DATABASE).exists() else None
    checks = StartChecks(Config(data_dir=folder))
    asyncio.run(checks.look_at_files())
    faults = [found.text for found in checks.faults if found.part in CHECKED_PARTS]
    if faults:
        raise BadArchive("; ".join(faults).replace(f"{folder}{os.sep}", ""))
    return restored


def place(folder: Path, data_dir: Path) -> None:
    """Everything in *folder* gets its place, the spool last."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == DATABASE):
        path.rename(data_dir / path.name)
    sync_path(data_dir)


def print_restored(data_dir: Path, manifest: Manifest, restored: Restored | None, *, as_json: bool) -> None:
    lanes = {} if restored is None else restored.counters.lanes
    pending = {name: lane.pending for name, lane in lanes.items() if lane.pending}
    if as_json:
        done = {
            "data_dir": str(data_dir),
            "taken_at": manifest.taken_at,
            "release": manifest.release,
            "gateway_id": manifest.gateway_id,
            "files": [member.name for member in manifest.files],
            "pending": pending,
        }
        click.echo(json.dumps(done))
        return
    waiting = ", ".join(f"{name} {n}" for name, n in pending.items()) or "none"
    click.echo(f"{data_dir}: {plural(len(manifest.files), 'file', 'files')} as of {manifest.taken_at}")
    click.echo(f"gateway {manifest.gateway_id or 'without an id'}; records that wait to be sent: {waiting}")
    if any(member.name == CONFIG_COPY for member in manifest.files):
        click.echo(f"configuration of then: {data_dir / CONFIG_COPY}")
    click.echo("Stop the gateway that it is of, if that still runs: two of one id would be counted as one.")
