"""Whether this user may use a data directory and what lies in it, asked before anything is opened.

Files that another user made (a command that ran as root first, a restore) are stated with the
command that puts them right, all at once. Nothing is changed here.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from spool.errors import SpoolError
from spool.system.files import is_read_only
from spool.system.users import HAS_MODES, group_name, is_superuser, user_id, user_name

FOLDERS = ("service", "quarantine")
FILES = (
    "spool.", ".spool.", "control.", "service-key", "lock", "reserve", "machine-secret", "user-secret", "admin-"
)  # fmt: skip
"""How names of the gateway's own files begin; others in the directory are left alone."""
MAX_NAMED = 5


def refuse_no_access(data_dir: Path) -> None:
    """Raise SpoolError, with the command to type, where this user cannot use *data_dir* or a file
    of a gateway in it. A directory that is missing passes where it can be made.
    """
    fault = _fault(data_dir)
    if fault is not None:
        raise SpoolError(fault)


def _fault(data_dir: Path) -> str | None:
    for folder in reversed(data_dir.absolute().parents):
        if folder.is_dir() and not _may(folder, os.X_OK):
            return (
                f"{folder}: user {_user()} may not enter this folder, and data_dir {data_dir} is below it: as its"
                f" owner type `chmod o+x {_quoted(folder)}`, or set another data_dir"
            )
    if not data_dir.exists():
        return _why_not_made(data_dir)
    if is_read_only(data_dir):
        return f"{data_dir}: the file system is mounted read-only: mount it for writing, or set another data_dir"
    closed = [path for path in _paths(data_dir) if not _is_ours(path)]
    closed = [path for path in closed if path.exists()]
    return _remedy(data_dir, closed) if closed else None


def _why_not_made(data_dir: Path) -> str | None:
    above = next(folder for folder in data_dir.absolute().parents if folder.exists())
    if _may(above, os.W_OK | os.X_OK):
        return None
    if is_read_only(above):
        return f"{data_dir} cannot be made: the file system of {above} is mounted read-only"
    user, group = _user(), group_name()
    return (
        f"{data_dir} cannot be made by user {user}, who may not write to {above}: as root type"
        f" `install -d -m 0700 -o {user} -g {group} {_quoted(data_dir)}`, or set another data_dir"
    )


def _paths(data_dir: Path) -> Iterator[Path]:
    """The directory, and as far as it can be listed what is a gateway's in it; no links."""
    yield data_dir
    if not _may(data_dir, os.R_OK | os.X_OK):
        return
    for path in sorted(data_dir.iterdir()):
        if path.is_symlink():
            continue
        if path.name in FOLDERS and path.is_dir():
            yield path
            if path.name == FOLDERS[0] and _may(path, os.R_OK | os.X_OK):
                yield from (below for below in sorted(path.iterdir()) if _is_plain(below))
        elif path.name.startswith(FILES) and _is_plain(path):
            yield path


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_ours(path: Path) -> bool:
    """Whether this user may read and write it, and set its mode."""
    wanted = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
    try:
        return (path.stat().st_uid == user_id() or is_superuser()) and _may(path, wanted)
    except FileNotFoundError:
        return True  # a running gateway deletes a log of its database now and then


def _may(path: Path, rights: int) -> bool:
    return os.access(path, rights, effective_ids=os.access in os.supports_effective_ids)


def _remedy(data_dir: Path, closed: list[Path]) -> str:
    foreign = [path for path in closed if path.stat().st_uid != user_id()]
    if foreign:
        owners = ", ".join(sorted({user_name(path.stat().st_uid) for path in foreign}))
        return (
            f"{data_dir}: user {_user()} cannot use {_named(data_dir, foreign)}, which belongs to {owners} (as after a"
            " command that ran as another user). If this is the gateway's data directory, as root type"
            f" `chown -R {_user()}:{group_name()} {_quoted(data_dir)}`; nothing is damaged, and nothing was changed"
        )
    if not HAS_MODES:
        return (
            f"{data_dir}: {_named(data_dir, closed)} is read-only for {_user()}: type"
            f" `attrib -R {' '.join(map(_quoted, closed))}`; nothing is damaged, and nothing was changed"
        )
    return (
        f"{data_dir}: the mode of {_named(data_dir, closed)} keeps its owner {_user()} out: type"
        f" `chmod u+rwX {' '.join(map(_quoted, closed))}`; nothing is damaged, and nothing was changed"
    )


def _named(data_dir: Path, paths: list[Path]) -> str:
    names = ["this folder" if path == data_dir else str(path.relative_to(data_dir)) for path in paths]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _user() -> str:
    return user_name(user_id())
