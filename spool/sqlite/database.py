"""spool.db as a file: where it lies, who may open it, and its layout's versions.

One process owns a data directory (an flock on `lock`), and inside it one thread owns the only connection that
writes or checkpoints: SQLite before 3.51.3 can corrupt a WAL that two connections reset at once. `PRAGMA
user_version` is the number of the last migration; a file from a newer release is refused untouched.
"""

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from spool.errors import SpoolCorrupt, SpoolError, SpoolFull, SpoolLocked, SpoolTooNew

DATABASE = "spool.db"
LOCK = "lock"
OF_A_GATEWAY = (DATABASE, LOCK, "control.db", "service/service.db")
"""One of these is in every data directory, also where one was restored in part."""
LOST_AND_FOUND = "lost+found"
"""Of every new disk."""
WAL_CHECKPOINT_PAGES = 4000
"""32 MiB of WAL: measured, larger gains nothing and makes recovery at start slower."""
LEAST_LOG_PAGES = 16
PAGE_BYTES = 8192
IMPLAUSIBLE_VERSION = 10_000
"""A layout's number that no release will have: the header is damaged."""


def make_private_dir(path: Path) -> None:
    """Make *path* and its missing parents, 0700."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def make_data_dir(path: Path) -> None:
    """Make the data directory *path*, or make the one that is there private, 0700. Raises SpoolError where that may be another's matter.

    1. What only its owner can enter is taken as it is.
    2. A directory with the sticky bit (`/tmp`), or of another user, is left alone.
    3. So is one that others can enter and that holds files, but none of a gateway.
    """
    if path.is_dir():
        status = path.stat()
        if not status.st_mode & 0o077 and status.st_mode & stat.S_IRWXU == stat.S_IRWXU:
            return
        fault = _why_not_ours(path, status)
        if fault is not None:
            raise SpoolError(
                f"{path}: others can enter this folder, and {fault}, so its rights are not changed:"
                " name a folder of the gateway's own"
            )
    make_private_dir(path)


def _why_not_ours(path: Path, status: os.stat_result) -> str | None:
    if status.st_mode & stat.S_ISVTX:
        return "many use it (it has the sticky bit)"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    is_used = any(found.name != LOST_AND_FOUND for found in path.iterdir())
    if is_used and not any((path / name).is_file() for name in OF_A_GATEWAY):
        return "it holds other files, and none of a gateway"
    return None


def touch_private(path: Path) -> None:
    """Make the file *path* if it is missing, 0600, before anything can write to it."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)


@contextmanager
def one_commit(connection: sqlite3.Connection) -> Iterator[None]:
    """What is done inside is on disk when this ends, or none of it where it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class DataLock:
    """The exclusive lock on a data directory; held until closed or the process ends."""

    def __init__(self, data_dir: Path) -> None:
        path = data_dir / LOCK
        touch_private(path)
        self._file = path.open("r+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = self._file.read().strip()
            self._file.close()
            raise SpoolLocked(
                f"{data_dir}: another gateway runs on this data directory{f' (process {owner})' if owner else ''}"
            ) from error
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def migrations() -> list[tuple[int, str]]:
    """(number, SQL) of each migration, in order."""
    folder = resources.files("spool.sqlite").joinpath("migrations")
    found = [(int(f.name[:4]), f.read_text("utf-8")) for f in folder.iterdir() if f.name.endswith(".sql")]
    return sorted(found)


def connect(data_dir: Path, *, synchronous: str = "FULL", log_pages: int = WAL_CHECKPOINT_PAGES) -> sqlite3.Connection:
    """Open spool.db in *data_dir*, made and migrated if need be; for the one thread that will own it.

    Raises SpoolTooNew, SpoolCorrupt, or SpoolError when the file cannot be opened.
    """
    path = data_dir / DATABASE
    with mapped_errors(str(path)):
        touch_private(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
        # A damaged row may show records as text: SQLite's own error would quote them, and the lane would never pass the row.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            refuse_newer(connection)
            prepare(connection, synchronous, log_pages)
            migrate(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_to_read(data_dir: Path) -> sqlite3.Connection:
    """Open spool.db in *data_dir* for reading alone; raises what sqlite3 raises."""
    return sqlite3.connect(f"{(data_dir / DATABASE).absolute().as_uri()}?mode=ro", uri=True)


@contextmanager
def mapped_errors(what: str) -> Iterator[None]:
    """Raise what SQLite and the system raise as SpoolCorrupt, SpoolFull or SpoolError; *what* begins the text."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise spool_error(what, error) from error
    except OSError as error:
        raise SpoolError(f"{what}: {error}") from error


def spool_error(what: str, error: sqlite3.Error | UnicodeDecodeError) -> SpoolError:
    if is_full(error):
        return SpoolFull(f"{what}: the disk is full")
    if isinstance(
        error, UnicodeDecodeError
    ):  # of a text column, or of SQLite's own message that quotes a damaged schema
        return SpoolCorrupt(f"{what}: text in the file cannot be read")
    code = getattr(error, "sqlite_errorcode", None)
    damaged = code is not None and code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    return (SpoolCorrupt if damaged else SpoolError)(f"{what}: {error}")


def is_full(error: BaseException) -> bool:
    """Whether SQLite found no room on the disk."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def log_pages_for(max_bytes: int) -> int:
    """Pages of write-ahead log that a spool of *max_bytes* keeps: at most an eighth of it, for the log counts too.

    Asked with four times the reserve, it is half of that: what a full disk must have room for before deletions free anything.
    """
    return max(LEAST_LOG_PAGES, min(WAL_CHECKPOINT_PAGES, max_bytes // 8 // PAGE_BYTES))


def prepare(connection: sqlite3.Connection, synchronous: str, log_pages: int) -> None:
    """Set what a connection needs each time; page size and vacuum mode count only for a new file."""
    for pragma in (
        f"page_size={PAGE_BYTES}",
        "auto_vacuum=INCREMENTAL",
        "journal_mode=WAL",
        f"synchronous={synchronous}",
        f"wal_autocheckpoint={log_pages}",
        f"journal_size_limit={log_pages * PAGE_BYTES}",  # a log that one large commit made longer is cut again
        "cache_size=-4096",
        "temp_store=MEMORY",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def layout_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def is_newer(connection: sqlite3.Connection) -> bool:
    """Whether a newer release laid the file out. Raises SpoolCorrupt when its header says a number that no release has."""
    version = layout_version(connection)
    if not 0 <= version < IMPLAUSIBLE_VERSION:
        raise SpoolCorrupt("the file's header does not hold together")
    return version > migrations()[-1][0]


def refuse_newer(connection: sqlite3.Connection) -> None:
    """Raise SpoolTooNew, before anything is written, when a newer release laid the file out."""
    if is_newer(connection):
        version, known = layout_version(connection), migrations()[-1][0]
        raise SpoolTooNew(f"the spool has layout {version}; this release knows up to {known}: run a newer release")


def migrate(connection: sqlite3.Connection, *, through: int | None = None) -> None:
    """Bring the layout forward, each migration in a transaction of its own; *through* that one, or all."""
    version = layout_version(connection)
    for number, sql in migrations():
        if number > version and (through is None or number <= through):
            connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version={number};\nCOMMIT;")
