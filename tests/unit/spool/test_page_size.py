"""What size the pages of a damaged spool.db are taken for."""

from pathlib import Path

import pytest

from spool.sqlite import database
from spool.sqlite.recovery.page_size import page_bytes_of
from spool.sqlite.recovery.pages import PAGE_SIZES
from spool.sqlite.room import pages
from tests.support.spool_rig import append, copied, noise, open_spool


@pytest.fixture(params=PAGE_SIZES)
def page_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    size = int(request.param)
    monkeypatch.setattr(database, "PAGE_BYTES", size)
    return size


async def crashed(folder: Path) -> tuple[Path, Path]:
    """spool.db and its log, with records in both."""
    spool = open_spool(folder / "live")
    for n in range(40):
        await append(spool, [noise(900, n)])
    await spool.close()
    spool = open_spool(folder / "live")
    for n in range(40):
        await append(spool, [noise(900, n)])
    data_dir = copied(folder / "live", folder / "crashed")
    await spool.close()
    return data_dir / "spool.db", data_dir / "spool.db-wal"


async def test_either_header_states_it(tmp_path: Path, page_bytes: int) -> None:
    path, log = await crashed(tmp_path)
    assert page_bytes_of(path, log.read_bytes()) == page_bytes
    assert page_bytes_of(path, b"") == page_bytes
    assert page_bytes_of(tmp_path / "none", log.read_bytes()) == page_bytes
    overwrite(path, bytes(page_bytes))
    assert page_bytes_of(path, log.read_bytes()) == page_bytes


async def test_without_headers_the_content_states_it(tmp_path: Path, page_bytes: int) -> None:
    path, log = await crashed(tmp_path)
    overwrite(path, bytes(page_bytes))
    overwrite(log, bytes(32))
    assert page_bytes_of(path, log.read_bytes()) == page_bytes
    assert page_bytes_of(path, b"") == page_bytes
    assert page_bytes_of(tmp_path / "none", log.read_bytes()) == page_bytes


async def test_a_file_of_an_earlier_release_keeps_its_pages(tmp_path: Path, page_bytes: int) -> None:
    await crashed(tmp_path)
    database.PAGE_BYTES = PAGE_SIZES[0]  # the fixture's patch is undone afterwards
    spool = open_spool(tmp_path / "live")
    found = await spool.ask(lambda c, _: pages(c))
    assert found.page_bytes == page_bytes
    assert spool.room.used_bytes == (found.live * page_bytes) + spool.room.log_bytes
    (log_pages,) = await spool.ask(lambda c, _: c.execute("PRAGMA wal_autocheckpoint").fetchone())
    assert log_pages * page_bytes <= database.LOG_BYTES
    await spool.close()


def overwrite(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.write(content)
