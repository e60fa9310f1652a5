"""What pyproject.toml cannot say: the native reader (native/, in Rust) is built where cargo is, and
a wheel without it is for any platform.

TELEMETRY_GATEWAY_BUILD is `auto`, the default: without a compiler, or where it fails, the native
reader is left out; `native`: that is an error; `python`: it is left out. SOURCE_COMMIT names the
commit where there is no .git.
"""

import os
import subprocess
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools_rust import RustExtension

MODULE = "gateway._native"
WANTED = os.environ.get("TELEMETRY_GATEWAY_BUILD") or "auto"
if WANTED not in {"auto", "native", "python"}:
    raise SystemExit("TELEMETRY_GATEWAY_BUILD: one of auto, native, python is needed")


class Extension(build_ext):
    """setuptools-rust builds after it: what an earlier build left is no part of this one."""

    def run(self) -> None:
        for path in self.built():
            path.unlink()
        super().run()

    def built(self) -> list[Path]:
        return list(Path(self.get_ext_fullpath(MODULE)).parent.glob("_native.*"))


class Wheel(bdist_wheel):
    """Its tag is py3-none-any where the extension was not built."""

    def run(self) -> None:
        self.run_command("build")
        if not self.get_finalized_command("build_ext").built():
            self.distribution.has_ext_modules = lambda: False
            self.root_is_pure, self.plat_name_supplied = True, False
        super().run()


class Modules(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write_commit(Path(self.build_lib))


class Source(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir))


def write_commit(root: Path) -> None:
    """For `gateway/common/release.py`; an sdist brings the file."""
    if commit := os.environ.get("SOURCE_COMMIT") or commit_of_checkout():
        (root / "gateway" / "commit.txt").write_text(f"{commit}\n")


def commit_of_checkout() -> str | None:
    if not Path(".git").exists():
        return None
    try:
        return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607 the builder's git
    except (OSError, subprocess.CalledProcessError):
        return None


def refuse_other_versions() -> None:
    """cargo builds nothing where its files have another version, and `auto` would leave it out."""
    project, package, lock = (
        tomllib.loads(Path(name).read_text()) for name in ("pyproject.toml", "native/Cargo.toml", "native/Cargo.lock")
    )
    locked = next(each["version"] for each in lock["package"] if each["name"] == package["package"]["name"])
    versions = [project["project"]["version"], package["package"]["version"], locked]
    if len(set(versions)) > 1:
        named = ", ".join(versions)
        raise SystemExit(f"pyproject.toml, native/Cargo.toml and native/Cargo.lock must have one version, not {named}")


if WANTED != "python":
    refuse_other_versions()
extension = RustExtension(
    MODULE,
    "native/Cargo.toml",
    cargo_manifest_args=["--locked"],
    debug=False,  # an editable install is no debug build
    optional=WANTED == "auto",
)
setup(
    rust_extensions=[] if WANTED == "python" else [extension],
    cmdclass={"build_ext": Extension, "bdist_wheel": Wheel, "build_py": Modules, "sdist": Source},
)
