"""`make quick`, `make newest`, and the durations that order a run."""

from pathlib import Path

import pytest

from tests.newest import requirements, unbounded
from tests.quick import slow_files
from tests.support.durations import ROOT, Recorder, durations, expected_s


def report(nodeid: str, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(nodeid, (nodeid, 1, nodeid), {}, "passed", None, "call", duration=seconds)


def stored_by(folder: Path, *reports: pytest.TestReport, exitstatus: int = 0) -> dict[str, int]:
    """What `durations.txt` in *folder* holds after a run with *reports*."""
    recorder = Recorder(folder / "durations.txt", folder)
    for each in reports:
        recorder.pytest_runtest_logreport(each)
    recorder.pytest_sessionfinish(exitstatus)
    return durations(folder / "durations.txt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with three files of tests."""
    for name in ("tests/unit/test_slow.py", "tests/unit/test_quick.py", "tests/e2e/test_whole.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_each_file_with_a_duration_is_there() -> None:
    assert [name for name in durations() if not (ROOT / name).is_file()] == []
    assert set(slow_files()) < set(durations())


def test_a_file_takes_what_all_of_its_tests_take(folder: Path) -> None:
    slow, quick, whole = "tests/unit/test_slow.py", "tests/unit/test_quick.py", "tests/e2e/test_whole.py"
    reports = [report(f"{slow}::one", 0.9), report(f"{slow}::two[a::b]", 0.7), report(f"{quick}::one", 0.4)]
    assert stored_by(folder, *reports, report(f"{whole}::one", 0.1)) == {slow: 2, whole: 0}


def test_a_run_of_some_files_leaves_the_others_and_drops_those_that_are_gone(folder: Path) -> None:
    slow, whole, gone = "tests/unit/test_slow.py", "tests/e2e/test_whole.py", "tests/unit/test_gone.py"
    (folder / "durations.txt").write_text(f"   7 {slow}\n   8 {gone}\n   9 {whole}\n")
    assert stored_by(folder, report(f"{slow}::one", 3.2)) == {slow: 3, whole: 9}


def test_an_interrupted_run_stores_nothing(folder: Path) -> None:
    (folder / "durations.txt").write_text("   7 tests/unit/test_slow.py\n")
    left = stored_by(folder, report("tests/unit/test_slow.py::one", 1), exitstatus=pytest.ExitCode.INTERRUPTED)
    assert left == {"tests/unit/test_slow.py": 7}


def test_a_run_begins_with_the_longest_files_and_ends_with_the_shortest() -> None:
    files = ["tests/unit/test_a.py", "tests/unit/test_b.py", "tests/e2e/test_new.py", "tests/fault/test_c.py"]
    measured = {"tests/unit/test_b.py": 40, "tests/fault/test_c.py": 3}
    assert sorted(files, key=lambda file: -expected_s(file, measured)) == [files[1], files[2], files[3], files[0]]


@pytest.mark.parametrize(
    ("bounded", "expected"),
    [
        ("h2>=4.4,<5", "h2>=4.4"),
        ('uvloop>=0.21,<=0.22; sys_platform != "win32"', 'uvloop>=0.21; sys_platform != "win32"'),
        ("opentelemetry-util-genai==1.1b0", "opentelemetry-util-genai==1.1b0"),
    ],
)
def test_the_newest_releases_are_those_beyond_upper_bounds(bounded: str, expected: str) -> None:
    assert unbounded(bounded) == expected


def test_the_newest_are_of_all_that_the_project_needs() -> None:
    names = " ".join(requirements())
    assert all(name in names for name in ("aiohttp", "pyarrow", "mcp", "pytest"))
