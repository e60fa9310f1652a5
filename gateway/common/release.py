"""Which release this is: its version, and the commit that it was built from."""

from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "ai-telemetry-gateway"
PACKAGE: Final = Path(__file__).parents[1]
WRITTEN: Final = "commit.txt"
"""In the package, written by setup.py; in a checkout git has it."""
ABBREVIATED: Final = 12


@cache
def release() -> str:
    return version(DISTRIBUTION)


@cache
def commit() -> str | None:
    """Its first digits; None where nobody wrote it down."""
    found = written_commit(PACKAGE / WRITTEN) or checked_out_commit(PACKAGE.parent / ".git")
    return found[:ABBREVIATED] if found else None


def written_commit(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None


def checked_out_commit(git: Path) -> str | None:
    """What HEAD names: a commit, or a branch in a file of its own or in packed-refs."""
    try:
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        branch = head.removeprefix("ref: ")
        return written_commit(git / branch) or packed_commit((git / "packed-refs").read_text(), branch)
    except OSError:
        return None


def packed_commit(packed: str, branch: str) -> str | None:
    rows = (line.split(" ", 1) for line in packed.splitlines())
    return next((row[0] for row in rows if row[1:] == [branch]), None)
