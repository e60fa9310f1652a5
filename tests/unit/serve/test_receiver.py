"""The receiver: keys, error answers, counts, and the routes that are not OTLP."""

import asyncio
import json
import socket
from pathlib import Path

import aiohttp
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # the package has no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from structlog.testing import capture_logs

from gateway.access.record import KeyRecord
from gateway.access.store import KeyStore
from gateway.common.contract.errors import CannotStart, Overloaded
from gateway.common.contract.intake import Receipt, Sender
from gateway.common.contract.scopes import SEND_AI_TELEMETRY, Fixed, Managed
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.config.loader import load_config
from gateway.config.values import TcpAddress, UnixAddress
from gateway.serve.assembly import build_gate, build_receiver
from gateway.serve.authenticator import IntakeGate, KeyAuthenticator, OpenIntakeAuthenticator
from gateway.serve.body import BodyLimits
from gateway.serve.cors import Cors
from gateway.serve.http.server import make_server
from gateway.serve.listen import listen, runner_for
from gateway.serve.otlp import INGEST_SCOPE
from spool.errors import SpoolError, SpoolFull
from tests.conformance.otlp_http.payloads import JSON, PROTOBUF, Raw, json_traces_body, post, protobuf_body
from tests.conformance.otlp_http.recording import RecordingIntake
from tests.unit.serve.conftest import Serve

Client = aiohttp.ClientSession

BODY = protobuf_body("traces")


async def status_of(client: Client, url: str, **headers: str) -> int:
    sent = {"Content-Type": PROTOBUF, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with client.post(url, data=BODY, headers=sent) as response:
        return response.status


async def test_a_key_with_the_scope_is_let_in_under_its_name(serve: Serve, client: Client, keys: KeyStore) -> None:
    made = await keys.create("team-a", Managed(frozenset({SEND_AI_TELEMETRY})), by="ops@example.com")
    served = await serve(gate=KeyAuthenticator(keys))
    assert await status_of(client, f"{served.url}/v1/traces", Authorization=made.secret.reveal()) == 200
    sender = served.intake.kept[0].sender
    assert sender._replace(product="") == Sender(
        "team-a", "127.0.0.1", counted_as=made.key.key_id, grant=made.key.grant
    )
    assert sender.product.startswith("Python/")


async def test_a_missing_or_unknown_key_is_401_and_says_how_to_authenticate(
    serve: Serve, client: Client, keys: KeyStore
) -> None:
    await keys.create("team-a", Fixed(frozenset({INGEST_SCOPE})), by="ops@example.com")
    served = await serve(gate=KeyAuthenticator(keys))
    for headers in ({}, {"Authorization": "tgk_nonsense"}, {"Authorization": "Basic !"}):
        sent = {"Content-Type": PROTOBUF, **headers}
        async with client.post(f"{served.url}/v1/traces", data=BODY, headers=sent) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
            assert Status.FromString(await response.read()).code == 16
    assert not served.intake.kept


async def test_a_key_without_the_scope_is_403_and_a_disabled_one_401_at_once(
    serve: Serve, client: Client, keys: KeyStore
) -> None:
    made = await keys.create("team-a", Fixed(frozenset({INGEST_SCOPE})), by="ops@example.com")
    served = await serve(gate=KeyAuthenticator(keys))
    secret = made.secret.reveal()
    async with client.post(f"{served.url}/v1/events", json={}, headers={"x-api-key": secret}) as response:
        assert response.status == 403
        assert (await response.json())["error"]["type"] == "forbidden"
    assert await status_of(client, f"{served.url}/v1/traces", api_key=secret) == 200
    await keys.disable("team-a", by="ops@example.com")
    assert await status_of(client, f"{served.url}/v1/traces", api_key=secret) == 401


async def test_intake_is_open_until_the_first_key_exists(serve: Serve, client: Client, keys: KeyStore) -> None:
    gate = IntakeGate(
        any_key_ever=keys.ever_created, opened=OpenIntakeAuthenticator(check_host=True), keyed=KeyAuthenticator(keys)
    )
    served = await serve(gate=gate)
    assert await status_of(client, f"{served.url}/v1/traces") == 200
    await keys.create("team-a", Fixed(frozenset({INGEST_SCOPE})), by="ops@example.com")
    assert await status_of(client, f"{served.url}/v1/traces") == 401
    await keys.delete("team-a", typed_name="team-a")
    assert await status_of(client, f"{served.url}/v1/traces") == 401


class BrokenKeys:
    def authenticate(self, text: str) -> KeyRecord | None:
        raise DatabaseUnavailable("the key database cannot be read")


async def test_a_key_store_that_cannot_be_read_is_503_and_never_401(serve: Serve, client: Client) -> None:
    served = await serve(gate=KeyAuthenticator(BrokenKeys()))
    assert await status_of(client, f"{served.url}/v1/traces", Authorization="tgk_x") == 503
    assert served.receiver.counts.unforeseen == 0


def drains_in(error: SpoolFull, seconds: int) -> SpoolFull:
    error.retry_after_s = seconds
    return error


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [
        (SpoolFull("full"), "30"),
        (drains_in(SpoolFull("full"), 77), "77"),
        (SpoolError("disk"), "5"),
        (Overloaded("busy"), "1"),
        (Overloaded("busy", retry_after_s=4), "4"),
    ],
)
async def test_a_full_spool_asks_the_sender_to_keep_its_data(
    serve: Serve, client: Client, error: Exception, retry_after: str
) -> None:
    served = await serve(intake=RecordingIntake(fail_with=error))
    for content_type, body in ((PROTOBUF, BODY), (JSON, json_traces_body("ab" * 16))):
        async with client.post(
            f"{served.url}/v1/traces", data=body, headers={"Content-Type": content_type}
        ) as response:
            assert response.status == 503
            assert response.headers["Retry-After"] == retry_after
            assert response.headers["Content-Type"] == content_type


