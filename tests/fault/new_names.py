"""A sender whose every request has names that no one had before, in every format:
`python -m tests.fault.new_names --minutes 20`.

Spans, log records, series, rows of LiteLLM, usage events and devices, each with its own models,
providers, services, users, scopes and attributes, sent to a gateway on loopback, one after the
other. Prints a line of JSON for each minute: requests, names of each kind, resident memory and
answers other than 2xx. Exit code 1 where memory still grew in the last third by more than
`GROWN_MIB`, or where a request was refused that is not a device above their limit. Ends by itself.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.common.wall_clock import wall_ms
from tests.support.device_senders import heartbeat
from tests.support.gateway_process import GatewayProcess
from tests.support.metrics import Export
from tests.support.otlp_bytes import attribute, field, fixed64
from tests.support.peak_memory import MIB, processes_of, status_bytes

ITEMS: Final = 25
"""Of one request, each with names of its own."""
GROWN_MIB: Final = 24
TOO_MANY_DEVICES: Final = "429 device"
"""A key may bring up only so many devices that are new."""
EVERY_S: Final = 60.0
HEADERS: Final = {"Content-Type": "application/x-protobuf"}
JSON: Final = {"Content-Type": "application/json"}
NAMED: Final = (b"gen_ai.request.model", b"gen_ai.response.model", b"gen_ai.provider.name", b"user.id", b"session.id")


def attributes_of(number: int, name: bytes) -> bytes:
    """Of a call whose names all have *name* in them."""
    named = b"".join(attribute(number, key, field(1, key[-8:] + name)) for key in (*NAMED, b"of." + name))
    return named + attribute(number, b"gen_ai.usage.input_tokens", b"\x18\x07")


def resource_of(name: bytes, scoped: bytes) -> bytes:
    resource = field(1, attribute(1, b"service.name", field(1, b"service" + name)))
    return field(1, resource + field(2, field(1, field(1, b"scope" + name)) + scoped))


def spans(numbers: range) -> tuple[str, bytes, dict[str, str]]:
    now_ns = wall_ms() * 10**6
    times = fixed64(7, now_ns - 10**9) + fixed64(8, now_ns)
    ids = [(b"%07d" % n, field(1, b"%016d" % n) + field(2, b"%08d" % n)) for n in numbers]
    return "/v1/traces", b"".join(resource_of(n, field(2, i + times + attributes_of(9, n))) for n, i in ids), HEADERS


def log_records(numbers: range) -> tuple[str, bytes, dict[str, str]]:
    times = fixed64(1, wall_ms() * 10**6)
    kind = field(5, field(1, b"gen_ai.client.inference.operation.details"))
    names = [b"%07d" % n for n in numbers]
    return "/v1/logs", b"".join(resource_of(n, field(2, times + kind + attributes_of(6, n))) for n in names), HEADERS


def series(numbers: range) -> tuple[str, bytes, dict[str, str]]:
    now_s = wall_ms() // 1000
    export = Export(scope=f"meter {numbers[0]}", resource={"service.name": f"metered {numbers[0]}"})
    for n in numbers:
        export.point(7, "input", labels={"gen_ai.request.model": f"series {n}"}, start=now_s - 60, at=now_s)
    return "/v1/metrics", export.body, HEADERS


def rows(numbers: range) -> tuple[str, bytes, dict[str, str]]:
    now_s = wall_ms() / 1000
    lines = [
        {
            "id": f"row {n}", "call_type": "acompletion", "model": f"model {n}", "custom_llm_provider": f"provider {n}",
            "startTime": now_s - 1, "endTime": now_s, "prompt_tokens": 7, "completion_tokens": 1, "end_user": f"user {n}",
        }
        for n in numbers
    ]  # fmt: skip
    return "/v1/sources/litellm", json.dumps(lines).encode(), JSON


def events(numbers: range) -> tuple[str, bytes, dict[str, str]]:
    return "/v1/events", json.dumps([{"title": f"title {n}", "source": f"source {n}"} for n in numbers]).encode(), JSON


def device(numbers: range) -> tuple[str, bytes, dict[str, str]]:
    message = heartbeat(f"device {numbers[0]}", instance=f"instance {numbers[0]}")
    return message.path, message.body, JSON


FORMATS: Final[tuple[Callable[[range], tuple[str, bytes, dict[str, str]]], ...]] = (
    spans, log_records, series, rows, events, device,
)  # fmt: skip


def rest_mib(pid: int) -> int:
    """Of the gateway and its processes."""
    return sum(status_bytes(each, "VmRSS") for each in processes_of(pid).values()) // MIB


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.new_names", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    given = parser.parse_args()
    seen_mib: list[int] = []
    refused: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, GatewayProcess(Path(folder)) as gateway:
        connection = HTTPConnection(urlsplit(gateway.intake_url).netloc, timeout=120)
        ends_s = time.monotonic() + given.minutes * 60
        shown_s = 0.0
        for request in count():
            now_s = time.monotonic()
            if now_s - shown_s >= EVERY_S or now_s >= ends_s:
                shown_s = now_s
                seen_mib.append(rest_mib(gateway.process.pid))
                line = {"requests": request, "names": request * ITEMS // len(FORMATS), "mib": seen_mib[-1]}
                sys.stdout.write(json.dumps(line | {"refused": dict(refused)}) + "\n")
                sys.stdout.flush()
            if now_s >= ends_s:
                break
            make = FORMATS[request % len(FORMATS)]
            path, body, headers = make(range(request * ITEMS, (request + 1) * ITEMS))
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status >= 300:
                refused[f"{answer.status} {make.__name__}"] += 1
    last_third = seen_mib[-max(2, len(seen_mib) // 3) :]
    has_grown = max(last_third) - last_third[0] > GROWN_MIB
    return 1 if has_grown or set(refused) - {TOO_MANY_DEVICES} else 0


if __name__ == "__main__":
    sys.exit(main())
