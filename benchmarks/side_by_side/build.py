"""Builds the programs that are compared with and measured by: the collector, and `peerbench`, which
is sender and sink. What is there is not built again.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
COLLECTOR_VERSION: Final = "v0.159.0"
PROVIDERS_VERSION: Final = "v1.65.0"
"""Of the release that goes with `COLLECTOR_VERSION`."""
CACHE_VARIABLE: Final = "BENCHMARK_CACHE"


class BuildFailed(Exception):
    """A program of the comparison could not be built; the text states why."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths of what was built."""

    peerbench: Path
    collector: Path | None
    """None where no collector was asked for."""


def cache_folder() -> Path:
    """Where programs are kept from one run to the next: `BENCHMARK_CACHE`, or in the temporary
    folder.
    """
    return Path(os.environ.get(CACHE_VARIABLE) or Path(tempfile.gettempdir()) / "gateway-side-by-side")


def build(cache: Path, *, with_collector: bool) -> Programs:
    """Raises BuildFailed."""
    cache.mkdir(parents=True, exist_ok=True)
    return Programs(build_peerbench(cache), build_collector(cache) if with_collector else None)


def build_peerbench(cache: Path) -> Path:
    """The sender and sink, from the sources beside this file. Raises BuildFailed."""
    out = cache / "peerbench"
    _go(["build", "-buildvcs=false", "-o", str(out), "."], folder=HERE / "peerbench")
    return out


def build_collector(cache: Path) -> Path:
    """The collector of `COLLECTOR_VERSION` from Go modules, by its builder. Raises BuildFailed."""
    out = cache / f"collector-{COLLECTOR_VERSION}"
    collector = out / "otelcol-bench"
    if not collector.exists():
        _go(["install", f"go.opentelemetry.io/collector/cmd/builder@{COLLECTOR_VERSION}"], env={"GOBIN": str(cache)})
        manifest = cache / "collector.yaml"
        manifest.write_text(collector_manifest(out))
        run_command([str(cache / "builder"), "--config", str(manifest)], env={"CGO_ENABLED": "0"})
    return collector


def collector_manifest(out: Path) -> str:
    """The builder's configuration; the program is written to the folder *out*."""
    values = {"@VERSION@": COLLECTOR_VERSION, "@PROVIDERS@": PROVIDERS_VERSION, "@OUT@": str(out)}
    text = (HERE / "collector.yaml").read_text()
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def go_version() -> str:
    """As `go version` states it, `go1.26.0`. Raises BuildFailed where there is no Go."""
    return _go(["version"]).split()[2]


def _go(arguments: list[str], *, folder: Path | None = None, env: dict[str, str] | None = None) -> str:
    if shutil.which("go") is None:
        raise BuildFailed("the comparison is built with Go 1.24 or newer, and there is no `go`: https://go.dev/dl/")
    return run_command(["go", *arguments], folder=folder, env=env)


def run_command(command: list[str], *, folder: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What it writes to standard output. Raises BuildFailed."""
    environment = {**os.environ, "GOFLAGS": "-p=1", **(env or {})}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout
