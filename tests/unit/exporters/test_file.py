"""The file exporter on a real disk: each batch once and whole, whatever the moment of a crash."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from exporters.base import Delivered, Hold, Retry
from exporters.file import FileExporter
from exporters.journal import IDS_KEPT, JOURNAL_LONGEST_LINES, LineFile
from exporters.pump import BatchLimits
from spool.record import Batch
from tests.support.lane_runs import running_pump, until
from tests.support.manual_clock import ManualClock
from tests.support.memory_spool import MemorySpool


def batch(batch_id: str, *records: bytes) -> Batch:
    return Batch(batch_id, "archive", 0, 0, "2026-01-05T10:00:05Z", records)


def content(path: Path) -> bytes:
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.ndjson"


async def test_records_are_appended_as_lines(path: Path) -> None:
    exporter = FileExporter(path)
    assert await exporter.send(batch("a", b'{"n":1}', b'{"n":2}')) == Delivered()
    assert await exporter.send(batch("b", b'{"n":3}')) == Delivered()
    await exporter.close()
    assert content(path) == b'{"n":1}\n{"n":2}\n{"n":3}\n'


async def test_a_batch_comes_once_even_after_a_restart(path: Path) -> None:
    for _ in range(3):
        exporter = FileExporter(path)
        assert await exporter.send(batch("a", b"1")) == Delivered()
        assert await exporter.send(batch("a", b"1")) == Delivered()
        await exporter.close()
    assert content(path) == b"1\n"


def test_a_crash_at_any_byte_of_the_data_leaves_no_batch_torn_or_doubled(path: Path) -> None:
    file = LineFile(path)
    file.append("a", b"first\n")
    file.append("b", b"second\nthird\n")
    file.close()
    whole = path.read_bytes()
    journal = path.with_name(f"{path.name}.journal")
    kept = journal.read_bytes()
    for size in range(len(b"first\n"), len(whole) + 1):
        path.write_bytes(whole[:size])
        journal.write_bytes(kept)
        again = LineFile(path)
        again.append("b", b"second\nthird\n")
        again.append("c", b"last\n")
        again.close()
        assert path.read_bytes() == whole + b"last\n", f"crash after {size} bytes"


def test_a_crash_at_any_byte_of_the_journal_leaves_no_batch_torn_or_doubled(path: Path) -> None:
    file = LineFile(path)
    file.append("a", b"first\n")
    file.close()
    journal = path.with_name(f"{path.name}.journal")
    before = len(journal.read_bytes())
    file = LineFile(path)
    file.append("b", b"second\n")
    file.close()
    kept = journal.read_bytes()
    for size in range(before, len(kept)):
        path.write_bytes(b"first\n")  # the data comes after its journal line
        journal.write_bytes(kept[:size])
        again = LineFile(path)
        again.append("a", b"first\n")
        again.append("b", b"second\n")
        again.close()
        once_more = LineFile(path)
        once_more.append("b", b"second\n")
        once_more.close()
        assert path.read_bytes() == b"first\nsecond\n", f"crash after {size} bytes of the journal"


def test_blocks_that_never_reached_the_disk_are_cut_off(path: Path) -> None:
    file = LineFile(path)
    file.append("a", b"first\n")
    file.append("b", b"second\n")
    file.close()
    path.write_bytes(b"first\n" + b"\x00" * len(b"second\n"))
    again = LineFile(path)
    again.append("b", b"second\n")
    again.close()
    assert path.read_bytes() == b"first\nsecond\n"


@pytest.mark.parametrize(
    ("found", "left"),
    [(b"", b""), (b"torn", b""), (b"whole\n", b"whole\n"), (b"whole\nto", b"whole\n"), (b"x" * 3_000_000, b"")],
)
def test_a_torn_last_line_of_a_file_from_elsewhere_is_cut_at_start(path: Path, found: bytes, left: bytes) -> None:
    path.write_bytes(found)
    LineFile(path).close()
    assert path.read_bytes() == left


def test_a_data_file_that_was_moved_away_is_made_again(path: Path) -> None:
    file = LineFile(path)
    file.append("a", b"first\n")
    file.close()
    path.rename(path.with_name("old.ndjson"))
    again = LineFile(path)
    again.append("b", b"second\n")
    again.close()
    assert path.read_bytes() == b"second\n"


def test_the_journal_stays_short_and_keeps_the_last_ids(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    file = LineFile(path)
    for number in range(JOURNAL_LONGEST_LINES + 10):
        file.append(f"b{number}", b"x\n")
    size = path.stat().st_size
    file.append(f"b{JOURNAL_LONGEST_LINES + 9}", b"x\n")
    file.append(f"b{JOURNAL_LONGEST_LINES + 10 - IDS_KEPT}", b"x\n")
    file.close()
    assert path.stat().st_size == size
    journal = path.with_name(f"{path.name}.journal")
    assert len(journal.read_bytes().splitlines()) <= IDS_KEPT + 10


def test_files_are_for_the_owner_only(path: Path) -> None:
    LineFile(path).close()
    for made in path.parent.iterdir():
        assert made.stat().st_mode & 0o077 == 0, made.name


async def test_a_folder_that_is_missing_holds_the_lane_until_it_is_there(tmp_path: Path) -> None:
    exporter = FileExporter(tmp_path / "later" / "records.ndjson")
    held = await exporter.send(batch("a", b"1"))
    assert held == Hold("the file cannot be written: No such file or directory", answered=False)
    (tmp_path / "later").mkdir()
    assert await exporter.send(batch("a", b"1")) == Delivered()
    await exporter.close()


async def test_a_full_disk_is_tried_again_and_leaves_no_part_of_the_batch(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = FileExporter(path)
    assert await exporter.send(batch("a", b"1")) == Delivered()
    really_write = os.write
    full = True

    def write(fd: int, data: memoryview) -> int:
        if full and bytes(data).startswith(b"2"):
            really_write(fd, data[:1])
            raise OSError(28, "No space left on device")
        return really_write(fd, data)

    monkeypatch.setattr(os, "write", write)
    assert await exporter.send(batch("b", b"2222")) == Retry(
        "the file cannot be written: No space left on device", answered=False
    )
    assert content(path) == b"1\n"
    full = False
    assert await exporter.send(batch("b", b"2222")) == Delivered()
    await exporter.close()
    assert content(path) == b"1\n2222\n"


async def test_writing_waits_on_a_thread_of_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced_by: list[str] = []
    really_sync = os.fdatasync

    def fdatasync(fd: int) -> None:
        synced_by.append(threading.current_thread().name)
        really_sync(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    exporter = FileExporter(path)
    await asyncio.gather(*(exporter.send(batch(str(number), b"x")) for number in range(8)))
    await exporter.close()
    assert len(synced_by) >= 16, "journal and data of each batch"
    assert set(synced_by) == {"file-exporter_0"}


async def test_stops_in_the_middle_of_writing_leave_every_record_once(path: Path) -> None:
    clock = ManualClock()
    store = MemorySpool(clock)
    lines = [b'{"n":%d}' % number for number in range(60)]
    store.add("archive", lines)
    limits = BatchLimits(max_records=3, in_flight=1)
    for stops in range(30):
        exporter = FileExporter(path)
        async with running_pump(store, exporter, clock, lane="archive", limits=limits):
            await until(lambda: store.leased("archive") > 0 or store.depth("archive").pending == 0)
            for _ in range(stops):
                await asyncio.sleep(0)
        await exporter.close()
        assert store.leased("archive") == 0
    exporter = FileExporter(path)
    async with running_pump(store, exporter, clock, lane="archive", limits=limits):
        await until(lambda: store.depth("archive").pending == 0)
    await exporter.close()
    assert content(path).splitlines() == lines
