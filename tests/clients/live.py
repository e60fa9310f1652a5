"""One live run: an application as its users run it, in an environment of its own, with what
`telemetry-gateway sources NAME` prints for it, against a model provider that knows what it served.
Every delivered record must be one served call, with its counts and models.
"""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import PROJECT_ROOT
from tests.clients.applications import Application, Outage, Places
from tests.clients.environments import Versions
from tests.clients.runs import Compression, SenderFailed
from tests.support.canary import files_with_canary
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.keys_beside import inbound_key
from tests.support.mock_llm import Served
from tests.support.ports import OtlpPorts
from tests.support.provider import running_provider, served_by
from tests.support.truth import differences, records_in, without_attribution

TIMEOUT_S = 180.0


class Way(NamedTuple):
    """How an application is run."""

    versions: Versions = "pinned"
    transport: str = ""
    """One of the application's; the snippets' own where it is empty."""
    compression: Compression = "none"
    """What the environment asks for; most exporters follow it."""
    killed: bool = False
    """A second time, after the gateway was killed and started again."""


class LiveOutcome(NamedTuple):
    served: Sequence[Served]
    """By the provider."""
    delivered: Sequence[Mapping[str, Any]]
    """Records that the gateway delivered."""
    versions: Mapping[str, str]
    """Of the packages that the program and the page name."""
    wrong: list[str]
    """What is not as it was served, a line each; empty when all is exact."""
    said: str
    """By the application, on its standard error."""
    seconds: float


def run_live(application: Application, folder: Path, way: Way) -> LiveOutcome:
    """One run, in *folder*. Raises InstallFailed and SenderFailed."""
    began = time.monotonic()
    ports = OtlpPorts.free()
    records = folder / "records.ndjson"
    config = {**ports.settings(), "exporters": {"records": {"type": "file", "path": str(records)}}}
    key = inbound_key(folder / "data")
    with running_provider(folder) as url, GatewayProcess(folder, settle="2s", config=config) as gateway:
        places = Places(application.sender, way.versions, url, ports, key, folder / "home", way.compression)
        places.home.mkdir()
        program = application.program(places)
        started = program.command, environment(application, places, way.transport, program.path)
        put_files(application, places)
        outage = Outage(gateway, url)
        said = run_program(application, started, places.home, outage)
        if way.killed:
            outage.happen()
            said += run_program(application, started, places.home, outage)
        served = served_by(url)
        reported = [call for call in served if not application.unreported(call)]
        gateway.wait_for_all_there_is("records", expected=len(reported))
        delivered = records_in(records)
        wrong = differences(reported, delivered, application.unstated) + broken_identities(gateway.status())
    wrong += without_attribution(delivered, application.who)
    wrong += [f"content in {file}" for file in files_with_canary(folder / "data")]
    return LiveOutcome(served, delivered, program.versions, wrong, said, time.monotonic() - began)


def run_program(application: Application, started: tuple[list[str], dict[str, str]], home: Path, outage: Outage) -> str:
    """To its end; nothing of the caller's home or environment reaches it. What it wrote to
    standard error.

    *started*: its command and environment.
    """
    command, env = started
    log = home.with_name("application.log")
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, cwd=home, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
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


def environment(application: Application, places: Places, transport: str, path: Path | None) -> dict[str, str]:
    """What the printed settings of the shell make of as little as programs need, then the
    application's own.
    """
    given = {
        "PATH": os.environ["PATH"] if path is None else f"{path}{os.pathsep}{os.environ['PATH']}",
        "MODEL_PROVIDER": places.provider,
        "HOME": str(places.home),
        "PYTHONPATH": str(PROJECT_ROOT),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    if places.compression == "gzip":
        given["OTEL_EXPORTER_OTLP_COMPRESSION"] = "gzip"
    chosen = application.transports[transport] if transport else {}
    own = {name: places.filled(value) for name, value in {**application.settings, **chosen}.items()}
    return {**after_shell(places.snippets("sh"), given), **own}


def after_shell(snippets: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a shell that ran the snippets."""
    script = "".join(snippets) + "exec env -0\n"
    done = subprocess.run(["/bin/sh", "-euc", script], env=dict(given), capture_output=True, check=True)
    pairs = (each.decode().split("=", 1) for each in done.stdout.split(b"\0") if each)
    return {name: value for name, value in pairs if name not in ("_", "PWD", "SHLVL", "OLDPWD")}


def put_files(application: Application, places: Places) -> None:
    """Those of snippets and application, in the home folder."""
    pasted = places.files()
    for path in {**pasted, **application.files}:
        file = places.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(places.filled(application.files.get(path, "")) + pasted.get(path, ""))
