"""How an application of the live runs is started, with the snippets that `telemetry-gateway sources
NAME` prints: commands that install, settings of the environment, files of the home folder, and
code, which goes where the program has the line `SNIPPET_LINE`.
"""

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from benchmarks.processes import ProcessFailed
from gateway.products.connecting import connection
from tests.clients.environments import (
    NPM,
    PIP,
    Versions,
    node_modules_of,
    node_versions,
    python_of,
    python_versions,
    words_after,
)
from tests.clients.programs import CLIENTS, node
from tests.clients.runs import Compression
from tests.support.gateway_process import GatewayProcess
from tests.support.ports import OtlpPorts
from tests.support.provider import served_by
from tests.support.truth import Calls, Field, no_call

SNIPPET_LINE: Final = "The snippet of the page goes here."
HTTP_PROTOBUF: Final[Mapping[str, Mapping[str, str]]] = {"http/protobuf": {}}


class Places(NamedTuple):
    """Where an application finds what it needs."""

    sender: str
    """Whose snippets it uses: a name of `telemetry-gateway sources`."""
    versions: Versions
    provider: str
    ports: OtlpPorts
    key: str
    home: Path
    compression: Compression

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports.http}"

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.ports.grpc}"

    def snippets(self, *languages: str) -> list[str]:
        """The printed texts of these languages that belong in no file."""
        return [each["text"] for each in self.printed() if each["language"] in languages and not each["file"]]

    def files(self) -> dict[str, str]:
        """Path from the home folder -> text."""
        return {each["file"].removeprefix("~/"): each["text"] for each in self.printed() if each["file"]}

    def printed(self) -> list[dict[str, str]]:
        found = connection(self.sender, self.url, self.grpc, self.key)
        assert found is not None, self.sender
        snippets: list[dict[str, str]] = found["snippets"]
        return snippets

    def filled(self, setting: str) -> str:
        named = {"provider": self.provider, "http": self.url, "grpc": self.grpc, "grpc_port": str(self.ports.grpc)}
        for name, value in named.items():
            setting = setting.replace(f"{{{name}}}", value)
        return setting


class Program(NamedTuple):
    """How an application is started."""

    command: list[str]
    versions: Mapping[str, str]
    """Package -> version, of those that the program and the page name."""
    path: Path | None = None
    """A folder that comes first in PATH."""


class Application(NamedTuple):
    sender: str
    """Whose snippets it uses: `telemetry-gateway sources`."""
    program: Callable[[Places], Program]
    transports: Mapping[str, Mapping[str, str]] = HTTP_PROTOBUF
    """Transport -> settings of the environment that choose it. The first is the snippets' own."""
    settings: Mapping[str, str] = {}
    """Of the environment, beyond the snippets; `{provider}`, `{http}`, `{grpc}` and `{grpc_port}`
    are the run's."""
    files: Mapping[str, str] = {}
    """In its home, before what the snippets put there: path -> text."""
    unstated: Mapping[Field, Calls] = {}
    """What it does not report -> of which calls."""
    unreported: Calls = no_call
    """Served calls that it does not report at all."""
    who: Mapping[str, str] = {}
    """Attribution that each of its calls must have."""
    converse: Callable[[subprocess.Popen[str], "Outage"], None] | None = None
    """Speaks with the program over its standard streams while it runs."""
    is_recipe: bool = True
    """False for another run of the same snippets."""


class Outage(NamedTuple):
    """A gateway that is killed and started again."""

    gateway: GatewayProcess
    provider: str

    def happen(self) -> None:
        """Once everything that was served is acknowledged, before it is settled."""
        self.wait_until_acknowledged()
        self.gateway.kill()
        self.gateway.restart()

    def wait_until_acknowledged(self) -> None:
        """Raises ProcessFailed."""

        def is_acknowledged() -> bool | None:
            return self.gateway.status()["edge"]["kept"] >= len(served_by(self.provider)) or None

        self.gateway.process.wait_until(is_acknowledged, timeout_s=60, what="acknowledged")


def stay_until_acknowledged(process: subprocess.Popen[str], outage: Outage) -> None:
    """For a program that prints a line once it made its calls, and stays until its input ends."""
    process.stdout.readline()
    with suppress(ProcessFailed):  # what is missing is a difference then
        outage.wait_until_acknowledged()


