"""`make newest`: the tests with the newest release of every dependency, also beyond the upper
bounds of pyproject.toml, in an environment of its own (`build/newest`).

A bound keeps out a release whose internals changed. This states which bound may be raised, and what
breaks first.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.quick import quick_tests

ROOT: Final = Path(__file__).parent.parent
ENVIRONMENT: Final = ROOT / "build" / "newest"


def unbounded(requirement: str) -> str:
    """*requirement* without its upper bound: `h2>=4.4,<5` is `h2>=4.4`."""
    read = Requirement(requirement)
    read.specifier = SpecifierSet(",".join(str(each) for each in read.specifier if each.operator not in ("<", "<=")))
    return str(read)


def requirements() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    yield from project["project"]["dependencies"]
    for extra in project["project"]["optional-dependencies"].values():
        yield from extra
    yield from project["dependency-groups"]["dev"]


def main(arguments: list[str]) -> int:
    """Exit code of pytest over *arguments*; without any, over what `make quick` runs."""
    asked = sorted(map(unbounded, requirements()))
    python = ENVIRONMENT / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    subprocess.run([*uv, "venv", "--quiet", "--clear", str(ENVIRONMENT)], check=True)
    overrides = ENVIRONMENT / "overrides.txt"
    overrides.write_text("\n".join(asked) + "\n")
    install = [*uv, "pip", "install", "--quiet", "--python", str(python), "--upgrade", "--override", str(overrides)]
    subprocess.run([*install, *asked, "--editable", str(ROOT)], check=True)
    subprocess.run([*uv, "pip", "list", "--python", str(python), "--outdated"], check=True)
    tests = ["-m", "pytest", "-q", "-n", "2", *arguments] if arguments else quick_tests()
    return subprocess.run([str(python), *tests], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
