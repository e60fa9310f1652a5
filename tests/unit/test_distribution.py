"""What setup.py builds, on a tree of its own with a compiler that is a script: a wheel with the
native reader where that was compiled, else one for any platform.

`python -m tests.install wheel` builds the real ones.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "native/Cargo.toml", "native/Cargo.lock")
EXTENSION = "gateway/_native.abi3.so"
PURE = "py3-none-any"
RUSTC = """#!/bin/sh
case "$1" in
-V) echo "rustc 1.90.0 (0 2025-01-01)" ;;
-Vv) printf 'rustc 1.90.0\\nhost: x86_64-unknown-linux-gnu\\n' ;;
*) echo 'target_os="linux"' ;;
esac
"""
CARGO = """#!/bin/sh
echo "$@" >> {calls}
case "$1" in
metadata) echo '{{"resolve": {{"root": "it"}}}}' ;;
*) echo '{artifact}' ;;
esac
exit {code}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with nothing in its packages."""
    root = tmp_path / "checkout"
    for name in NEEDED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for package in ("gateway", "exporters", "spool"):
        (root / package).mkdir()
        (root / package / "__init__.py").touch()
    return root


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """All of PATH; without a compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def put_compiler(folder: Path, *, code: int = 0) -> Path:
    """One that "compiles" a library, or fails; the file of its calls."""
    library, calls = folder / "libnative.so", folder / "calls"
    library.write_bytes(b"compiled")
    artifact = {
        "reason": "compiler-artifact",
        "package_id": "it",
        "target": {"kind": ["cdylib"]},
        "filenames": [str(library)],
    }
    for name, text in (
        ("rustc", RUSTC),
        ("cargo", CARGO.format(calls=calls, artifact=json.dumps(artifact), code=code)),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return calls


def build(tree: Path, tools: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO", "RUST", "TELEMETRY_"))}
    return subprocess.run(
        [sys.executable, "setup.py", "--quiet", *(arguments or ("bdist_wheel",))],
        cwd=tree,
        env=kept | {"PATH": str(tools)} | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def wheel(tree: Path) -> tuple[str, Mapping[str, bytes]]:
    """Its tag, and its files."""
    (path,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as files:
        found = {name: files.read(name) for name in files.namelist()}
    (purelib,) = [
        line
        for name in found
        if name.endswith("/WHEEL")
        for line in found[name].decode().splitlines()
        if "Pure" in line
    ]
    assert purelib == f"Root-Is-Purelib: {str(path.name.endswith(f'{PURE}.whl')).lower()}"
    path.unlink()
    return path.stem.split("-", 2)[2], found


def test_without_a_compiler_the_wheel_is_for_any_platform(tree: Path, tools: Path) -> None:
    done = build(tree, tools)
    assert done.returncode == 0, done.stderr
    tag, files = wheel(tree)
    assert tag == PURE
    assert EXTENSION not in files


def test_with_a_compiler_the_wheel_has_the_native_reader_for_every_later_python(tree: Path, tools: Path) -> None:
    calls = put_compiler(tools)
    done = build(tree, tools)
    assert done.returncode == 0, done.stderr
    tag, files = wheel(tree)
    assert tag.startswith("cp311-abi3-linux_")
    assert files[EXTENSION] == b"compiled"
    assert "--release" in calls.read_text()


def test_a_compiler_that_fails_leaves_neither_the_reader_nor_that_of_an_earlier_build(tree: Path, tools: Path) -> None:
    put_compiler(tools)
    assert build(tree, tools).returncode == 0
    assert EXTENSION in wheel(tree)[1]
    put_compiler(tools, code=101)
    done = build(tree, tools)
    assert done.returncode == 0, done.stderr
    tag, files = wheel(tree)
    assert tag == PURE
    assert EXTENSION not in files


def test_a_reader_that_is_demanded_must_compile(tree: Path, tools: Path) -> None:
    put_compiler(tools, code=101)
    assert build(tree, tools, TELEMETRY_GATEWAY_BUILD="native").returncode != 0
    assert not (tree / "dist").exists()


def test_a_reader_that_is_left_out_is_not_compiled(tree: Path, tools: Path) -> None:
    calls = put_compiler(tools)
    assert build(tree, tools, TELEMETRY_GATEWAY_BUILD="python").returncode == 0
    assert wheel(tree)[0] == PURE
    assert not calls.exists()


def test_a_word_that_names_no_reader_is_refused(tree: Path, tools: Path) -> None:
    done = build(tree, tools, TELEMETRY_GATEWAY_BUILD="rust")
    assert done.returncode != 0
    assert "one of auto, native, python" in done.stderr


@pytest.mark.parametrize("name", ["native/Cargo.toml", "native/Cargo.lock"])
def test_a_version_that_cargo_would_refuse_is_an_error_and_not_a_reader_less(
    tree: Path, tools: Path, name: str
) -> None:
    put_compiler(tools)
    version = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"]
    text = (tree / name).read_text()
    package = 'name = "telemetry-gateway-native"\nversion = '
    (tree / name).write_text(text.replace(f'{package}"{version}"', f'{package}"0.0.9"'))
    done = build(tree, tools)
    assert done.returncode
    assert "must have one version" in done.stderr
    assert "0.0.9" in done.stderr


def test_an_editable_install_has_an_optimised_reader_in_the_checkout(tree: Path, tools: Path) -> None:
    calls = put_compiler(tools)
    assert build(tree, tools, "build_ext", "--inplace").returncode == 0
    assert [path.read_bytes() for path in (tree / "gateway").glob("_native.*")] == [b"compiled"]
    assert "--release" in calls.read_text()


def test_wheel_and_source_archive_name_their_commit(tree: Path, tools: Path) -> None:
    done = build(tree, tools, "sdist", "bdist_wheel", TELEMETRY_GATEWAY_BUILD="python", SOURCE_COMMIT="abc123")
    assert done.returncode == 0, done.stderr
    assert wheel(tree)[1]["gateway/commit.txt"] == b"abc123\n"
    (archive,) = (tree / "dist").glob("*.tar.gz")
    shutil.unpack_archive(archive, tree / "unpacked", filter="data")
    (source,) = (tree / "unpacked").iterdir()
    assert (source / "gateway/commit.txt").read_text() == "abc123\n"
    assert (source / "native/Cargo.lock").exists()
    assert build(source, tools, TELEMETRY_GATEWAY_BUILD="python").returncode == 0
    assert wheel(source)[1]["gateway/commit.txt"] == b"abc123\n", "the archive's own is kept where there is no git"
