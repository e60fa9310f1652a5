"""One run: senders with real exporters against a gateway that is killed between the two halves of
what they send. While it is down the exporters' next attempt meets a port that hangs up.
"""

import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import yaml

from benchmarks.processes import PROJECT_ROOT
from gateway.products.otlp_senders import OTLP_SENDERS
from tests.clients.programs import command
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import wait_until_listening
from tests.support.ports import OtlpPorts

CALLS = 200
STEP_TIMEOUT_S = 30.0
IN_SECONDS = ("python", "phoenix")
"""Programs that read OTEL_EXPORTER_OTLP_TIMEOUT as seconds; the others as milliseconds."""
Protocol = Literal["http/protobuf", "http/json", "grpc"]
Compression = Literal["none", "gzip"]


class Sender(NamedTuple):
    """One program, and what it speaks."""

    program: str
    protocol: Protocol


class Case(NamedTuple):
    senders: tuple[Sender, ...]
    exporter: str | None = None
    """Of the Collector that stands between the senders and the gateway."""
    outlasts: bool = True
    """Whether the exporter repeats an attempt until the gateway is up again; where it does not, the
    senders go on when it is."""


BEHIND_THE_COLLECTOR = (Sender("python", "http/protobuf"), Sender("js", "http/json"), Sender("go", "grpc"))
CASES: Mapping[str, Case] = {
    "python-http": Case((Sender("python", "http/protobuf"),)),
    "python-grpc": Case((Sender("python", "grpc"),)),
    "js-http-json": Case((Sender("js", "http/json"),)),
    "js-http-protobuf": Case((Sender("js", "http/protobuf"),)),
    "js-grpc": Case((Sender("js", "grpc"),), outlasts=False),
    "go-http": Case((Sender("go", "http/protobuf"),), outlasts=False),
    "go-grpc": Case((Sender("go", "grpc"),)),
    "java-http": Case((Sender("java", "http/protobuf"),)),
    "java-grpc": Case((Sender("java", "grpc"),)),
    "rust-http": Case((Sender("rust", "http/protobuf"),), outlasts=False),
    "rust-grpc": Case((Sender("rust", "grpc"),), outlasts=False),
    "phoenix": Case((Sender("phoenix", "grpc"),)),
    "collector-otlp": Case(BEHIND_THE_COLLECTOR, "otlp"),
    "collector-otlphttp": Case(BEHIND_THE_COLLECTOR, "otlphttp"),
}


class Totals(NamedTuple):
    calls: int
    input_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, summary: Mapping[str, int]) -> "Totals":
        """The embedded service's `totals`."""
        return cls(summary["calls"], summary["input_tokens"], summary["output_tokens"])


class SenderFailed(Exception):
    """A sender ended, or printed what it should not."""


class Outcome(NamedTuple):
    expected: Totals
    counted: Totals
    """By the embedded service."""
    broken: list[str]
    """Identities of `/v2/status` that do not hold."""
    said: str
    """By the senders, on their standard error."""
    seconds: float

    def is_exact(self) -> bool:
        return self.counted == self.expected and not self.broken


def run(case: Case, compression: Compression, folder: Path, *, outage: bool = True) -> Outcome:
    """The whole of it. Raises InstallFailed when a program cannot be built."""
    began = time.monotonic()
    ports = OtlpPorts.free()
    with ExitStack() as stack:
        gateway = stack.enter_context(GatewayProcess(folder, config=ports.settings()))
        reached = ports
        if case.exporter is not None:
            reached = stack.enter_context(collector(case.exporter, ports, compression, folder))
        running = [
            stack.enter_context(started(sender, reached, compression, folder / f"{sender.program}.log"))
            for sender in case.senders
        ]
        for one in running:
            wait_for(one, "half")
        if outage:
            gateway.kill()
        if outage and not case.outlasts:
            gateway.restart()
        for one in running:
            one.stdin.write("on\n")
            one.stdin.flush()
        if outage and case.outlasts:
            hang_up_once(ports.of("grpc" if case.exporter == "otlp" else case.senders[0].protocol))
            gateway.restart()
        for one in running:
            wait_for(one, "done")
        expected = expected_totals(len(case.senders))
        gateway.wait_for_all_there_is(expected=expected.calls)
        counted = Totals.of(gateway.summary()["totals"])
        broken = broken_identities(gateway.status())
    said = "".join((folder / f"{sender.program}.log").read_text() for sender in case.senders)
    return Outcome(expected, counted, broken, said, time.monotonic() - began)


