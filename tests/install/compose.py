"""The Compose files, by podman-compose, on other ports of the machine. As root, with podman,
netavark and aardvark-dns.

`compose.yaml`, with the mock provider in OpenAI's place: one call through LiteLLM is delivered; a
second start takes the same key again. `edges.yaml`: calls over the balancer are delivered by the
hub, also while an edge is stopped, and those that edges took while the hub was stopped. The images
of LiteLLM and nginx are made here, of the same release from PyPI and of Debian's nginx, unless they
are there.
"""

import json
import os
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.install.podman import IMAGE, build, buildah, has_image, podman, prepare
from tests.install.steps import DELIVERED_S, ROOT, free_port, post_call, read, say, step
from tests.support.mock_llm import Provider

PODMAN_COMPOSE: Final = "podman-compose==1.6.0"
PINS = ROOT / "tests/e2e/clients/requirements-litellm-proxy.txt"
POLL_S: Final = 0.2
MASTER_KEY: Final = "sk-of-the-install-test"
OF_LITELLM = """ARG BASE=python:3.11-slim
FROM ${BASE}
COPY requirements-litellm-proxy.txt /
RUN python3 -m venv /opt/litellm && /opt/litellm/bin/pip install --no-cache-dir --quiet -r /requirements-litellm-proxy.txt
ENV PATH=/opt/litellm/bin:/usr/bin:/bin
"""
OF_NGINX = """ARG BASE=python:3.11-slim
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends nginx-light
"""
EDGES: Final = ("edge-1", "edge-2", "edge-3")


def try_compose(folder: Path) -> None:
    """Up, one call through LiteLLM, up again, down."""
    prepare(folder)
    build()
    with answering() as provider:
        project = WithLiteLLM(folder, provider)
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


def try_edges(folder: Path) -> None:
    """Up, calls over the balancer, one edge stopped, the hub stopped and started, down."""
    prepare(folder)
    build()
    project = Edges(folder)
    podman("tag", IMAGE, f"localhost/{project.image('hub')}")
    make_image(folder, project.image("balancer"), OF_NGINX)
    try:
        for service in ("hub", *EDGES):
            project.up(service)
        project.start("balancer")
        project.wait_until_open()
        at = project.send("first")
        assert [project.send(name) for name in ("second", "third")] == [at, at], "a sender stays on its edge"
        project.wait_until_delivered(3)
        say(f"three calls over the balancer, all by {at}, delivered by the hub")
        project.wait_until_known(len(EDGES))
        say("the hub knows three edges")
        project.stop(at)
        assert project.send("fourth") not in {at, None}
        project.wait_until_delivered(4)
        say(f"{at} is stopped: another edge takes its senders")
        project.stop("hub")
        project.send("fifth")
        project.restart("hub")
        project.wait_until_delivered(5)
        say("the hub was stopped meanwhile: the call is delivered once it runs again")
    finally:
        project.run("down", "--volumes")


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
    """A copy of deploy/compose, one of its files on free ports."""

    gateway: str
    """The service that delivers."""

    def __init__(self, folder: Path, file_name: str) -> None:
        self.folder = folder / "deploy/compose"
        shutil.copytree(ROOT / "deploy/compose", self.folder)
        self._path = self.folder / file_name
        self._file: dict[str, Any] = yaml.safe_load(self._path.read_text())
        self.services: dict[str, Any] = self._file["services"]
        self.ports: dict[int, int] = {}
        for service in self.services.values():
            inner = [int(port.rpartition(":")[2]) for port in service.get("ports", ())]
            self.ports |= {port: free_port() for port in inner}
            if inner:
                service["ports"] = [f"127.0.0.1:{self.ports[port]}:{port}" for port in inner]

    def save(self) -> None:
        self._path.write_text(yaml.safe_dump(self._file))

    def add_key(self, name: str) -> str:
        key = self.folder / name
        key.write_text(f"a-{key.stem}-key-of-the-install-test")
        key.chmod(0o644)
        return key.read_text()

    def image(self, service: str) -> str:
        """With the version that it has unless the environment names another."""
        name, _, version = self.services[service]["image"].partition(":${")
        return f"{name}:{version.partition(':-')[2].rstrip('}')}"

    def run(self, *words: str) -> str:
        uv = Path(sys.executable).parent / "uv"
        env = {**os.environ, "OPENAI_API_KEY": "sk-mock", "LITELLM_MASTER_KEY": MASTER_KEY}
        file = ("--file", self._path.name)
        return step(uv, "tool", "run", PODMAN_COMPOSE, *file, *words, cwd=self.folder, env=env)

    def up(self, service: str) -> None:
        """Started, and healthy by its own check; podman asks that only with a systemd."""
        self.start(service)
        self._wait_until_healthy(service)

    def start(self, service: str) -> None:
        self.run("up", "--detach", "--no-deps", service)

    def stop(self, service: str) -> None:
        podman("stop", "--time", 45, self.name(service))

    def restart(self, service: str) -> None:
        podman("restart", "--time", 45, self.name(service))
        self._wait_until_healthy(service)

    def wait_until_delivered(self, calls: int) -> None:
        def delivered() -> bool | None:
            lane = self.ask_gateway("/v2/status")["lanes"]["ai_telemetry"]
            return True if lane["delivered"] == calls and lane["pending"] == 0 else None

        self.wait(delivered, f"{calls} delivered")

    def ask_gateway(self, path: str) -> dict[str, Any]:
        """An answer of the admin listener of `gateway`."""
        token = podman("exec", self.name(self.gateway), "cat", "/var/lib/telemetry-gateway/data/viewer-token").strip()
        answer: dict[str, Any] = json.loads(
            read(f"http://127.0.0.1:{self.ports[4319]}{path}", Authorization=f"Bearer {token}")
        )
        return answer

    def _wait_until_healthy(self, service: str) -> None:
        def is_healthy() -> bool | None:
            words = ["podman", "healthcheck", "run", self.name(service)]
            return True if os.spawnvp(os.P_WAIT, "podman", words) == 0 else None

        self.wait(is_healthy, f"{service} healthy")

    def wait(self, condition: Callable[[], bool | None], what: str) -> None:
        """Raises AssertionError with the log of `gateway` where it does not come."""
        ends_s = time.monotonic() + 2 * DELIVERED_S
        while not condition():
            assert time.monotonic() < ends_s, f"not {what}:\n{podman('logs', '--tail', 50, self.name(self.gateway))}"
            time.sleep(POLL_S)

    def name(self, service: str) -> str:
        return f"{self._file['name']}_{service}_1"


