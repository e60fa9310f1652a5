"""`make quick` and `make newest`."""

from pathlib import Path

import pytest

from tests.newest import requirements, unbounded
from tests.quick import ROOT, measured_slow, slow_files

REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.a.test_slow" name="one" time="0.9" />
<testcase classname="tests.unit.a.test_slow" name="two" time="0.7" />
<testcase classname="tests.unit.a.test_quick" name="one" time="1.4" />
<testcase classname="tests.e2e.test_whole" name="one" time="9" />
</testsuite></testsuites>"""


def test_each_slow_file_is_there() -> None:
    assert [name for name in slow_files() if not (ROOT / name).is_file()] == []
    assert slow_files() == sorted(set(slow_files()))


def test_a_file_is_slow_by_all_of_its_tests(tmp_path: Path) -> None:
    junit = tmp_path / "unit.xml"
    junit.write_text(REPORT)
    assert measured_slow(junit) == ["tests/unit/a/test_slow.py"]


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
