"""The archive of a backup: a tar file that any tar lists, of which each byte is checked.

Members: `manifest.json`, the files it lists, in its order, and `SHA256`, the digest of all bytes
before it. Every header follows from the manifest, so reading compares each with the one that
writing made: a changed byte anywhere is noticed, and so is a file that ends early or late.
"""

import hashlib
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spool.data_dir import make_private_dir, touch_private
from spool.system.sync import sync_file

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
DIGEST: Final = "SHA256"
BLOCK: Final = 512
PIECE_BYTES: Final = 1 << 20
MAX_MANIFEST_BYTES: Final = 1 << 20
NAME: Final = r"^(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,99})(?:/[A-Za-z0-9_][A-Za-z0-9._-]{0,99})?$"

Advance = Callable[[int], None]
"""Takes the bytes that were done since it was called last."""


class BadArchive(ValueError):
    """A file that is no backup, or one that was changed, cut, or written by a newer release."""


class Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Writer(Protocol):
    def write(self, data: bytes, /) -> Any: ...


class Member(BaseModel):
    """One file."""

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, Field(pattern=NAME)]
    size_bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """What a backup states of itself. A release reads the formats up to its own."""

    model_config = ConfigDict(frozen=True)

    format: Annotated[int, Field(ge=1)] = FORMAT
    release: str
    """Version of the gateway that wrote it."""
    taken_at: str
    """RFC 3339: the one moment that all databases are of."""
    gateway_id: str | None
    """None where the spool was never opened."""
    layouts: Mapping[str, int]
    """Database, or database and part, such as `control.db/keys` -> version of its tables."""
    files: Annotated[Sequence[Member], Field(max_length=1000)]

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(member.size_bytes for member in self.files)


def member_of(folder: Path, name: str) -> Member:
    """The member for the file *name* in *folder*, which is read whole."""
    with (folder / name).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Member(name=name, size_bytes=(folder / name).stat().st_size, sha256=sha256)


def write_archive(out: Writer, manifest: Manifest, folder: Path, advance: Advance) -> None:
    """Write the files of *manifest*, which lie in *folder*. Raises BadArchive where one is not as
    the manifest states it, OSError.
    """
    hashing = _HashingWriter(out)
    text = _manifest_text(manifest)
    _write_small(hashing, MANIFEST, text)
    for member in manifest.files:
        hashing.write(_header(member.name, member.size_bytes))
        with (folder / member.name).open("rb") as file:
            _copy(file, member, [hashing], advance)
        hashing.write(_padding(member.size_bytes))
    out.write(_tail(hashing.sha256.hexdigest()))


def extract(source: Reader, folder: Path, begun: Callable[[Manifest], Advance]) -> Manifest:
    """Write the files of the archive into *folder*, which is empty, 0600 and synced; only when
    this returns are they known to be what was backed up. *begun* gets the manifest first.

    Raises BadArchive, OSError, and what *source* raises.
    """
    hashing = _HashingReader(source)
    manifest = _read_manifest(hashing)
    advance = begun(manifest)
    for member in manifest.files:
        _expect(hashing, _header(member.name, member.size_bytes), f"the header of {member.name}")
        with _private(folder / member.name) as file:
            _copy(hashing, member, [file], advance)
        _expect(hashing, _padding(member.size_bytes), f"what follows {member.name}")
    _expect(hashing, _tail(hashing.sha256.hexdigest()), "its digest")
    if source.read(1):
        raise BadArchive("something follows its end")
    return manifest


def _read_manifest(source: "_HashingReader") -> Manifest:
    header = source.exactly(BLOCK, "its first header")
    try:
        size = tarfile.TarInfo.frombuf(header, "ascii", "strict").size
    except (tarfile.HeaderError, UnicodeError):
        raise BadArchive("it is not a backup of telemetry-gateway, or its first header was changed") from None
    if header != _header(MANIFEST, size) or size > MAX_MANIFEST_BYTES:
        raise BadArchive("it is not a backup of telemetry-gateway, or its first header was changed")
    text = source.exactly(size, "its manifest")
    _expect(source, _padding(size), "what follows the manifest")
    return manifest_from(text)


def manifest_from(text: bytes) -> Manifest:
    """Raises BadArchive."""
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError:
        raise BadArchive("its manifest was changed, or a newer release wrote it") from None
    if manifest.format > FORMAT:
        raise BadArchive(
            f"release {manifest.release} wrote it in format {manifest.format}: restore it with that release or a newer one"
        )
    if len({member.name for member in manifest.files}) != len(manifest.files):
        raise BadArchive("its manifest names a file twice")
    return manifest


def _manifest_text(manifest: Manifest) -> bytes:
    return manifest.model_dump_json(indent=2).encode() + b"\n"


def _copy(source: Reader, member: Member, to: Sequence[Writer], advance: Advance) -> None:
    """*member*'s bytes; raises BadArchive where they are not those that it states."""
    digest, left = hashlib.sha256(), member.size_bytes
    while left:
        piece = source.read(min(left, PIECE_BYTES))
        if not piece:
            raise BadArchive(f"it ends within {member.name}")
        for each in (*to, _Digesting(digest)):
            each.write(piece)
        left -= len(piece)
        advance(len(piece))
    if digest.hexdigest() != member.sha256:
        raise BadArchive(f"{member.name} was changed")


class _Digesting:
    def __init__(self, digest: Any) -> None:
        self.write = digest.update


class _HashingWriter:
    def __init__(self, out: Writer) -> None:
        self._out = out
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.sha256.update(data)
        self._out.write(data)


class _HashingReader:
    def __init__(self, source: Reader) -> None:
        self._source = source
        self.sha256 = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self.sha256.update(data)
        return data

    def exactly(self, size: int, what: str) -> bytes:
        """Raises BadArchive where it ends before."""
        found = b""
        while len(found) < size:
            piece = self.read(size - len(found))
            if not piece:
                raise BadArchive(f"it ends within {what}")
            found += piece
        return found


def _expect(source: _HashingReader, expected: bytes, what: str) -> None:
    if source.exactly(len(expected), what) != expected:
        raise BadArchive(f"{what} was changed")


def _write_small(out: _HashingWriter, name: str, content: bytes) -> None:
    out.write(_header(name, len(content)))
    out.write(content)
    out.write(_padding(len(content)))


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCK)


def _tail(sha256: str) -> bytes:
    content = f"{sha256}\n".encode()
    return _header(DIGEST, len(content)) + content + _padding(len(content)) + bytes(2 * BLOCK)


@contextmanager
def _private(path: Path) -> Iterator[BinaryIO]:
    make_private_dir(path.parent)
    touch_private(path)
    with path.open("wb") as file:
        yield file
        file.flush()
        sync_file(file.fileno())
