"""What the programs of the live runs are run with: packages that a file pins, or the newest ones.

The newest are installed as a user has them: first what the program itself needs, then the commands
of the page, as they are printed.
"""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from tests.clients.programs import CLIENTS, built, node, node_folder, npm, run
from tests.support.client_environments import ENVIRONMENTS, InstallFailed, client_python, requirements

Versions = Literal["pinned", "newest"]
PIP = ("pip", "install")
NPM = ("npm", "install")


def python_of(name: str, needs: Sequence[str], installs: Sequence[str], versions: Versions) -> Path:
    """The interpreter of *name*'s environment.

    *needs*: packages of the program; *installs*: commands of the page. Raises InstallFailed.
    """
    if versions == "pinned":
        pins = CLIENTS / f"requirements-{name}.txt"
        return client_python(name, pins if pins.exists() else requirements(name))
    return _newest_python(name, tuple(needs), tuple(installs))


@cache
def _newest_python(name: str, needs: tuple[str, ...], installs: tuple[str, ...]) -> Path:
    """Made by the first run of a process: a later process may find newer versions."""
    folder = ENVIRONMENTS / f"{name}-newest"
    shutil.rmtree(folder, ignore_errors=True)
    ENVIRONMENTS.mkdir(exist_ok=True)
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], ENVIRONMENTS)
    python = folder / "bin" / "python"
    for packages in (needs, *(words_after(PIP, command) for command in installs)):
        if packages:
            install = ["install", "--quiet", "--upgrade", "--system-certs", "--python", str(python)]
            run([sys.executable, "-m", "uv", "pip", *install, *packages], ENVIRONMENTS)
    return python


def node_modules_of(folder: str, needs: Sequence[str], installs: Sequence[str], versions: Versions) -> Path:
    """The folder `node_modules` of *folder*'s program; as `python_of`."""
    if versions == "pinned":
        return built(folder, npm) / "node_modules"
    return _newest_node_modules(folder, tuple(needs), tuple(installs))


@cache
def _newest_node_modules(name: str, needs: tuple[str, ...], installs: tuple[str, ...]) -> Path:
    folder = ENVIRONMENTS / f"{name}-newest"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    npm_cli = str(node_folder() / "lib/node_modules/npm/bin/npm-cli.js")
    for packages in (needs, *(words_after(NPM, command) for command in installs)):
        if packages:
            run([*node(), npm_cli, "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages], folder)
    return folder / "node_modules"


def words_after(program: Sequence[str], command: str) -> list[str]:
    """The packages of a command such as `pip install A B`. Raises InstallFailed for another one."""
    words = shlex.split(command, comments=True)
    if tuple(words[: len(program)]) != tuple(program):
        raise InstallFailed(f"{command!r} does not begin with {' '.join(program)}")
    return words[len(program) :]


def python_versions(python: Path, packages: Iterable[str]) -> dict[str, str]:
    """Name -> installed version. *packages* as an installer takes them: `name[extra]==1.0`."""
    found = {
        name.replace("_", "-").lower(): version
        for each in python.parent.parent.glob("lib/python*/site-packages/*.dist-info")
        for name, version in [each.name.removesuffix(".dist-info").split("-")]
    }
    names = [re.split(r"[\[=<>~!]", each)[0] for each in packages]
    return {name: found[name.lower()] for name in names}


def node_versions(modules: Path, packages: Iterable[str]) -> dict[str, str]:
    """As `python_versions`, of `@scope/name@1`."""
    names = [re.sub(r"(?<=.)@[^/]*$", "", each) for each in packages]
    return {name: json.loads((modules / name / "package.json").read_text())["version"] for name in names}
