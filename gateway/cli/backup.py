"""`backup`: everything of a gateway in one file, while it runs or while none does."""

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, NamedTuple

import click

from exporters.secret import Secret
from gateway.cli.options import with_remedy
from gateway.cli.progress import Shown, progress, watched
from gateway.cli.requests import BACKUP, ask
from gateway.config.model import Config
from gateway.fleet.devices.own import DISTRIBUTION
from gateway.operate import backup
from gateway.operate.archive.age import Encrypting
from gateway.operate.archive.archive import Manifest, Member, member_of, write_archive
from gateway.operate.archive.staging import DATABASES, PREFIX, held
from spool.data_dir import DATABASE
from spool.errors import SpoolError
from spool.sqlite.backup import written_whole
from spool.sqlite.database import layout_version

CONFIG_COPY = "backup-config.yaml"


class Wanted(NamedTuple):
    """The options of the command."""

    to: Path
    """Absolute."""
    passphrase: Secret | None
    """None: not encrypted."""
    work_dir: Path | None
    config_file: Path | None
    """To be put beside the data."""


async def back_up(config: Config, wanted: Wanted, *, as_json: bool) -> int:
    """0 when the file is on disk, and nothing of it elsewhere."""
    if wanted.to.exists():
        raise click.ClickException(f"{wanted.to} exists already: name a file that does not")
    work_dir = wanted.work_dir or config.data_dir
    with progress() as shown:
        copying = shown.begin("Copying", _size_bytes(config.data_dir, DATABASES))
        with watched(lambda: _staged_bytes(work_dir), copying):
            body = {} if wanted.work_dir is None else {"work_dir": str(wanted.work_dir)}
            staged = await ask(config, BACKUP, backup.BEGIN, body=body)
        folder = Path(staged["folder"])
        try:
            with held(folder):
                manifest = _write(folder, staged["taken_at"], wanted, shown)
        except (SpoolError, OSError) as error:
            raise click.ClickException(with_remedy(error)) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print_done(wanted, manifest, as_json=as_json)
    return 0


def print_done(wanted: Wanted, manifest: Manifest, *, as_json: bool) -> None:
    size, is_encrypted = wanted.to.stat().st_size, wanted.passphrase is not None
    if as_json:
        done = {
            "file": str(wanted.to),
            "bytes": size,
            "encrypted": is_encrypted,
            "taken_at": manifest.taken_at,
            "gateway_id": manifest.gateway_id,
            "files": [member.name for member in manifest.files],
        }
        click.echo(json.dumps(done))
        return
    kept = "encrypted" if is_encrypted else "NOT encrypted, and it holds keys: keep it private"
    click.echo(f"{wanted.to}: {len(manifest.files)} files, {size} bytes, as of {manifest.taken_at}; {kept}")


def _write(folder: Path, taken_at: str, wanted: Wanted, shown: Shown) -> Manifest:
    """The archive of *folder*, in its place. Raises SpoolError, OSError."""
    if wanted.config_file is not None:
        (folder / CONFIG_COPY).write_bytes(wanted.config_file.read_bytes())
    manifest = manifest_of(folder, taken_at, shown)
    advance = shown.begin("Writing", manifest.size_bytes)
    with written_whole(wanted.to) as beside, beside.open("wb") as file, _sealed(file, wanted.passphrase) as out:
        write_archive(out, manifest, folder, advance)
    return manifest


@contextmanager
def _sealed(file: BinaryIO, passphrase: Secret | None) -> Iterator[BinaryIO | Encrypting]:
    """*file*, or a stream that encrypts into it."""
    if passphrase is None:
        yield file
        return
    encrypting = Encrypting(file, passphrase)
    yield encrypting
    encrypting.close()


def manifest_of(folder: Path, taken_at: str, shown: Shown) -> Manifest:
    """Of all files in *folder*, the smallest first: a listing shows them at once."""
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    advance = shown.begin("Hashing", sum(path.stat().st_size for path in paths))
    members: list[Member] = []
    for path in paths:
        members.append(member_of(folder, path.relative_to(folder).as_posix()))
        advance(members[-1].size_bytes)
    return Manifest(
        release=version(DISTRIBUTION),
        taken_at=taken_at,
        gateway_id=_gateway_id(folder / DATABASE),
        layouts=layouts_of(folder),
        files=members,
    )


def layouts_of(folder: Path) -> Mapping[str, int]:
    """Versions of the tables in *folder*'s databases, as `Manifest.layouts`."""
    found: dict[str, int] = {}
    for name in DATABASES:
        if not (folder / name).exists():
            continue
        with closing(_opened(folder / name)) as connection:
            if name == DATABASE:
                found[name] = layout_version(connection)
            else:
                with suppress(sqlite3.OperationalError):  # a file that never got tables
                    parts = connection.execute("SELECT part, version FROM parts").fetchall()
                    found |= {f"{name}/{part}": number for part, number in parts}
    return found


def _gateway_id(path: Path) -> str | None:
    if not path.exists():
        return None
    with closing(_opened(path)) as connection, suppress(sqlite3.OperationalError):
        row = connection.execute("SELECT value FROM meta WHERE name='gateway_id'").fetchone()
        return None if row is None else str(row[0])
    return None


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _size_bytes(data_dir: Path, names: tuple[str, ...]) -> int:
    return sum((data_dir / name).stat().st_size for name in names if (data_dir / name).exists())


def _staged_bytes(work_dir: Path) -> int:
    """What the copies take by now."""
    total = 0
    for path in work_dir.glob(f"{PREFIX}*/**/*.db"):
        with suppress(OSError):
            total += path.stat().st_size
    return total
