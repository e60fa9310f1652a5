"""Who sends, as `GET /v2/senders`, the page and the command have it: by key, format, service and
product, over a restart.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.common.contract.scopes import INGEST_SCOPE, Fixed
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess
from tests.support.grpc_calls import TRACES
from tests.support.metrics import attributes
from tests.support.running_gateway import running_gateway
from tests.support.spans import call_span

PROTOBUF = {"Content-Type": "application/x-protobuf"}
PYTHON = "OTel-OTLP-Exporter-Python/1.30.0"
CORPUS = Path(__file__).parents[1] / "data/corpus/gateways"


def silent_call(name: str) -> bytes:
    """A call that succeeded and states no tokens, beside a span that is no AI work."""
    request = ExportTraceServiceRequest.FromString(call_span(name, (1, 1), resource={"service.name": "app"}))
    (span,) = request.resource_spans[0].scope_spans[0].spans
    kept = [each for each in span.attributes if "usage" not in each.key]
    del span.attributes[:]
    span.attributes.extend(kept)
    plain = request.resource_spans[0].scope_spans[0].spans.add()
    plain.CopyFrom(span)
    del plain.attributes[:]
    plain.attributes.extend(attributes({"http.method": "GET"}))
    plain.span_id = bytes(reversed(span.span_id))
    return request.SerializeToString()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    any_port = "127.0.0.1:0"
    listen = {"http": any_port, "grpc": any_port, "admin": any_port, "service": any_port}
    with GatewayProcess(tmp_path_factory.mktemp("senders"), config={"listen": listen}) as gateway:
        agent = {**PROTOBUF, "User-Agent": PYTHON}
        url = gateway.intake_url
        assert httpx.post(f"{url}/v1/traces", content=call_span("one", (5, 2)), headers=agent).status_code == 200
        assert httpx.post(f"{url}/v1/traces", content=silent_call("two"), headers=agent).status_code == 200
        assert httpx.post(f"{url}/v1/traces", content=b"\xff", headers=agent).status_code == 400
        with grpc.insecure_channel(gateway.grpc_target) as channel:
            body = call_span("three", (5, 2), resource={"service.name": "batch"})
            channel.unary_unary(TRACES)(body, timeout=30)
        litellm = json.loads((CORPUS / "litellm/generic_api_anthropic_nonstream.json").read_text())
        assert httpx.post(f"{url}/v1/sources/litellm", json=litellm).status_code == 200
        yield gateway


def listed(gateway: GatewayProcess) -> dict[tuple[str, str | None], dict[str, Any]]:
    """(format, service) -> item."""
    token = (gateway.data_dir / "admin-token").read_text().strip()
    answer = httpx.get(f"{gateway.admin_url}/v2/senders", headers={"Authorization": token}).json()
    return {(each["format"], each["service_name"]): each for each in answer["senders"]}


def test_each_sender_is_known_by_format_service_and_product(gateway: GatewayProcess) -> None:
    found = listed(gateway)
    app = found["otlp.traces", "app"]
    assert (app["key"], app["product"]) == (None, PYTHON)
    assert (app["requests"], app["items"], app["calls"], app["calls_without_usage"]) == (2, 3, 2, 1)
    assert app["share_without_usage"] == 0.5
    assert [(each["reason"], each["requests"]) for each in app["refusals"]] == [("bad_payload", 1)]
    batch = found["otlp.traces", "batch"]
    assert batch["product"].startswith("grpc-python/")
    assert (batch["requests"], batch["calls"], batch["refused"]) == (1, 1, 0)
    (litellm,) = (each for (kind, _), each in found.items() if kind == "litellm")
    assert (litellm["requests"], litellm["calls"]) == (1, 1)


def test_the_command_lists_them_in_80_columns(gateway: GatewayProcess) -> None:
    ended = run_command(gateway, "senders")
    assert ended.code == 0, ended.err
    assert "3 of 3 senders\nA call that two of them report counts for each, and once in `usage`." in ended.out
    assert max(map(len, ended.out.splitlines()[:4])) <= 80
    refused = run_command(gateway, "senders", "--warning", "refused", "--json").json["senders"]
    assert [each["service_name"] for each in refused] == ["app"]


def test_the_page_names_what_is_wrong_and_what_to_do(gateway: GatewayProcess) -> None:
    token = (gateway.data_dir / "admin-token").read_text().strip()
    page = httpx.get(f"{gateway.admin_url}/senders", headers={"Authorization": token}).text
    assert "requests are refused: bad_payload" in page
    assert "Its data cannot be read" in page
    assert PYTHON in page
    assert "If two senders report the same call, it counts for each of them here, and once in Explore." in page


def test_a_restart_forgets_nothing_and_a_stopped_gateway_is_asked_by_its_file(gateway: GatewayProcess) -> None:
    before = listed(gateway)
    assert gateway.stop() == 0
    offline = run_command(gateway, "senders", "--json").json["senders"]
    assert {each["id"] for each in offline} == {each["id"] for each in before.values()}
    gateway.start()
    after = listed(gateway)
    for each in (*before.values(), *after.values()):
        del each["silent_s"]
    assert after == before


def test_doctor_names_who_leaves_usage_out_with_the_remedy(gateway: GatewayProcess) -> None:
    for number in range(25):
        httpx.post(f"{gateway.intake_url}/v1/traces", content=silent_call(f"more-{number}"), headers=PROTOBUF)
    ended = run_command(gateway, "doctor", "--json")
    found = [each for each in ended.json["findings"] if "report no tokens" in each["text"]]
    assert [each["level"] for each in found] == ["warning"]
    assert found[0]["text"].startswith("app (otlp.traces)")
    assert "stream_options.include_usage" in found[0]["remedy"]


async def test_a_key_is_named_and_a_request_without_one_is_listed_separately(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as running, httpx.AsyncClient() as client:
        created = await running.keys.create("team-search", Fixed(frozenset({INGEST_SCOPE})), by="a@example.com")
        url = f"http://{running.ports.http}/v1/traces"
        with_key = {**PROTOBUF, "Authorization": created.secret.reveal(), "User-Agent": PYTHON}
        await client.post(url, content=call_span("one", (5, 2)), headers=with_key)
        bad = {**PROTOBUF, "Authorization": "sk-secret-of-someone", "User-Agent": "sk-secret-of-someone/1"}
        refused = await client.post(url, content=call_span("one", (5, 2)), headers=bad)
        assert refused.status_code == 401
        known = running.receiver.outcomes.senders.known
        assert [(x.key, x.service, x.product) for x in known] == [("team-search", "app", PYTHON), (None, None, "")]
        assert "sk-secret" not in str(known)


def failed_call(name: str) -> bytes:
    """A stream that began to answer, failed, and states no tokens."""
    request = ExportTraceServiceRequest.FromString(silent_call(name))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.status.code = span.status.STATUS_CODE_ERROR
    span.attributes.extend(attributes({"error.type": "timeout", "gen_ai.response.id": f"chatcmpl-{name}"}))
    return request.SerializeToString()


def usage_of(gateway: GatewayProcess) -> dict[str, Any]:
    totals: dict[str, Any] = run_command(gateway, "usage", "--from", "2020-01-01", "--json").json["totals"]
    return totals


@pytest.mark.parametrize("reader", ["native", "python"])
def test_repeats_and_failed_calls_count_for_a_sender_as_they_do_for_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setenv("TELEMETRY_GATEWAY_READER", "python" if reader == "python" else "auto")
    any_port = "127.0.0.1:0"
    listen = {"http": any_port, "grpc": any_port, "admin": any_port, "service": any_port}
    config = {"listen": listen, "counting": {"settle": "0s"}}
    with GatewayProcess(tmp_path, config=config) as gateway:
        assert reader in (gateway.status()["reader"]["name"], "native"), "native where it is installed"
        url = f"{gateway.intake_url}/v1/traces"
        named = {"service.name": "app"}
        for n in range(30):
            body = call_span(f"call {n}", (5, 2), resource=named)
            for _ in range(1 + n % 3):
                assert httpx.post(url, content=body, headers=PROTOBUF).status_code == 200
        for n in range(10):
            assert httpx.post(url, content=failed_call(f"failed {n}"), headers=PROTOBUF).status_code == 200
        assert httpx.post(url, content=silent_call("silent"), headers=PROTOBUF).status_code == 200
        gateway.wait_until_delivered(at_least=41)
        (app,) = listed(gateway).values()
        totals = usage_of(gateway)
        assert (app["calls"], app["requests"]) == (totals["calls"], 71)
        assert app["calls"] == 41
        assert (totals["failed_calls"], totals["calls_without_usage"]) == (10, 11)
        assert (app["calls_without_usage"], totals["calls_missing_usage"], app["warnings"]) == (1, 1, [])
        assert gateway.stop() == 0
