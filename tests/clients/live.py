"""Live runs: applications as their users run them, each in an environment of its own, with what
`telemetry-gateway sources NAME` prints for it, against a model provider that knows what it served.
Every delivered record must be one served call, with its counts and models.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import PROJECT_ROOT
from gateway.sources.otlp_senders import OTLP_SENDERS, Paste
from tests.clients.programs import CLIENTS, built, node, npm
from tests.clients.runs import Compression, SenderFailed
from tests.support.canary import files_with_canary
from tests.support.client_environments import client_python
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.keys_beside import inbound_key
from tests.support.ports import OtlpPorts
from tests.support.provider import running_provider, served_by
from tests.support.truth import (
    Calls,
    Field,
    any_call,
    differences,
    of_anthropic,
    of_chat_stream,
    of_messages_or_chat,
    of_openai,
    of_openai_at_once,
    of_openai_stream,
    records_in,
    without_attribution,
)

PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT"
TIMEOUT_S = 180.0
_EXPORT = re.compile(r'^export (\w+)="?([^"]*)"?$', re.MULTILINE)
"""A setting as a snippet for the shell has it."""


class Places(NamedTuple):
    """Where an application finds what it needs."""

    provider: str
    ports: OtlpPorts
    key: str
    home: Path
    compression: Compression

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports.http}"

    def addressed(self, paste: Paste) -> str:
        """The snippet for this gateway and key."""
        return paste.addressed(url=self.url, grpc=f"127.0.0.1:{self.ports.grpc}", key=self.key)

    def filled(self, setting: str) -> str:
        for name, value in {"provider": self.provider, "http": self.url, "grpc_port": str(self.ports.grpc)}.items():
            setting = setting.replace(f"{{{name}}}", value)
        return setting


class Application(NamedTuple):
    sender: str
    """Whose snippets it uses: `gateway.sources.otlp_senders`."""
    command: Callable[[Places], list[str]]
    settings: Mapping[str, str] = {}
    """Of the environment, beyond the snippets; `{provider}`, `{http}` and `{grpc_port}` are the
    run's."""
    files: Mapping[str, str] = {}
    """In its home, before what the snippets put there: path -> text."""
    unstated: Mapping[Field, Calls] = {}
    """What it does not report -> of which calls."""
    who: Mapping[str, str] = {}
    """Attribution that each of its calls must have."""
    converse: Callable[[subprocess.Popen[str], "Outage"], None] | None = None
    """For a run in which the gateway is killed: asks through the program's standard streams."""


class Outage(NamedTuple):
    """A gateway that is killed and started again."""

    gateway: GatewayProcess
    provider: str

    def happen(self) -> None:
        """Once everything that was served is acknowledged, before it is settled."""

        def is_acknowledged() -> bool | None:
            return self.gateway.status()["edge"]["kept"] >= len(served_by(self.provider)) or None

        self.gateway.process.wait_until(is_acknowledged, timeout_s=60, what="acknowledged")
        self.gateway.kill()
        self.gateway.restart()


def python_app(environment: str) -> Callable[[Places], list[str]]:
    """`apps/<environment>_calls.py` in the environment of that name."""

    def command(places: Places) -> list[str]:
        python = client_python(environment, CLIENTS / f"requirements-{environment}.txt")
        return [str(python), "-m", f"tests.clients.apps.{environment}_calls", places.provider]

    return command


def node_app(folder: str) -> Callable[[Places], list[str]]:
    """`<folder>/sender.mjs`."""
    return lambda places: [*node(), str(built(folder, npm) / "sender.mjs"), places.provider]


def gemini_cli(places: Places) -> list[str]:
    program = built("gemini-cli", npm) / "node_modules/.bin/gemini"
    return [*node(), str(program), "-m", "gemini-2.5-flash", "-p", PROMPT]


def codex(places: Places) -> list[str]:
    (program,) = (built("codex", npm) / "node_modules/@openai").glob("codex-*/vendor/*/bin/codex")
    return [str(program), "exec", "--skip-git-repo-check", PROMPT]


CODEX_PROVIDER = """\
model = "gpt-4.1-mini"
model_provider = "loopback"

[model_providers.loopback]
name = "loopback"
base_url = "{provider}/v1"
env_key = "PROVIDER_KEY"
wire_api = "responses"

"""