async def test_a_full_spool_and_a_body_over_the_limit_leave_one_line_each_that_says_why(
    serve: Serve, client: Client
) -> None:
    served = await serve(
        intake=RecordingIntake(fail_with=SpoolFull("full")), limits=BodyLimits(max_body_bytes=len(BODY))
    )
    with capture_logs() as logs:
        for body in (BODY, BODY, BODY + BODY, BODY + BODY):
            async with client.post(f"{served.url}/v1/traces", data=body, headers={"Content-Type": PROTOBUF}):
                pass
    assert [(line["event"], line["status"], line["reason"], line["route"]) for line in logs] == [
        ("request refused", 503, "spool_full", "/v1/traces"),
        ("request refused", 413, "too_large", "/v1/traces"),
    ]


async def test_an_unforeseen_error_is_retryable_counted_apart_and_quotes_nothing(serve: Serve, client: Client) -> None:
    served = await serve(intake=RecordingIntake(fail_with=ZeroDivisionError("CANARY-7Q-prompt")))
    with capture_logs() as logs:
        async with client.post(f"{served.url}/v1/traces", data=BODY, headers={"Content-Type": PROTOBUF}) as response:
            assert response.status == 503
            assert response.headers["Retry-After"] == "5"
            assert b"CANARY" not in await response.read()
    assert served.receiver.counts.unforeseen == 1
    assert logs[0]["error"] == "ZeroDivisionError"
    assert any("recording.py" in place for place in logs[0]["at"])
    assert "CANARY" not in json.dumps(logs)


async def test_a_key_in_a_malformed_request_is_neither_answered_nor_logged(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve()
    raw = await Raw.connect(served.url)
    with capture_logs() as logs:
        await raw.send(b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nAuthorization: tgk_CANARY-7Q\x00x\r\n\r\n")
        status, _, body = await raw.answer()
    assert status == 400
    assert b"CANARY" not in body
    assert "CANARY" not in caplog.text + json.dumps(logs)
    await raw.close()


async def test_a_warning_is_a_partial_success_that_rejects_nothing(serve: Serve, client: Client) -> None:
    served = await serve(intake=RecordingIntake(warning="no known usage fields found"))
    async with client.post(f"{served.url}/v1/traces", data=BODY, headers={"Content-Type": PROTOBUF}) as response:
        assert response.status == 200
        answer = ExportTraceServiceResponse.FromString(await response.read())
    assert answer.partial_success.rejected_spans == 0
    assert answer.partial_success.error_message == "no known usage fields found"


async def test_answers_are_counted_by_route_and_status(serve: Serve, client: Client) -> None:
    served = await serve()
    for path in ("/v1/traces", "/v1/traces", "/v1/logs", "/nowhere"):
        await status_of(client, served.url + path)
    assert served.receiver.counts.answers == {("/v1/traces", 200): 2, ("/v1/logs", 400): 1, ("none", 404): 1}


async def test_every_path_begins_with_the_base_path(serve: Serve, client: Client) -> None:
    served = await serve(base_path="/otlp/")
    assert await status_of(client, f"{served.url}/otlp/v1/traces") == 200
    assert await status_of(client, f"{served.url}/v1/traces") == 404


async def test_an_absolute_request_target_is_the_same_route(serve: Serve) -> None:
    served = await serve()
    raw = await Raw.connect(served.url)
    await raw.send(post(f"{served.url}/v1/traces", BODY))
    assert (await raw.answer())[0] == 200
    await raw.close()


async def test_a_unix_socket_serves_as_well_and_is_removed(serve: Serve, socket_path: Path) -> None:
    served = await serve(address=UnixAddress(socket_path))
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket_path))) as client:
        assert await status_of(client, "http://localhost/v1/traces") == 200
    assert served.intake.kept[0].sender.peer == "unix"
    await served.listener.close()
    with pytest.raises(OSError, match="No such file"):
        await asyncio.open_unix_connection(socket_path)


