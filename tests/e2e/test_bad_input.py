"""Bodies that cannot be read, against the running gateway: the right 4xx with a Status
body, and nothing half stored.
"""

import gzip
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.support.gateway_process import GatewayProcess, broken_identities

MIB = 1 << 20
GOOD_ATTRIBUTES = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"}


class Answer(NamedTuple):
    status: int
    body: bytes


def post(url: str, body: bytes, content_type: str = "application/x-protobuf", encoding: str = "") -> Answer:
    headers = {"Content-Type": content_type} | ({"Content-Encoding": encoding} if encoding else {})
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as response:
            return Answer(response.status, response.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.read())


def request_of(spans: int) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for n in range(spans):
        span = scope.spans.add(
            trace_id=bytes([n + 1] * 16),
            span_id=bytes([n + 1] * 8),
            start_time_unix_nano=1_760_000_000_000_000_000,
            end_time_unix_nano=1_760_000_001_000_000_000,
        )
        for key, value in GOOD_ATTRIBUTES.items():
            span.attributes.add(key=key).value.string_value = value
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 10
        span.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = 5
    return request


def nested(depth: int) -> bytes:
    request = request_of(1)
    value: AnyValue = request.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="deep").value
    for _ in range(depth):
        value = value.array_value.values.add()
    value.string_value = "bottom"
    return request.SerializeToString()


def bomb() -> bytes:
    """1 GiB of zeros in 10 KiB: gzip of gzip would be two steps, so one of the
    highest ratio that one step has.
    """
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    out = [compressor.compress(bytes(MIB)) for _ in range(1024)]
    return b"".join(out) + compressor.flush()


GOOD = request_of(3).SerializeToString()
BAD_TEXT = GOOD.replace(b"gpt-4o", b"gp\xff-4o")

BAD = {
    "truncated protobuf": (GOOD[:-7], "application/x-protobuf", "", 400),
    "truncated gzip": (gzip.compress(GOOD)[:-9], "application/x-protobuf", "gzip", 400),
    "no gzip at all": (GOOD, "application/x-protobuf", "gzip", 400),
    "invalid UTF-8": (BAD_TEXT, "application/x-protobuf", "", 400),
    "invalid UTF-8 in JSON": (b'{"resourceSpans":[{"schemaUrl":"\xff"}]}', "application/json", "", 400),
    "deep nesting": (nested(150), "application/x-protobuf", "", 400),
    "deep nesting in JSON": (b"[" * 100_000, "application/json", "", 400),
    "truncated JSON": (b'{"resourceSpans":[{', "application/json", "", 400),
    "wrong content type": (GOOD, "text/plain", "", 415),
    "unknown coding": (GOOD, "application/x-protobuf", "snappy", 415),
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("bad-input")) as running:
        yield running


def status_of(answer: Answer, content_type: str) -> str:
    """The message of the answer's google.rpc.Status, in the request's encoding
    (JSON where that is none).
    """
    if content_type == "application/x-protobuf":
        try:
            return Status.FromString(answer.body).message
        except DecodeError:
            pytest.fail(f"not a Status: {answer.body!r}")
    assert answer.body.startswith(b"{")
    return answer.body.decode()


@pytest.mark.parametrize("name", BAD)
def test_a_body_that_cannot_be_read_is_refused_whole(gateway: GatewayProcess, name: str) -> None:
    body, content_type, encoding, wanted = BAD[name]
    before = gateway.status()["edge"]
    answer = post(f"{gateway.intake_url}/v1/traces", body, content_type, encoding)
    assert answer.status == wanted
    message = status_of(answer, content_type)
    assert message
    assert "gpt" not in message
    assert gateway.status()["edge"] == before, "nothing of it is counted or kept"


def test_an_empty_body_is_an_empty_request(gateway: GatewayProcess) -> None:
    assert post(f"{gateway.intake_url}/v1/traces", b"") == Answer(200, b"")
    assert post(f"{gateway.intake_url}/v1/traces", b"{}", "application/json") == Answer(200, b"{}")
    assert post(f"{gateway.intake_url}/v1/traces", b"", "application/json").status == 400


def test_a_gzip_bomb_is_refused_in_bounded_memory(gateway: GatewayProcess) -> None:
    body = bomb()
    assert len(body) < 2 * MIB
    process = psutil.Process(gateway.process.pid)
    before = process.memory_info().rss
    assert post(f"{gateway.intake_url}/v1/traces", body, encoding="gzip").status == 413
    peak = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmHWM" in line)
    assert int(peak.split()[1]) * 1024 < before + 160 * MIB, peak


def test_after_all_that_a_good_request_is_kept_and_delivered(gateway: GatewayProcess) -> None:
    assert post(f"{gateway.intake_url}/v1/traces", GOOD) == Answer(200, b"")
    status = gateway.wait_until_delivered(at_least=3)
    assert not broken_identities(status)
    assert gateway.summary()["totals"]["calls"] == 3
    assert gateway.process.returncode() is None