def expected_totals(senders: int) -> Totals:
    numbers = range(1, CALLS + 1)
    return Totals(senders * CALLS, senders * sum(1000 + n for n in numbers), senders * sum(100 + n for n in numbers))


@contextmanager
def started(sender: Sender, ports: OtlpPorts, compression: Compression, log: Path) -> Iterator[subprocess.Popen[str]]:
    """The program while it runs."""
    url = f"http://127.0.0.1:{ports.of(sender.protocol)}"
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": sender.protocol,
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
        "OTEL_SERVICE_NAME": sender.program,
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "50",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_METRICS_EXPORTER": "none",
        "PHOENIX_COLLECTOR_ENDPOINT": "http://127.0.0.1",
        "PHOENIX_GRPC_PORT": str(ports.grpc),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    settings["OTEL_EXPORTER_OTLP_TIMEOUT"] = "60" if sender.program in IN_SECONDS else "60000"
    if compression == "gzip":  # Python's gRPC exporter takes no other word
        settings["OTEL_EXPORTER_OTLP_COMPRESSION"] = "gzip"
    with log.open("a") as stderr:
        process = subprocess.Popen(
            [*command(sender.program), str(CALLS)],
            cwd=PROJECT_ROOT,
            env=os.environ | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    """Until it prints *word*. Raises SenderFailed."""
    line = process.stdout.readline().strip()
    if line != word:
        raise SenderFailed(f"{line!r} instead of {word!r}")


def hang_up_once(port: int) -> None:
    """Take one connection there and reset it. Raises SenderFailed when none comes."""
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(STEP_TIMEOUT_S)
        try:
            connection, _ = server.accept()
        except TimeoutError as error:
            raise SenderFailed("no attempt while the gateway was down") from error
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def of_page(exporter: str, gateway: OtlpPorts) -> dict[str, object]:
    """The exporter's settings, as the Collector's page of senders has them."""
    (paste,) = OTLP_SENDERS["collector"].pastes
    addressed = paste.addressed(url=f"http://127.0.0.1:{gateway.http}", grpc=f"127.0.0.1:{gateway.grpc}", key="any")
    settings: dict[str, object] = yaml.safe_load(addressed)["exporters"][exporter]
    return settings


@contextmanager
def collector(exporter: str, gateway: OtlpPorts, compression: Compression, folder: Path) -> Iterator[OtlpPorts]:
    """Where the Collector listens while it runs; it forwards by *exporter*."""
    ports = OtlpPorts.free()
    protocols = {
        "http": {"endpoint": f"127.0.0.1:{ports.http}"},
        "grpc": {"endpoint": f"127.0.0.1:{ports.grpc}"},
    }
    config = {
        "receivers": {"otlp": {"protocols": protocols}},
        "processors": {"batch": {"timeout": "200ms"}},
        "exporters": {
            exporter: {
                **of_page(exporter, gateway),
                "compression": compression,
                "retry_on_failure": {"initial_interval": "500ms", "max_interval": "2s"},
            }
        },
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "processors": ["batch"], "exporters": [exporter]}},
        },
    }
    file = folder / "collector.json"
    file.write_text(json.dumps(config))  # JSON is YAML
    with (folder / "collector.log").open("w") as log:
        process = subprocess.Popen([*command("collector"), "--config", str(file)], stdout=log, stderr=log)
    try:
        wait_until_listening(ports.http, process)
        wait_until_listening(ports.grpc, process)
        yield ports
    finally:
        process.terminate()
        process.wait(30)