async def test_a_socket_file_that_a_killed_process_left_is_replaced(serve: Serve, socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(socket_path))
    await serve(address=UnixAddress(socket_path))
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket_path))) as client:
        assert await status_of(client, "http://localhost/v1/traces") == 200


async def test_a_port_in_use_names_the_option(serve: Serve) -> None:
    served = await serve()
    assert isinstance(served.listener.address, TcpAddress)
    with pytest.raises(CannotStart, match="in use"):
        await serve(address=served.listener.address)


async def test_ipv6_loopback_serves_as_well(serve: Serve, client: Client) -> None:
    served = await serve(address=TcpAddress("::1", 0))
    assert await status_of(client, f"{served.url}/v1/traces") == 200


async def test_without_allowed_origins_a_preflight_says_nothing(serve: Serve, client: Client) -> None:
    served = await serve()
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    async with client.options(f"{served.url}/v1/traces", headers=headers) as response:
        assert not [name for name in response.headers if name.lower().startswith("access-control-")]


async def test_events_are_accepted_as_json_and_ndjson(serve: Serve, client: Client) -> None:
    served = await serve()
    for content_type, body, n in ((JSON, b'{"title":"t"}', 1), ("application/x-ndjson", b'{"a":1}\n{"a":2}\n', 2)):
        async with client.post(
            f"{served.url}/v1/events", data=body, headers={"Content-Type": content_type}
        ) as response:
            assert response.status == 202
            assert await response.json() == {"accepted": n, "rejected": []}
    assert [kept.what for kept in served.intake.kept] == ["events", "events"]


async def test_a_heartbeat_reaches_its_device_by_the_decoded_id(serve: Serve, client: Client) -> None:
    served = await serve()
    raw = await Raw.connect(served.url)
    await raw.send(post("/v1/devices/host%3Aa%2Fb/heartbeat?x=1", b'{"sequence":1}', content_type=JSON))
    assert (await raw.answer())[0] == 202
    assert served.intake.kept[0].what == "heartbeat host:a/b"
    await raw.close()


