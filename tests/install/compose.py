"""The Compose file, by podman-compose: its gateway and its LiteLLM, on other ports of the machine
and with the mock provider in OpenAI's place. As root, with podman, netavark and aardvark-dns.

One call through LiteLLM is delivered; a second start takes the same key again. LiteLLM's image is
made here of the same release from PyPI, unless it is there.
"""

import json
import os
import shutil
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.processes import Process
from tests.install.podman import IMAGE, build, buildah, has_image, podman, prepare
from tests.install.steps import DELIVERED_S, ROOT, free_port, read, say, step
from tests.support.mock_llm import Provider

PODMAN_COMPOSE: Final = "podman-compose==1.6.0"
PINS = ROOT / "tests/e2e/clients/requirements-litellm-proxy.txt"
MASTER_KEY: Final = "sk-of-the-install-test"
OF_LITELLM = """ARG BASE=python:3.11-slim
FROM ${BASE}
COPY requirements-litellm-proxy.txt /
RUN python3 -m venv /opt/litellm && /opt/litellm/bin/pip install --no-cache-dir --quiet -r /requirements-litellm-proxy.txt
ENV PATH=/opt/litellm/bin:/usr/bin:/bin
"""


def try_compose(folder: Path) -> None:
    """Up, one call through LiteLLM, up again, down."""
    prepare(folder)
    build()
    with answering() as provider:
        project = Project(folder, provider)
        podman("tag", IMAGE, f"localhost/{project.image('gateway')}")
        make_litellm(folder, project.image("litellm"))
        try:
            project.up("gateway")
            project.up("litellm")
            project.ask()
            project.wait_until_delivered(1)
            say("one call through LiteLLM, delivered")
            project.restart("gateway")
            project.ask()
            project.wait_until_delivered(2)
            say("a second start takes the same key again, and keeps the records")
        finally:
            project.run("down", "--volumes")
        assert len(provider.served) == 2


@contextmanager
def answering() -> Iterator[Provider]:
    """The provider, where containers reach it."""
    provider = Provider("0.0.0.0")
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    try:
        yield provider
    finally:
        provider.shutdown()
        provider.server_close()


class Project:
    """A copy of deploy/compose on free ports."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        self._folder = folder / "deploy/compose"
        shutil.copytree(ROOT / "deploy/compose", self._folder)
        key = self._folder / "sender.key"
        key.write_text("a-key-of-the-install-test")
        key.chmod(0o644)
        self._file: dict[str, Any] = yaml.safe_load((self._folder / "compose.yaml").read_text())
        self._services: dict[str, Any] = self._file["services"]
        self._ports = {port: free_port() for port in (4000, 4317, 4318, 4319)}
        for service in self._services.values():
            inner = [int(port.rpartition(":")[2]) for port in service["ports"]]
            service["ports"] = [f"127.0.0.1:{self._ports[port]}:{port}" for port in inner]
        host = "host.containers.internal"
        self._services["litellm"]["environment"]["OPENAI_API_BASE"] = f"http://{host}:{provider.server_port}/v1"
        self._services["gateway"]["environment"]["TELEMETRY_GATEWAY_COUNTING_SETTLE"] = "200ms"
        (self._folder / "compose.yaml").write_text(yaml.safe_dump(self._file))

    def image(self, service: str) -> str:
        """With the version that it has unless the environment names another."""
        name, _, version = self._services[service]["image"].partition(":${")
        return f"{name}:{version.partition(':-')[2].rstrip('}')}"

    def run(self, *words: str) -> str:
        uv = Path(sys.executable).parent / "uv"
        env = {**os.environ, "OPENAI_API_KEY": "sk-mock", "LITELLM_MASTER_KEY": MASTER_KEY}
        return step(uv, "tool", "run", PODMAN_COMPOSE, *words, cwd=self._folder, env=env)

    def up(self, service: str) -> None:
        """Started, and healthy by its own check; podman asks that only with a systemd."""
        self.run("up", "--detach", "--no-deps", service)
        self._wait_until_healthy(service)

    def restart(self, service: str) -> None:
        podman("restart", "--time", 45, self._name(service))
        self._wait_until_healthy(service)

    def ask(self) -> None:
        """One completion, by LiteLLM."""
        body = json.dumps({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}).encode()
        headers = {"Authorization": f"Bearer {MASTER_KEY}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self._ports[4000]}/v1/chat/completions"
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
            assert json.load(answer)["usage"]["prompt_tokens"] > 0

    def wait_until_delivered(self, calls: int) -> None:
        token = podman("exec", self._name("gateway"), "cat", "/var/lib/telemetry-gateway/data/viewer-token").strip()
        url = f"http://127.0.0.1:{self._ports[4319]}/v2/status"

        def delivered() -> bool | None:
            lane = json.loads(read(url, Authorization=f"Bearer {token}"))["lanes"]["ai_telemetry"]
            return True if lane["delivered"] == calls and lane["pending"] == 0 else None

        self._wait(delivered, f"{calls} delivered")

    def _wait_until_healthy(self, service: str) -> None:
        def is_healthy() -> bool | None:
            words = ["podman", "healthcheck", "run", self._name(service)]
            return True if os.spawnvp(os.P_WAIT, "podman", words) == 0 else None

        self._wait(is_healthy, f"{service} healthy")

    def _wait(self, condition: Callable[[], bool | None], what: str) -> None:
        """The log of the containers is what is shown where it does not come."""
        log = self._folder / "log"
        watched = Process(["podman", "logs", "--follow", self._name("gateway")], log=log)
        try:
            watched.wait_until(condition, timeout_s=2 * DELIVERED_S, what=what)
        finally:
            watched.kill()

    def _name(self, service: str) -> str:
        return f"{self._file['name']}_{service}_1"


def make_litellm(folder: Path, name: str) -> None:
    """The release that the Compose file names, from PyPI."""
    if has_image(name):
        return
    context = folder / "litellm"
    context.mkdir()
    shutil.copy(PINS, context)
    (context / "Dockerfile").write_text(OF_LITELLM)
    buildah(name, context)
