"""The products of the comparison: each started on an empty folder, with its configuration stated
here.

`durable` means that what is acknowledged was synced: the gateway answers after the commit's fsync
(SQLite WAL, synchronous=FULL), the collector after its queue's (file_storage, fsync: true).
"""

import json
import os
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import Process, read_json_file
from benchmarks.scenario import fetch
from benchmarks.side_by_side.build import Programs
from gateway.common.native import VARIABLE as READER_VARIABLE

_READY_TIMEOUT_S: Final = 60.0
KEY_VARIABLE: Final = "BENCHMARK_UPSTREAM_KEY"
MAX_BODY_BYTES: Final = 64 << 20
QUEUE_BYTES: Final = 2 << 30


@dataclass(frozen=True, slots=True)
class Product:
    name: str
    what: str
    """One line for the report."""
    start: Callable[[Path, int, Programs], "Running"]
    """Start it in an empty folder, with the port of the sink; ready when it returns."""


@dataclass(slots=True)
class Running:
    """A product's process and the port that it takes OTLP/HTTP on."""

    process: Process
    port: int
    reader: str | None = None
    """`native` or `python`; None for a product that is not ours."""

    def stop(self) -> None:
        """Kill it: nothing of the folder is looked at afterwards."""
        self.process.kill()


def gateway(folder: Path, sink_port: int, *, reader: str) -> Running:
    """Our gateway with the Python of this process, as it ships but for `counting.settle: 1s`, so
    that a run need not wait ten seconds for its last delivery. *reader*: `auto` or `python`.
    """
    config, ports_file = folder / "config.yaml", folder / "ports.json"
    config.write_text(json.dumps(gateway_config(folder, sink_port)))  # JSON is YAML
    command = [
        sys.executable,
        "-m",
        "gateway.cli.main",
        "run",
        "--config",
        str(config),
        "--ports-file",
        str(ports_file),
    ]
    env = {KEY_VARIABLE: secrets.token_hex(16), READER_VARIABLE: reader}
    process = Process(command, log=folder / "log", env=env)
    ports = process.wait_until(lambda: read_json_file(ports_file), timeout_s=_READY_TIMEOUT_S, what="ready")
    status = json.loads(fetch(f"http://127.0.0.1:{ports['admin']}/v2/status"))
    assert ports["http"] is not None  # noqa: S101 - configured above
    return Running(process, ports["http"], reader=status["reader"]["name"])


def gateway_config(folder: Path, sink_port: int) -> dict[str, Any]:
    key = {"name": "benchmark", "secret": f"${{env:{KEY_VARIABLE}}}", "managed": ["send-ai-telemetry"]}
    return {
        "data_dir": str(folder / "data"),
        "listen": {"http": "127.0.0.1:0", "grpc": "off", "admin": "127.0.0.1:0", "service": "off"},
        "counting": {"settle": "1s", "metrics_settle": "1s"},
        "upstream": {"base_url": f"http://127.0.0.1:{sink_port}", "keys": [key]},
    }


def collector(folder: Path, sink_port: int, programs: Programs, **choices: bool) -> Running:
    """The collector; *choices* as `collector_config` takes them."""
    port, config = _free_port(), folder / "config.yaml"
    config.write_text(json.dumps(collector_config(folder, port, sink_port, **choices)))
    process = Process(
        [str(programs.collector), "--config", str(config)], log=folder / "log", env={"GOMAXPROCS": str(os.cpu_count())}
    )
    process.wait_until(lambda: _answers(port), timeout_s=_READY_TIMEOUT_S, what="ready")
    return Running(process, port)


def collector_config(
    folder: Path,
    port: int,
    sink_port: int,
    *,
    storage: bool = True,
    fsync: bool = True,
    batched: bool = True,
    transform: bool = False,
) -> dict[str, Any]:
    """*storage*: the queue is on disk, else in memory behind a batch processor; *batched*: the
    queue gathers 256 to 512 KiB for a delivery; *transform*: attributes are renamed, dropped and
    hashed.
    """
    processors = _processors(storage=storage, transform=transform)
    http = {"endpoint": f"127.0.0.1:{port}", "max_request_body_size": MAX_BODY_BYTES}
    pipeline = {"receivers": ["otlp"], "processors": list(processors), "exporters": ["otlp_http"]}
    return {
        "extensions": _extensions(folder, fsync=fsync) if storage else {},
        "receivers": {"otlp": {"protocols": {"http": http}}},
        "processors": processors,
        "exporters": {"otlp_http": _exporter(sink_port, _queue(storage=storage, batched=batched))},
        "service": {
            "extensions": ["file_storage"] if storage else [],
            "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "warn"}},
            "pipelines": {"traces": pipeline},
        },
    }


