"""Libraries in C that are preloaded into a process, and change what the system answers."""

import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(source: Path, folder: Path) -> Path:
    """*source* as a library in *folder*; skips the test where no C compiler is."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip(f"no C compiler to build {source.name} with")
    to = folder / f"{source.stem}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(to), str(source), "-ldl", "-lpthread"], check=True)
    return to