class PythonProgram(NamedTuple):
    """`apps/<environment>_calls.py` with the snippet."""

    environment: str
    needs: tuple[str, ...]
    """What the program itself is installed with."""

    def __call__(self, places: Places) -> Program:
        installs, start = commands(places, PIP)
        python = python_of(self.environment, self.needs, installs, places.versions)
        (places.home / "program.py").write_text(with_snippet(self.code(), "# ", places.snippets("python")))
        versions = python_versions(python, [*self.needs, *packages(PIP, installs)])
        return Program(["/bin/sh", "-ec", start or "python program.py"], versions, python.parent)

    def code(self) -> str:
        return (CLIENTS / f"apps/{self.environment}_calls.py").read_text()


class NodeProgram(NamedTuple):
    """`<folder>/calls.mjs` with the snippet."""

    folder: str
    needs: tuple[str, ...]

    def __call__(self, places: Places) -> Program:
        installs, start = commands(places, NPM)
        modules = node_modules_of(self.folder, self.needs, installs, places.versions)
        for shared in CLIENTS.glob("*.mjs"):
            shutil.copy(shared, places.home)
        (places.home / "node_modules").symlink_to(modules)
        (places.home / "program.mjs").write_text(with_snippet(self.code(), "// ", places.snippets("javascript")))
        versions = node_versions(modules, [*self.needs, *packages(NPM, installs)])
        return Program(["/bin/sh", "-ec", start or "node program.mjs"], versions, Path(node()[0]).parent)

    def code(self) -> str:
        return (CLIENTS / self.folder / "calls.mjs").read_text()


class NodeTool(NamedTuple):
    """A command line tool from npm."""

    folder: str
    package: str
    start: str
    """Its file below `node_modules`, as a pattern; Node runs it unless it is a binary."""
    arguments: tuple[str, ...]

    def __call__(self, places: Places) -> Program:
        modules = node_modules_of(self.folder, (self.package,), (), places.versions)
        (file,) = modules.glob(self.start)
        interpreter = [] if is_binary(file) else node()
        return Program([*interpreter, str(file), *self.arguments], node_versions(modules, [self.package]))


def python_app(environment: str, *needs: str) -> PythonProgram:
    return PythonProgram(environment, needs)


def node_app(folder: str, *needs: str) -> NodeProgram:
    return NodeProgram(folder, needs)


def node_tool(folder: str, package: str, start: str, *arguments: str) -> NodeTool:
    return NodeTool(folder, package, start, arguments)


def litellm_proxy(places: Places) -> Program:
    """LiteLLM's proxy; its configuration is the printed one below a list of models."""
    needs = ("litellm[proxy]",)
    python = python_of("litellm-proxy", needs, (), places.versions)
    models = {
        "gpt-4o-mini": ("openai/gpt-4o-mini", "/s/fast/v1"),
        "claude-haiku-4-5": ("anthropic/claude-haiku-4-5", "/s/careful"),
        "text-embedding-3-small": ("openai/text-embedding-3-small", "/s/embedder/v1"),
        "failing": ("openai/gpt-4o", "/s/error500/v1"),
    }
    listed = [
        {
            "model_name": name,
            "litellm_params": {"model": model, "api_base": places.provider + path, "api_key": "sk-CANARY-7Q-KEY"},
        }
        for name, (model, path) in models.items()
    ]
    head = {"model_list": listed, "router_settings": {"num_retries": 0}}
    text = yaml.safe_dump({**head, "general_settings": {"master_key": "sk-CANARY-7Q-KEY"}})
    (places.home / "config.yaml").write_text(text + "".join(places.snippets("yaml")))
    shutil.copy(CLIENTS / "apps/litellm_calls.py", places.home / "program.py")
    return Program(["/bin/sh", "-ec", "python program.py"], python_versions(python, needs), python.parent)


def commands(places: Places, installer: Sequence[str]) -> tuple[list[str], str]:
    """(printed commands that install, the others as one script)."""
    printed = places.snippets("console")
    installs = [each for each in printed if each.startswith(" ".join(installer))]
    return installs, "".join(each for each in printed if each not in installs)


def packages(installer: Sequence[str], installs: Sequence[str]) -> list[str]:
    return [word for command in installs for word in words_after(installer, command)]


def with_snippet(code: str, comment: str, snippets: Sequence[str]) -> str:
    """*code* with the printed snippets at their line."""
    before, line, after = code.partition(f"{comment}{SNIPPET_LINE}\n")
    assert line, "the program has no line for the snippet"
    return before + "\n".join(snippets) + after


def is_binary(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"