class WithLiteLLM(Project):
    gateway = "gateway"

    def __init__(self, folder: Path, provider: Provider) -> None:
        super().__init__(folder, "compose.yaml")
        self.add_key("sender.key")
        host = "host.containers.internal"
        self.services["litellm"]["environment"]["OPENAI_API_BASE"] = f"http://{host}:{provider.server_port}/v1"
        self.services["gateway"]["environment"]["TELEMETRY_GATEWAY_COUNTING_SETTLE"] = "200ms"
        self.save()

    def ask(self) -> None:
        """One completion, by LiteLLM."""
        body = json.dumps({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}).encode()
        headers = {"Authorization": f"Bearer {MASTER_KEY}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.ports[4000]}/v1/chat/completions"
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
            assert json.load(answer)["usage"]["prompt_tokens"] > 0


class Edges(Project):
    gateway = "hub"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "edges.yaml")
        self._key = self.add_key("sender.key")
        self.add_key("edge.key")
        subject = ("-subj", "/CN=hub", "-addext", "subjectAltName=DNS:hub")
        files = ("-keyout", "hub-tls.key", "-out", "hub-tls.crt")
        step("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files, cwd=self.folder)
        (self.folder / "hub-tls.key").chmod(0o644)
        for service in ("hub", *EDGES):
            self.services[service]["environment"]["TELEMETRY_GATEWAY_COUNTING_SETTLE"] = "200ms"
        self.save()

    def send(self, name: str) -> str | None:
        """One call over the balancer; the edge that took it."""
        before = self._received()
        post_call(f"http://127.0.0.1:{self.ports[4318]}", name, Authorization=f"Bearer {self._key}")
        after = self._received()
        return next((edge for edge in after if after[edge] > before.get(edge, 0)), None)

    def wait_until_open(self) -> None:
        """The balancer passes on."""

        def passes() -> bool | None:
            try:
                read(f"http://127.0.0.1:{self.ports[4318]}/")
            except urllib.error.HTTPError as error:
                return True if error.code < 500 else None
            except OSError:
                return None
            return True

        self.wait(passes, "the balancer")

    def wait_until_known(self, edges: int) -> None:
        """By the hub, as devices."""
        query = "/v2/devices?kind=gateway&first_contact=enrolment"
        self.wait(lambda: True if len(self.ask_gateway(query)["devices"]) == edges else None, f"{edges} known")

    def _received(self) -> dict[str, int]:
        """Items that each edge that runs received."""
        running = podman("ps", "--format", "{{.Names}}").split()
        words = ("telemetry-gateway", "spool", "status", "--json")
        return {
            edge: int(json.loads(podman("exec", self.name(edge), *words))["edge"]["received"])
            for edge in EDGES
            if self.name(edge) in running
        }


def make_litellm(folder: Path, name: str) -> None:
    """The release that the Compose file names, from PyPI."""
    make_image(folder, name, OF_LITELLM, PINS)


def make_image(folder: Path, name: str, dockerfile: str, *files: Path) -> None:
    """Unless it is there."""
    if has_image(name):
        return
    context = folder / "context"
    context.mkdir()
    for file in files:
        shutil.copy(file, context)
    (context / "Dockerfile").write_text(dockerfile)
    buildah(name, context)