def _processors(*, storage: bool, transform: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"memory_limiter": {"check_interval": "1s", "limit_mib": 2000, "spike_limit_mib": 400}}
    if transform:
        made["transform"] = {"error_mode": "ignore", "trace_statements": list(_STATEMENTS)}
    if not storage:
        made["batch"] = {"send_batch_size": 1000, "send_batch_max_size": 2000, "timeout": "1s"}
    return made


def _extensions(folder: Path, *, fsync: bool) -> dict[str, Any]:
    spool = str(folder / "spool")
    compaction = {"on_rebound": True, "directory": spool}
    home = {"directory": spool, "create_directory": True, "fsync": fsync, "timeout": "10s", "compaction": compaction}
    return {"file_storage": home}


def _queue(*, storage: bool, batched: bool) -> dict[str, Any]:
    queue: dict[str, Any] = {"enabled": True, "queue_size": QUEUE_BYTES, "sizer": "bytes", "num_consumers": 10}
    queue["block_on_overflow"] = False
    if storage:
        queue["storage"] = "file_storage"
    if storage and batched:
        queue["batch"] = {"sizer": "bytes", "min_size": 256 << 10, "max_size": 512 << 10, "flush_timeout": "1s"}
    return queue


def _exporter(sink_port: int, queue: dict[str, Any]) -> dict[str, Any]:
    """Without compression, as the gateway sends; without an end of retries."""
    retry = {"enabled": True, "initial_interval": "1s", "max_interval": "30s", "max_elapsed_time": 0}
    endpoint = f"http://127.0.0.1:{sink_port}"
    return {"endpoint": endpoint, "compression": "none", "retry_on_failure": retry, "sending_queue": queue}


_STATEMENTS: Final = (
    (
        'set(span.attributes["gen_ai.provider.name"], span.attributes["gen_ai.system"])'
        ' where span.attributes["gen_ai.provider.name"] == nil'
    ),
    'delete_matching_keys(span.attributes, "^(gen_ai\\\\.(input|output)\\\\.messages|gen_ai\\\\.(prompt|completion).*)$")',
    'set(span.attributes["enduser.id"], SHA256(span.attributes["enduser.id"])) where span.attributes["enduser.id"] != nil',
)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _answers(port: int) -> bool | None:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return None


def _product(name: str, what: str, start: Callable[[Path, int, Programs], Running]) -> tuple[str, Product]:
    return name, Product(name, what, start)


PRODUCTS: Final[dict[str, Product]] = dict(
    (
        _product(
            "gateway",
            "the gateway as it ships, with the native extension where it is installed",
            lambda folder, port, programs: gateway(folder, port, reader="auto"),
        ),
        _product(
            "gateway-python",
            "the gateway without the native extension",
            lambda folder, port, programs: gateway(folder, port, reader="python"),
        ),
        _product("collector-durable", "queue in file_storage with fsync, batched by the queue", collector),
        _product(
            "collector-unbatched",
            "the same without the queue's batching, as its documentation shows it",
            lambda folder, port, programs: collector(folder, port, programs, batched=False),
        ),
        _product(
            "collector-transform",
            "durable, and attributes renamed, dropped and hashed by the transform processor",
            lambda folder, port, programs: collector(folder, port, programs, transform=True),
        ),
        _product(
            "collector-nosync",
            "queue in file_storage without fsync, its default: not durable",
            lambda folder, port, programs: collector(folder, port, programs, fsync=False),
        ),
        _product(
            "collector-memory",
            "queue in memory behind a batch processor: not durable",
            lambda folder, port, programs: collector(folder, port, programs, storage=False),
        ),
    )
)
OURS: Final = ("gateway", "gateway-python")