@pytest.mark.parametrize("headers", ["", "Content-Length: 0\r\n", f"Content-Length: 0\r\nContent-Type: {JSON}\r\n"])
async def test_a_ping_needs_neither_body_nor_content_type(serve: Serve, headers: str) -> None:
    served = await serve()
    raw = await Raw.connect(served.url)
    await raw.send(f"POST /v1/devices/d/ping HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
    assert (await raw.answer())[0] == 202
    assert (served.intake.kept[0].what, served.intake.kept[0].body) == ("ping d", b"")
    await raw.close()


async def test_a_ping_is_refused_from_pages_of_origins_that_are_not_allowed(serve: Serve, client: Client) -> None:
    served = await serve(cors=Cors(frozenset({"https://app.example"})))
    for origin, status in (("https://evil.example", 403), ("null", 403), ("https://app.example", 202)):
        async with client.post(f"{served.url}/v1/devices/d/ping", headers={"Origin": origin}) as response:
            assert response.status == status
    assert len(served.intake.kept) == 1


@pytest.mark.parametrize(
    ("path", "content_type", "body", "status", "kind"),
    [
        ("/v1/events", JSON, b"{", 400, "bad_payload"),
        ("/v1/events", "text/plain", b"{}", 415, "unsupported_media"),
        ("/v1/devices/d/heartbeat", "application/x-ndjson", b"{}", 415, "unsupported_media"),
        ("/v1/devices/d/heartbeat", JSON, b"[]", 400, "bad_payload"),
    ],
)
async def test_errors_outside_otlp_are_json_objects_with_a_kind(
    serve: Serve, client: Client, path: str, content_type: str, body: bytes, status: int, kind: str
) -> None:
    served = await serve()
    async with client.post(served.url + path, data=body, headers={"Content-Type": content_type}) as response:
        assert response.status == status
        error = (await response.json())["error"]
    assert error["type"] == kind
    assert error["message"]


@pytest.mark.parametrize(
    "path", ["/v1/devices//heartbeat", "/v1/devices/a/b/heartbeat", f"/v1/devices/{'d' * 257}/heartbeat"]
)
async def test_a_device_id_is_one_segment_of_bounded_length(serve: Serve, client: Client, path: str) -> None:
    served = await serve()
    async with client.post(served.url + path, json={}) as response:
        assert response.status == 404


async def test_the_answer_of_a_path_that_nobody_serves_names_those_that_are(client: Client, keys: KeyStore) -> None:
    config = load_config(None, {"listen.http": "127.0.0.1:0", "http.base_path": "/in/"}, {})
    gate = build_gate(config, keys)
    listener = await listen(
        runner_for(make_server(build_receiver(config, RecordingIntake(), gate))), config.listen.http
    )
    assert listener is not None
    async with client.post(f"http://{listener.address}/in", json={}) as response:
        assert response.status == 404
        told = await response.text()
    assert "known below /in are v1/traces" in told
    assert "v1/devices, v1/devices/{device_id}/heartbeat, v1/devices/{device_id}/ping and v1/sources/{name}" in told
    for path, meant in (
        ("sources/litelm", "; did you mean 'litellm'?;"),
        ("sources/Langfuse/v1/trace", "; did you mean 'langfuse'?;"),
        ("sources/nothing-like-it", "no such path; known"),
        ("sources", "no such path; known"),
        ("source/litellm", "no such path; known"),
    ):
        async with client.post(f"http://{listener.address}/in/v1/{path}", json={}) as response:
            assert (response.status, meant in await response.text()) == (404, True), path
    await listener.close()


async def test_the_configuration_builds_the_receiver_that_it_describes(client: Client, keys: KeyStore) -> None:
    overrides = {"listen.http": "127.0.0.1:0", "http.base_path": "/in", "limits.max_body_bytes": "1KiB"}
    config = load_config(None, overrides, {})
    intake = RecordingIntake()
    receiver = build_receiver(config, intake, build_gate(config, keys))
    listener = await listen(runner_for(make_server(receiver)), config.listen.http)
    assert listener is not None
    url = f"http://{listener.address}/in/v1/traces"
    assert await status_of(client, url) == 200
    assert await status_of(client, url, Host="evil.example") == 403
    async with client.post(url, data=bytes(1025), headers={"Content-Type": PROTOBUF}) as response:
        assert response.status == 413
    await keys.create("team-a", Fixed(frozenset({INGEST_SCOPE})), by="ops@example.com")
    assert await status_of(client, url) == 401
    assert receiver.figures().answers["/v1/traces", 401] == 1
    await listener.close()


async def test_no_auth_beyond_loopback_takes_any_host(client: Client, keys: KeyStore) -> None:
    config = load_config(None, {"listen.http": "0.0.0.0:0", "auth": "none"}, {})
    receiver = build_receiver(config, RecordingIntake(), build_gate(config, keys))
    listener = await listen(runner_for(make_server(receiver)), TcpAddress("127.0.0.1", 0), receiver)
    assert listener is not None
    assert await status_of(client, f"http://{listener.address}/v1/traces", Host="gateway.example") == 200
    await listener.close()


class SlowIntake(RecordingIntake):
    """Keeps a payload only when asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()

    async def traces(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        self.entered.set()
        await self.go_on.wait()
        return await super().traces(body, json=json, sender=sender)


async def test_a_sender_that_goes_away_after_its_body_has_it_kept_once(serve: Serve) -> None:
    intake = SlowIntake()
    served = await serve(intake=intake)
    raw = await Raw.connect(served.url)
    await raw.send(post("/v1/traces", BODY))
    await intake.entered.wait()
    raw.writer.transport.abort()
    intake.go_on.set()
    other = await Raw.connect(served.url)
    await other.send(post("/v1/traces", BODY))
    assert (await other.answer())[0] == 200
    assert [kept.body for kept in intake.kept] == [BODY, BODY]
    await other.close()


async def accepts(url: str) -> bool:
    try:
        await (await Raw.connect(url)).close()
    except OSError:
        return False
    return True


async def test_a_request_under_way_is_answered_when_the_listener_closes(serve: Serve) -> None:
    intake = SlowIntake()
    served = await serve(intake=intake)
    raw = await Raw.connect(served.url)
    await raw.send(post("/v1/traces", BODY))
    await intake.entered.wait()
    closing = asyncio.create_task(served.listener.close())
    while await accepts(served.url):
        assert not closing.done()
    intake.go_on.set()
    assert (await raw.answer())[0] == 200
    await closing
    assert len(intake.kept) == 1
    await raw.close()
