"""What is in the wheel beside the code, and what is installed with it: `python -m tests.install
wheel` builds and runs it.
"""

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_committed_file_of_the_packages_is_package_data() -> None:
    tracked = subprocess.check_output(["git", "ls-files", "gateway", "exporters", "spool"], cwd=ROOT, text=True).split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = ["*.py", *project["tool"]["setuptools"]["package-data"]["*"]]
    names = {path: Path(path).name for path in tracked}
    assert [path for path, name in names.items() if not any(fnmatch(name, pattern) for pattern in patterns)] == []


def test_the_distribution_has_a_command_of_its_own_name_for_uvx() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"][project["name"]] == project["scripts"]["telemetry-gateway"]


def test_the_image_and_the_deb_have_what_a_cell_needs() -> None:
    """Both install what this lock pins."""
    lock = (ROOT / "requirements.lock").read_text()
    for path in ("deploy/docker/Dockerfile", "deploy/deb/build.sh"):
        assert "--require-hashes" in (ROOT / path).read_text()
        assert "requirements.lock" in (ROOT / path).read_text()
    for name in ("psycopg", "psycopg-binary", "psycopg-pool"):
        assert re.search(rf"^{name}==", lock, re.MULTILINE), name
