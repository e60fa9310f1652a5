"""spool.db as a file: its connections, and its layout's versions.

One process owns a data directory (`spool.data_dir`), and inside it one thread owns the only
connection that writes or checkpoints: SQLite before 3.51.3 can corrupt a WAL that two
connections reset at once. `PRAGMA user_version` is the number of the last migration; a file
from a newer release is refused untouched.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path

from spool.data_dir import DATABASE, touch_private
from spool.errors import SpoolCorrupt, SpoolError, SpoolFull, SpoolTooNew

LOG_BYTES = 32 << 20
"""Of write-ahead log: measured, more gains nothing and makes recovery at start slower."""
LEAST_LOG_BYTES = 128 << 10
PAGE_BYTES = 4096
"""Of a new file; one that an earlier release made keeps its 8192. A commit writes whole pages, and
a disk whole sectors of this size: what a power cut tears is then of one page, which the log has."""
IMPLAUSIBLE_VERSION = 10_000
"""A layout's number that no release will have: the header is damaged."""


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


def migrations() -> list[tuple[int, str]]:
    """(number, SQL) of each migration, in order."""
    folder = resources.files("spool.sqlite").joinpath("migrations")
    found = [(int(f.name[:4]), f.read_text("utf-8")) for f in folder.iterdir() if f.name.endswith(".sql")]
    return sorted(found)


def connect(data_dir: Path, *, synchronous: str = "FULL", log_bytes: int = LOG_BYTES) -> sqlite3.Connection:
    """Open spool.db in *data_dir*, made and migrated if need be; for
    the one thread that will own it.

    Raises SpoolTooNew, SpoolCorrupt, or SpoolError when the file cannot be opened.
    """
    path = data_dir / DATABASE
    with mapped_errors(str(path)):
        touch_private(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
        connection.text_factory = _readable
        try:
            refuse_newer(connection)
            prepare(connection, synchronous, log_bytes)
            migrate(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_to_read(data_dir: Path) -> sqlite3.Connection:
    """Open spool.db in *data_dir* for reading alone; raises what sqlite3 raises."""
    connection = sqlite3.connect(f"{(data_dir / DATABASE).absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = _readable
    return connection


def _readable(text: bytes) -> str:
    """Text of a damaged file as far as it can be read. SQLite's own error would quote it, which may
    be a record, and a lane would never pass the row.
    """
    return text.decode("utf-8", "replace")


@contextmanager
def mapped_errors(what: str) -> Iterator[None]:
    """Raise what SQLite and the system raise as SpoolCorrupt, SpoolFull or
    SpoolError; *what* begins the text.
    """
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise spool_error(what, error) from error
    except OSError as error:
        raise SpoolError(f"{what}: {error}") from error


def spool_error(what: str, error: sqlite3.Error | UnicodeDecodeError) -> SpoolError:
    """The SpoolError that stands for an error of sqlite3."""
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


def log_bytes_for(max_bytes: int) -> int:
    """Bytes of write-ahead log that a spool of *max_bytes* keeps: at most an eighth of
    it, for the log counts too.

    Asked with four times the reserve, it is half of that: what a full disk must have room for
    before deletions free anything.
    """
    return max(LEAST_LOG_BYTES, min(LOG_BYTES, max_bytes // 8))


def prepare(connection: sqlite3.Connection, synchronous: str, log_bytes: int) -> None:
    """Set what a connection needs each time; page size and vacuum mode
    count only for a new file.
    """
    for pragma in (
        f"page_size={PAGE_BYTES}",
        "auto_vacuum=INCREMENTAL",
        "journal_mode=WAL",
        f"synchronous={synchronous}",
        "fullfsync=ON",  # macOS: past the drive's cache, which fsync leaves it in
        "checkpoint_fullfsync=ON",
        f"journal_size_limit={log_bytes}",  # a log that one large commit made longer is cut again
        "cache_size=-4096",
        "temp_store=MEMORY",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute(f"PRAGMA wal_autocheckpoint={log_bytes // page_bytes(connection)}").fetchall()


def page_bytes(connection: sqlite3.Connection) -> int:
    """Of the file that is open."""
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(size)


def erase(connection: sqlite3.Connection) -> None:
    """From here on what is deleted or written over is no longer in the file."""
    connection.execute("PRAGMA secure_delete = ON")


def layout_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def is_newer(connection: sqlite3.Connection) -> bool:
    """Whether a newer release laid the file out.

    Raises SpoolCorrupt when its header states a number that no release has.
    """
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
    """Bring the layout forward, each migration in a transaction of its own;
    *through* that one, or all.
    """
    version = layout_version(connection)
    for number, sql in migrations():
        if number > version and (through is None or number <= through):
            connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version={number};\nCOMMIT;")


def has_own_layout(connection: sqlite3.Connection) -> bool:
    """Whether each table has the columns that the migrations up to the file's version make, in
    their order. More may follow where its version is damaged: no salvage would find them then.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        migrate(made, through=layout_version(connection))
        found = columns_of(connection)
        return all(found.get(table, [])[: len(columns)] == columns for table, columns in columns_of(made).items())


def columns_of(connection: sqlite3.Connection) -> dict[str, list[tuple[str, str]]]:
    """Table -> (column, type) in their order."""
    found: dict[str, list[tuple[str, str]]] = {}
    listed = connection.execute(
        "SELECT m.name, i.name, i.type FROM sqlite_master m, pragma_table_info(m.name) i WHERE m.type='table'"
        " ORDER BY m.name, i.cid"
    )
    for table, column, kind in listed:
        found.setdefault(table, []).append((column, kind))
    return found
