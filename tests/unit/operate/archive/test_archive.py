"""The archive: any tar lists it, and no byte of it changes unnoticed."""

import hashlib
import io
import stat
import tarfile
from pathlib import Path

import pytest

from gateway.operate.archive.archive import BadArchive, Manifest, Member, extract, manifest_from, write_archive

CONTENT = {"spool.db": bytes(range(256)) * 5, "service/service.pepper": b"abc\n", "empty-token": b""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "from"
    for name, content in CONTENT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def manifest(**changed: object) -> Manifest:
    files = [Member(name=n, size_bytes=len(c), sha256=hashlib.sha256(c).hexdigest()) for n, c in CONTENT.items()]
    stated: dict[str, object] = {"release": "1.2.3", "taken_at": "2026-01-05T10:00:00.000Z", "gateway_id": "gw-1"}
    return Manifest.model_validate({**stated, "layouts": {"spool.db": 3}, "files": files, **changed})


def archive(folder: Path) -> bytes:
    out = io.BytesIO()
    write_archive(out, manifest(), folder, lambda _: None)
    return out.getvalue()


def extracted(content: bytes, to: Path) -> Manifest:
    return extract(io.BytesIO(content), to, lambda _: lambda _: None)


def test_what_was_written_comes_back_private(folder: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    assert extracted(archive(folder), to) == manifest()
    assert {name: (to / name).read_bytes() for name in CONTENT} == CONTENT
    assert {stat.S_IMODE((to / name).stat().st_mode) for name in CONTENT} == {0o600}
    assert stat.S_IMODE((to / "service").stat().st_mode) == 0o700


def test_any_tar_reads_it(folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(folder))) as tar:
        assert tar.getnames() == ["manifest.json", *CONTENT, "SHA256"]
        file = tar.extractfile("spool.db")
        assert file is not None
        assert file.read() == CONTENT["spool.db"]


def test_each_changed_byte_is_refused(folder: Path, tmp_path: Path) -> None:
    whole = archive(folder)
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x20
        with pytest.raises(BadArchive):
            extracted(bytes(changed), tmp_path / "to")


def test_a_file_that_ends_early_or_late_is_refused(folder: Path, tmp_path: Path) -> None:
    whole = archive(folder)
    for size in [*range(0, len(whole), 97), len(whole) - 1]:
        with pytest.raises(BadArchive):
            extracted(whole[:size], tmp_path / "to")
    with pytest.raises(BadArchive, match="something follows its end"):
        extracted(whole + b"\0", tmp_path / "to")


def test_a_format_of_a_newer_release_is_named_with_it() -> None:
    newer = manifest().model_copy(update={"format": 2, "release": "9.0.0"}).model_dump_json().encode()
    with pytest.raises(BadArchive, match=r"release 9\.0\.0 wrote it in format 2"):
        manifest_from(newer)


@pytest.mark.parametrize("name", ["../control.db", "/etc/passwd", "a/b/c", ".hidden", "service/../x", "a\nb", ""])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    text = manifest().model_dump_json().replace('"spool.db","size', f'"{name}","size'.replace("\n", "\\n"))
    assert "spool.db" not in text.partition('"files"')[2]
    with pytest.raises(BadArchive):
        manifest_from(text.encode())
