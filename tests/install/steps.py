"""Steps that every way of installing shares: run a command, wait for the gateway, send one call."""

import json
import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.processes import Process
from tests.support.spans import call_span

ROOT = Path(__file__).parents[2]
READY_S = 60
DELIVERED_S = 60
CLEAN = ("PATH", "HOME", "LANG")
REGISTRIES = ("PIP_", "UV_", "SSL_CERT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""What a new user's shell has, and how this machine reaches package registries."""


def say(text: str) -> None:
    print(f"   {text}", flush=True)


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in CLEAN or name.upper().startswith(REGISTRIES)}
    return kept | more


def step(*command: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None, code: int = 0) -> str:
    """Run it; what it printed. Raises AssertionError with that for another exit code."""
    words = [str(word) for word in command]
    say("$ " + " ".join(words))
    done = subprocess.run(
        words,
        cwd=cwd,
        env=dict(clean_environment() if env is None else env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == code, f"exit code {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port: int = taken.getsockname()[1]
        return port


def read(url: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
        body: bytes = answer.read()
        return body


def wait_for(process: Process, url: str) -> None:
    """Until *url* answers 200."""

    def answers() -> bool | None:
        try:
            return bool(read(url)) or True
        except OSError:
            return None

    process.wait_until(answers, timeout_s=READY_S, what=url)


def post_call(url: str, name: str = "first", **headers: str) -> None:
    """One span of a call to `/v1/traces` of *url*."""
    headers = {"Content-Type": "application/x-protobuf", **headers}
    request = urllib.request.Request(f"{url}/v1/traces", call_span(name, (1200, 120)), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def wait_until_delivered(process: Process, admin: str, *, calls: int = 1, token: str = "") -> None:
    """Until the gateway at *admin* delivered *calls*."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def delivered() -> bool | None:
        lane = json.loads(read(f"{admin}/v2/status", **headers))["lanes"]["ai_telemetry"]
        return True if lane["delivered"] >= calls and lane["pending"] == 0 else None

    process.wait_until(delivered, timeout_s=DELIVERED_S, what=f"{calls} delivered")


def without_cargo() -> str:
    """PATH without Rust's compiler."""
    return os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if not (Path(each) / "cargo").exists())


def has_cargo() -> bool:
    return shutil.which("cargo") is not None


def see_reader(admin: str, wanted: str | None, log: Path, *, token: str = "") -> None:
    """That the gateway at *admin* reads with *wanted* (None for either), and says so."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    reader = json.loads(read(f"{admin}/v2/status", **headers))["reader"]["name"]
    assert wanted in {reader, None}, f"reader: {reader}"
    assert f'reader="{reader}"' in read(f"{admin}/metrics", **headers).decode()
    first = log.read_text().splitlines()[0]
    assert "gateway starting" in first, first
    assert f"reader={reader}" in first, first
    say(f"reader: {reader}")


def run_and_send(
    command: Sequence[object], folder: Path, env: Mapping[str, str] | None = None, *, reader: str | None = None
) -> None:
    """Start *command* (`… run`) on free ports, send one call, see it delivered, stop."""
    http, grpc, admin, service = free_port(), free_port(), free_port(), free_port()
    listen = {
        "TELEMETRY_GATEWAY_LISTEN_HTTP": f"127.0.0.1:{http}",
        "TELEMETRY_GATEWAY_LISTEN_GRPC": f"127.0.0.1:{grpc}",
        "TELEMETRY_GATEWAY_LISTEN_ADMIN": f"127.0.0.1:{admin}",
        "TELEMETRY_GATEWAY_LISTEN_SERVICE": f"127.0.0.1:{service}",
        "TELEMETRY_GATEWAY_COUNTING_SETTLE": "200ms",
    }
    process = Process([str(word) for word in command], log=folder / "run.log", env={**listen, **(env or {})})
    try:
        wait_for(process, f"http://127.0.0.1:{admin}/readyz")
        post_call(f"http://127.0.0.1:{http}")
        wait_until_delivered(process, f"http://127.0.0.1:{admin}")
        see_reader(f"http://127.0.0.1:{admin}", reader, folder / "run.log")
        say("one call sent, and delivered")
        assert process.terminate() == 0, process.log_tail()
    finally:
        process.kill()