def qwen_code(places: Places) -> list[str]:
    program = built("qwen-code", npm) / "node_modules/.bin/qwen"
    return [*node(), str(program), "--auth-type", "openai", "-p", PROMPT]


def copilot_cli(places: Places) -> list[str]:
    (program,) = (built("copilot-cli", npm) / "node_modules/@github").glob("copilot-*/copilot")
    return [str(program), "-p", PROMPT]


def claude_code(places: Places) -> list[str]:
    return [*claude(), PROMPT]


def claude() -> list[str]:
    (program,) = (built("claude-code", npm) / "node_modules/@anthropic-ai").glob("claude-code-*/claude")
    return [str(program), "-p"]


def claude_code_session(places: Places) -> list[str]:
    return [*claude(), "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]


def ask_claude_twice(process: subprocess.Popen[str], outage: Outage) -> None:
    ask_claude(process)
    outage.happen()
    ask_claude(process)


def ask_claude(process: subprocess.Popen[str]) -> None:
    message = {"type": "user", "message": {"role": "user", "content": PROMPT}}
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        if json.loads(line)["type"] == "result":
            return
    raise SenderFailed("it ended before its answer")


CLAUDE_CODE = Application(
    "claude-code",
    claude_code,
    settings={
        "ANTHROPIC_BASE_URL": "{provider}",
        "ANTHROPIC_API_KEY": "sk-CANARY-7Q-KEY",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
    unstated={"reasoning": any_call},
)
APPLICATIONS: Mapping[str, Application] = {
    "claude-code": CLAUDE_CODE,
    "claude-code-killed": CLAUDE_CODE._replace(command=claude_code_session, converse=ask_claude_twice),
    "claude-code-http": CLAUDE_CODE._replace(
        settings={
            **CLAUDE_CODE.settings,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "{http}",
        }
    ),
    "gemini-cli": Application(
        "gemini-cli",
        gemini_cli,
        settings={
            "GEMINI_API_KEY": "sk-CANARY-7Q-KEY",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": "{provider}",
        },
        files={".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
    ),
    "codex": Application(
        "codex",
        codex,
        settings={"PROVIDER_KEY": "sk-CANARY-7Q-KEY"},
        files={".codex/config.toml": CODEX_PROVIDER},
        unstated={"model": any_call},
    ),
    "qwen-code": Application(
        "qwen-code",
        qwen_code,
        settings={
            "OPENAI_API_KEY": "sk-CANARY-7Q-KEY",
            "OPENAI_BASE_URL": "{provider}/v1",
            "OPENAI_MODEL": "gpt-4o",
        },
    ),
    "copilot-cli": Application(
        "copilot-cli",
        copilot_cli,
        settings={
            "COPILOT_PROVIDER_BASE_URL": "{provider}/v1",
            "COPILOT_PROVIDER_API_KEY": "sk-CANARY-7Q-KEY",
            "COPILOT_MODEL": "gpt-4o",
            "COPILOT_OFFLINE": "true",
        },
        unstated={"provider": any_call, "model": any_call},
    ),
    "adk": Application(
        "google-adk",
        python_app("adk"),
        settings={"GOOGLE_API_KEY": "sk-CANARY-7Q-KEY", "GOOGLE_GEMINI_BASE_URL": "{provider}"},
        unstated={"model": any_call},
    ),
    "agno": Application(
        "agno",
        python_app("agno"),
        unstated={"model": of_openai, "reasoning": of_openai},  # Anthropic's SDK reports its own calls besides
        who={"user": "user-7", "session": "session-7"},
    ),
    "bedrock": Application("botocore", python_app("bedrock")),
    "genkit": Application("genkit", node_app("genkit")),
    "mastra": Application("mastra", node_app("mastra")),
    "vercel-ai-4": Application(
        "vercel-ai",
        node_app("vercel-ai-4"),
        unstated={"reasoning": of_anthropic},
        who={"user": "user-7"},
    ),
    "vercel-ai-5": Application(
        "vercel-ai",
        node_app("vercel-ai-5"),
        unstated={"cache_read": of_openai_at_once, "reasoning": of_openai_at_once},
        who={"user": "user-7"},
    ),
    "vercel-ai-7": Application("vercel-ai-7", node_app("vercel-ai-7"), unstated={"reasoning": any_call}),
    "logfire": Application("logfire", python_app("logfire"), unstated={"model": of_openai_stream}),
    "openlit": Application("openlit", python_app("openlit"), unstated={"reasoning": of_messages_or_chat}),
    "traceloop": Application(
        "traceloop",
        python_app("traceloop"),
        unstated={"reasoning": of_chat_stream},
        who={"user": "user-7", "session": "session-7"},
    ),
    "openinference": Application("openinference", python_app("openinference")),
    "phoenix-openai": Application("phoenix", python_app("phoenix"), settings={"PHOENIX_GRPC_PORT": "{grpc_port}"}),
    "pydantic-ai": Application("pydantic-ai", python_app("pydantic_ai")),
    "opentelemetry": Application(
        "opentelemetry", python_app("opentelemetry"), unstated={"cache_read": any_call, "reasoning": any_call}
    ),
}


class LiveOutcome(NamedTuple):
    calls: int
    """That the provider served."""
    wrong: list[str]
    """What is not as it was served, a line each; empty when all is exact."""
    said: str
    """By the application, on its standard error."""
    seconds: float


def run_live(
    application: Application, folder: Path, compression: Compression = "none", *, killed: bool = False
) -> LiveOutcome:
    """One run, in *folder*. Raises InstallFailed and SenderFailed.

    *compression*: what the environment asks for; most exporters follow it.
    *killed*: the application runs a second time, after the gateway was killed and started again.
    """
    began = time.monotonic()
    ports = OtlpPorts.free()
    records = folder / "records.ndjson"
    config = {**ports.settings(), "exporters": {"records": {"type": "file", "path": str(records)}}}
    key = inbound_key(folder / "data")
    with running_provider(folder) as url, GatewayProcess(folder, settle="2s", config=config) as gateway:
        places = Places(url, ports, key, folder / "home", compression)
        places.home.mkdir()
        outage = Outage(gateway, url)
        said = run_application(application, places, outage)
        if killed:
            outage.happen()
            said += run_application(application, places, outage)
        served = served_by(url)
        gateway.wait_for_all_there_is("records", expected=len(served))
        delivered = records_in(records)
        wrong = differences(served, delivered, application.unstated) + broken_identities(gateway.status())
    wrong += without_attribution(delivered, application.who)
    wrong += [f"content in {file}" for file in files_with_canary(folder / "data")]
    return LiveOutcome(len(served), wrong, said, time.monotonic() - began)


def run_application(application: Application, places: Places, outage: Outage) -> str:
    """To its end; nothing of the caller's home or environment reaches it. What it wrote to
    standard error.
    """
    log = places.home.with_name("application.log")
    with log.open("w") as stderr:
        process = subprocess.Popen(
            application.command(places),
            cwd=prepared_home(application, places),
            env=environment(application, places),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        if application.converse is not None:
            application.converse(process, outage)
        printed, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.communicate()
    if process.returncode:
        raise SenderFailed((printed + log.read_text())[-3000:])
    return log.read_text()


def environment(application: Application, places: Places) -> dict[str, str]:
    """The snippets' settings, the application's own, and as little else as programs need."""
    pasted = "".join(
        places.addressed(paste) for paste in OTLP_SENDERS[application.sender].pastes if paste.language == "sh"
    )
    own = {name: places.filled(value) for name, value in application.settings.items()}
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(places.home),
        **({"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"} if places.compression == "gzip" else {}),
        "PYTHONPATH": str(PROJECT_ROOT),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        **dict(_EXPORT.findall(pasted)),
        **own,
    }


def prepared_home(application: Application, places: Places) -> Path:
    """The home folder, with the files of snippets and application."""
    pasted = {paste.file: places.addressed(paste) for paste in OTLP_SENDERS[application.sender].pastes if paste.file}
    for path in {**pasted, **application.files}:
        file = places.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(places.filled(application.files.get(path, "")) + pasted.get(path, ""))
    return places.home
