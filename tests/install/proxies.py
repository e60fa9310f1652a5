"""The examples of deploy/proxies in the real nginx and Caddy, with a certificate of their own: the
OpenTelemetry SDK sends through them over HTTP and gRPC, with a key; each call is delivered once.
"""

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from benchmarks.processes import Process
from tests.install.steps import ROOT, clean_environment, free_port, say, step, wait_for, wait_until_delivered
from tests.support.certificates import Authority

NGINX = ROOT / "deploy/proxies/nginx.conf"
CADDYFILE = ROOT / "deploy/proxies/Caddyfile"
CALL = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini"}
USAGE = {"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3}


class Ports(NamedTuple):
    http: int
    grpc: int
    tls: int


def try_nginx(folder: Path) -> None:
    """`nginx -t`, then a call each way."""
    authority, ports = Authority(folder / "tls"), Ports(free_port(), free_port(), free_port())
    config = nginx_config(folder, authority, ports)
    step("nginx", "-t", "-c", config)
    send_through(["nginx", "-c", str(config), "-g", "daemon off;"], folder, authority, ports)


def try_caddy(folder: Path) -> None:
    """`caddy validate` of the example as it is, then a call each way."""
    step("caddy", "validate", "--adapter", "caddyfile", "--config", CADDYFILE)
    authority, ports = Authority(folder / "tls"), Ports(free_port(), free_port(), free_port())
    config = caddy_config(folder, authority, ports)
    send_through(["caddy", "run", "--adapter", "caddyfile", "--config", str(config)], folder, authority, ports)


def send_through(command: list[str], folder: Path, authority: Authority, ports: Ports) -> None:
    """Start the proxy and a gateway behind it that wants a key; a call over HTTP, one over gRPC."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        os.environ.pop(name, None)  # it would stand over the exporter's own authority
    admin = free_port()
    env = clean_environment(
        TELEMETRY_GATEWAY_DATA=str(folder / "data"),
        TELEMETRY_GATEWAY_LISTEN_HTTP=f"127.0.0.1:{ports.http}",
        TELEMETRY_GATEWAY_LISTEN_GRPC=f"127.0.0.1:{ports.grpc}",
        TELEMETRY_GATEWAY_LISTEN_ADMIN=f"127.0.0.1:{admin}",
        TELEMETRY_GATEWAY_LISTEN_SERVICE=f"127.0.0.1:{free_port()}",
        TELEMETRY_GATEWAY_COUNTING_SETTLE="200ms",
    )
    program = [sys.executable, "-m", "gateway.cli.main"]
    create = ["keys", "create", "--name", "sdk", "--managed", "send-ai-telemetry", "--by", "t", "--json"]
    headers = {"authorization": f"Bearer {json.loads(step(*program, *create, env=env))['secret']}"}
    gateway = Process([*program, "run"], log=folder / "gateway.log", env=env)
    proxy = Process(command, log=folder / "proxy.log", env={"HOME": str(folder)})
    try:
        wait_for(gateway, f"http://127.0.0.1:{admin}/readyz")
        pem = authority.pair.cert
        over_http = HttpExporter(f"https://localhost:{ports.tls}/v1/traces", certificate_file=str(pem), headers=headers)
        for calls, exporter in enumerate((over_http, grpc_exporter(ports.tls, pem, headers)), 1):
            send(exporter, f"chat {calls}")
            wait_until_delivered(gateway, f"http://127.0.0.1:{admin}", calls=calls)
            say(f"by {type(exporter).__module__}: delivered")
    finally:
        proxy.terminate()
        gateway.kill()


def grpc_exporter(port: int, pem: Path, headers: dict[str, str]) -> SpanExporter:
    from grpc import ssl_channel_credentials  # noqa: PLC0415 - beside the exporter that needs it

    credentials = ssl_channel_credentials(pem.read_bytes())
    return GrpcExporter(f"https://localhost:{port}", credentials=credentials, headers=headers)


def send(exporter: SpanExporter, name: str) -> None:
    """One span of a call, exported when it ends."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("install").start_as_current_span(name, attributes={**CALL, **USAGE}):
        pass
    provider.shutdown()


def nginx_config(folder: Path, authority: Authority, ports: Ports) -> Path:
    """A whole configuration around the example, on other ports and with other files."""
    pair = authority.signed("localhost")
    example = NGINX.read_text()
    for before, after in (
        ("127.0.0.1:4318", f"127.0.0.1:{ports.http}"),
        ("127.0.0.1:4317", f"127.0.0.1:{ports.grpc}"),
        ("listen 443 ", f"listen 127.0.0.1:{ports.tls} "),
        ("/etc/ssl/telemetry.example/fullchain.pem", str(pair.cert)),
        ("/etc/ssl/telemetry.example/privkey.pem", str(pair.key)),
    ):
        assert before in example
        example = example.replace(before, after)
    around = f"worker_processes 1;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
    path = folder / "nginx.conf"
    path.write_text(f"{around}http {{\naccess_log off;\nproxy_temp_path {folder}/proxy;\n{example}}}\n")
    return path


def caddy_config(folder: Path, authority: Authority, ports: Ports) -> Path:
    """The example on other ports, with a certificate of its own."""
    pair = authority.signed("localhost")
    example = CADDYFILE.read_text()
    for before, after in (
        ("telemetry.example {", f"https://localhost:{ports.tls} {{\n\ttls {pair.cert} {pair.key}"),
        ("127.0.0.1:4318", f"127.0.0.1:{ports.http}"),
        ("127.0.0.1:4317", f"127.0.0.1:{ports.grpc}"),
    ):
        assert before in example
        example = example.replace(before, after)
    path = folder / "Caddyfile"
    path.write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{example}")
    return path
