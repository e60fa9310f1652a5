"""Every receiver, over real sockets and with real keys: who is let in, who is refused how,
and what of that is remembered.
"""

import hashlib
import hmac
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from structlog.testing import capture_logs

from gateway.access.key import SERVICE_PREFIX, mint
from gateway.access.store import KeyStore
from gateway.common.contract.errors import Forbidden, Unauthenticated
from gateway.common.contract.scopes import CATALOGUE, EVENT_SCOPE, HEARTBEAT_SCOPE, Fixed
from gateway.config.loader import load_config
from gateway.config.values import TcpAddress
from gateway.observability.refusals import MAX_ENTRIES, MAX_QUIET, QUIET_MS, RefusedRequests
from gateway.products.catalogue import SOURCES
from gateway.serve.assembly import build_gate, build_receiver
from gateway.serve.authenticator import Authenticator, KeyAuthenticator
from gateway.serve.http.server import make_server
from gateway.serve.http.sources import SourceAccess, source_routes
from gateway.serve.listen import listen, runner_for
from gateway.serve.otlp import INGEST_SCOPE
from gateway.serve.recent_senders import HOUR_MS, MAX_PATHS, RecentSender, RecentSenders, product_of
from tests.conformance.otlp_http.payloads import JSON, PROTOBUF, Raw, protobuf_body
from tests.conformance.otlp_http.recording import RecordingIntake
from tests.support.polling import until_true
from tests.unit.serve.conftest import Serve, Served

BY = "ops@example.com"
ALL_SCOPES = frozenset(scope.name for scope in CATALOGUE)
OTLP = [(f"/v1/{signal}", INGEST_SCOPE, PROTOBUF, protobuf_body(signal)) for signal in ("traces", "logs", "metrics")]
RECEIVERS = [
    *OTLP,
    ("/v1/events", EVENT_SCOPE, JSON, b"{}"),
    ("/v1/devices/d/heartbeat", HEARTBEAT_SCOPE, JSON, b"{}"),
    *((f"/v1/sources/{name}", INGEST_SCOPE, JSON, b"{}") for name in SOURCES),
    *((path, INGEST_SCOPE, JSON, b"{}") for source in SOURCES.values() for path in source.native_paths),
    ("/v1/sources/vercel/v1/traces", INGEST_SCOPE, PROTOBUF, protobuf_body("traces")),
]

Client = aiohttp.ClientSession
Start = Callable[..., Awaitable[Served]]


@pytest.fixture
def start(serve: Serve) -> Start:
    """Start a receiver with every route that there is."""

    async def begin(
        gate: Authenticator | None = None, access: Mapping[str, SourceAccess] | None = None, **options: Any
    ) -> Served:
        return await serve(
            gate=gate,
            further=lambda *parts: source_routes(tuple(SOURCES.values()), access or {}, *parts),
            **options,
        )

    return begin


async def made(keys: KeyStore, name: str, *scopes: str) -> str:
    created = await keys.create(name, Fixed(frozenset(scopes) or ALL_SCOPES), by=BY)
    return created.secret.reveal()


async def asked(
    client: Client, url: str, body: bytes = b"{}", content_type: str = JSON, **headers: str
) -> tuple[int, str]:
    sent = {"Content-Type": content_type} | {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.post(url, data=body, headers=sent) as response:
        if response.status == 401:
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
        if response.status == 503:
            assert response.headers["Retry-After"] == "5"
        return response.status, (await response.read()).decode(errors="replace")


@pytest.mark.parametrize(("path", "scope", "content_type", "body"), RECEIVERS)
async def test_every_receiver_asks_for_a_key_with_its_scope(
    start: Start, client: Client, keys: KeyStore, path: str, scope: str, content_type: str, body: bytes
) -> None:
    good, lacking = await made(keys, "good", scope), await made(keys, "lacking", *(ALL_SCOPES - {scope}))
    disabled, deleted = await made(keys, "disabled"), await made(keys, "deleted")
    await keys.disable("disabled", by=BY)
    await keys.delete("deleted", typed_name="deleted")
    foreign = mint(SERVICE_PREFIX, lambda n: bytes(range(n))).secret.reveal()
    served = await start(KeyAuthenticator(keys))
    url = served.url + path
    assert (await asked(client, url, body, content_type))[0] == 401
    for wrong in (disabled, deleted, foreign, good[:-1], good.swapcase(), "Bearer", good + good):
        status, answer = await asked(client, url, body, content_type, Authorization=wrong)
        assert (status, wrong in answer) == (401, False), wrong[:4]
    status, answer = await asked(client, url, body, content_type, Authorization=good, x_api_key=lacking)
    assert status == 401
    assert "two API keys that differ" in answer
    status, answer = await asked(client, url, body, content_type, Authorization=lacking)
    assert (status, scope in answer) == (403, True)
    assert served.intake.kept == []
    assert (await asked(client, url, body, content_type, Authorization=good))[0] in {200, 202, 207}
    assert [kept.sender.key for kept in served.intake.kept] == ["good"]
    await keys.disable("good", by=BY)
    assert (await asked(client, url, body, content_type, Authorization=good))[0] == 401
    await keys.close()
    assert (await asked(client, url, body, content_type, Authorization=good))[0] == 503, "a fault of ours is never 401"
    assert len(served.intake.kept) == 1


@pytest.mark.parametrize("tail", ["", *(f"/v1/{signal}" for signal in ("traces", "logs", "metrics"))])
async def test_a_token_in_the_address_covers_a_sources_otlp_paths_where_it_is_turned_on(
    start: Start, client: Client, keys: KeyStore, tail: str
) -> None:
    secret = await made(keys, "webhook", INGEST_SCOPE)
    served = await start(KeyAuthenticator(keys), {"helicone": SourceAccess(url_token=True)})
    body = protobuf_body(tail.rpartition("/")[2]) if tail else protobuf_body("traces")
    at = f"{served.url}/v1/sources"
    for path in (
        f"/helicone/token/{secret}{tail}",
        f"/helicone{tail}?token={secret}",
        f"/helicone{tail}?a=b&token={secret}",
    ):
        assert (await asked(client, at + path, body, PROTOBUF))[0] == 200, path[:20]
    assert {kept.sender.key for kept in served.intake.kept} == {"webhook"}
    assert (await asked(client, f"{at}/helicone/token/x{secret}{tail}", body, PROTOBUF))[0] == 401
    assert (await asked(client, f"{at}/helicone/token/{secret}{tail}?token=x", body, PROTOBUF))[0] == 401
    assert (await asked(client, f"{at}/litellm{tail}?token={secret}", body, PROTOBUF))[0] == 401
    assert (await asked(client, f"{at}/litellm/token/{secret}{tail}", body, PROTOBUF))[0] == 404


async def test_a_products_own_header_covers_its_otlp_paths(start: Start, client: Client, keys: KeyStore) -> None:
    secret = await made(keys, "hook", INGEST_SCOPE)
    served = await start(KeyAuthenticator(keys))
    for name, status in (("aperture", 200), ("litellm", 401)):
        url = f"{served.url}/v1/sources/{name}/v1/traces"
        assert (await asked(client, url, protobuf_body("traces"), PROTOBUF, x_goog_api_key=secret))[0] == status


async def test_a_signed_request_that_shows_a_key_as_well_needs_both_right(
    start: Start, client: Client, keys: KeyStore
) -> None:
    secret = await made(keys, "webhook", INGEST_SCOPE)
    lacking = await made(keys, "lacking", EVENT_SCOPE)
    served = await start(KeyAuthenticator(keys), {"helicone": SourceAccess(secret="of the webhook", url_token=True)})
    url, right = f"{served.url}/v1/sources/helicone", hmac.new(b"of the webhook", b"{}", hashlib.sha256).hexdigest()

    async def status(signature: str, **headers: str) -> int:
        return (await asked(client, url, Helicone_Signature=signature, **headers))[0]

    assert await status(right) == 200
    assert await status(right.upper()) == 200
    assert await status(f"sha256={right}") == 200
    assert await status(right, Authorization=secret) == 200
    assert [kept.sender.key for kept in served.intake.kept] == [*["signed:helicone"] * 3, "webhook"]
    assert await status(right, Authorization=secret[:-1]) == 401
    assert await status(right, Authorization=lacking) == 403
    assert await status("0" * 64, Authorization=secret) == 401
    assert await status("é" * 64) == 401
    async with client.post(
        url, data=b"{}", headers=[("Helicone-Signature", right), ("Helicone-Signature", "x")]
    ) as two:
        assert two.status == 401, "not the first of two signatures"
    assert len(served.intake.kept) == 4


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/events", "/v1/sources/litellm", "/v1/sources/litellm/v1/traces"])
async def test_a_key_that_is_disabled_while_its_body_comes_keeps_nothing_of_it(
    start: Start, client: Client, keys: KeyStore, path: str
) -> None:
    secret = await made(keys, "team-a")
    served = await start(KeyAuthenticator(keys))

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await until_true(lambda: served.receiver.budget.used_bytes > 0, what="the body begun")
        await keys.disable("team-a", by=BY)
        yield b"}"

    headers = {"Authorization": secret, "Content-Type": JSON}
    async with client.post(served.url + path, data=body(), headers=headers) as response:
        assert response.status == 401
    assert served.intake.kept == []


async def test_the_first_key_holds_also_for_a_body_that_came_on_open_intake(
    client: Client, keys: KeyStore, serve: Serve
) -> None:
    config = load_config(None, {"listen.http": "127.0.0.1:0"}, {})
    served = await serve(gate=build_gate(config, keys))

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await until_true(lambda: served.receiver.budget.used_bytes > 0, what="the body begun")
        await made(keys, "first")
        yield b"}"

    async with client.post(f"{served.url}/v1/traces", data=body(), headers={"Content-Type": JSON}) as response:
        assert response.status == 401
    assert served.intake.kept == []


async def test_a_key_that_is_disabled_is_refused_on_the_connection_that_it_opened(serve: Serve, keys: KeyStore) -> None:
    secret = await made(keys, "team-a")
    served = await serve(gate=KeyAuthenticator(keys))
    raw = await Raw.connect(served.url)
    request = f"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\nContent-Length: 2\r\nAuthorization: {secret}\r\n\r\n{{}}"
    for change, status in ((None, 202), (keys.disable, 401), (keys.enable, 202)):
        if change is not None:
            await change("team-a", by=BY)
        await raw.send(request.encode())
        assert (await raw.answer())[0] == status
    await keys.delete("team-a", typed_name="team-a")
    await raw.send(request.encode())
    assert (await raw.answer())[0] == 401
    await raw.close()


async def test_where_others_reach_the_gateway_no_request_is_let_in_without_a_key_even_before_the_first_one(
    keys: KeyStore,
) -> None:
    for address in ("0.0.0.0:0", "192.0.2.1:4318", "[::]:0"):
        gate = build_gate(load_config(None, {"listen.http": address}, {}), keys)
        with pytest.raises(Unauthenticated):
            gate.admit(CIMultiDict({"Host": "localhost"}), INGEST_SCOPE)
    assert (
        build_gate(load_config(None, {"listen.http": "0.0.0.0:0", "auth": "none"}, {}), keys).admit(
            CIMultiDict({"Host": "any.example"}), INGEST_SCOPE
        )
        is None
    )
    with pytest.raises(Forbidden):
        build_gate(load_config(None, {"listen.http": "127.0.0.1:0", "auth": "none"}, {}), keys).admit(
            CIMultiDict({"Host": "any.example"}), INGEST_SCOPE
        )


# ---- who was there


async def test_open_intake_remembers_who_posted_by_address_and_product_alone(start: Start, client: Client) -> None:
    ticks = itertools.count(1000)
    served = await start(recent=RecentSenders(lambda: next(ticks)))
    otel = {"User-Agent": "OTel-OTLP-Exporter-Python/1.30.0 (secret=CANARY-7Q)", "Authorization": "tgk_CANARY-7Q"}
    for path in ("/v1/traces?token=CANARY-7Q", "/v1/devices/CANARY-7Q/heartbeat", "/v1/traces"):
        await asked(client, served.url + path, **otel)
    await asked(client, f"{served.url}/v1/sources/litellm", User_Agent="litellm/1.2")
    await asked(client, f"{served.url}/v1/sources/litellm", Host="evil.example")
    found = served.receiver.outcomes.recent.last_hour()
    assert [sender[:3] for sender in found] == [
        ("127.0.0.1", "litellm/1.2", ("/v1/sources/litellm",)),
        ("127.0.0.1", "OTel-OTLP-Exporter-Python/1.30.0", ("/v1/devices/{device_id}/heartbeat", "/v1/traces")),
    ]
    assert [sender.requests for sender in found] == [1, 3]
    assert "CANARY" not in repr(found)


async def test_who_shows_a_key_is_not_among_them(start: Start, client: Client, keys: KeyStore) -> None:
    served = await start(KeyAuthenticator(keys))
    await asked(client, f"{served.url}/v1/traces", Authorization=await made(keys, "team-a"))
    await asked(client, f"{served.url}/v1/traces")
    assert served.receiver.outcomes.recent.last_hour() == []


async def test_without_authentication_the_first_key_shuts_nobody_out(client: Client, keys: KeyStore) -> None:
    config = load_config(None, {"listen.http": "127.0.0.1:0", "auth": "none"}, {})
    receiver = build_receiver(config, RecordingIntake(), build_gate(config, keys))
    listener = await listen(runner_for(make_server(receiver)), TcpAddress("127.0.0.1", 0), receiver)
    assert listener is not None
    assert (await asked(client, f"http://{listener.address}/v1/traces"))[0] == 200
    assert receiver.outcomes.recent.last_hour() == []
    await listener.close()


def test_an_hour_later_a_sender_is_forgotten_and_begins_again() -> None:
    now = [0]
    recent = RecentSenders(lambda: now[0], most=2)
    recent.note("10.0.0.1", "a/1", "/v1/traces")
    now[0] = HOUR_MS
    recent.note("10.0.0.2", "", "/v1/logs")
    assert [sender.peer for sender in recent.last_hour()] == ["10.0.0.2", "10.0.0.1"]
    now[0] += 1
    assert [sender.peer for sender in recent.last_hour()] == ["10.0.0.2"]
    recent.note("10.0.0.1", "a/2", "/v1/traces")
    assert recent.last_hour()[0] == RecentSender("10.0.0.1", "a/2", ("/v1/traces",), HOUR_MS + 1, 1)
    for n in range(100):
        recent.note("10.0.0.3", "c", f"/v1/{n}")
    assert len(recent.last_hour()) == 2, "bounded, whoever posts"
    assert (len(recent.last_hour()[0].paths), recent.last_hour()[0].requests) == (MAX_PATHS, 100)


@pytest.mark.parametrize(
    ("user_agent", "product"),
    [
        ("litellm/1.2.3 (CANARY)", "litellm/1.2.3"),
        ("", ""),
        (" x", ""),
        ("(comment)", ""),
        ("OTel-OTLP-Exporter-Python/1.30.0b0", "OTel-OTLP-Exporter-Python/1.30.0"),
        ("OTel OTLP Exporter Java/1.30.0", "OTel"),
        ("python-urllib3/2.31", "python-urllib3/2.31"),
        ("Go-http-client/1.1", "Go-http-client/1.1"),
        ("opentelemetry-collector-contrib", "opentelemetry-collector-contrib"),
        ("a/\x1b[31m", "a"),
        ("a\x1b[31m", ""),
        ("é", ""),
        ("x" * 500, ""),
        ("-".join(["x" * 24] * 4), ""),
        ("CANARY-7Q-prompt", ""),
        ("sdk/CANARY-7Q", "sdk"),
        ("sdk/12345678901234567890", "sdk"),
        ("sk-proj-Ab3dEfGhIjKlMnOpQr", ""),
        ("tgk_0123456789_" + "s" * 43 + "_abcdef", ""),
        ("sdk/tgk_0123456789_" + "s" * 43, "sdk"),
    ],
)
def test_of_a_user_agent_its_first_product_is_kept_and_nothing_like_a_key(user_agent: str, product: str) -> None:
    assert product_of(user_agent) == product


# ---- why nothing arrives


async def test_refusals_are_reported_to_the_operator_by_reason_and_without_what_was_shown(
    start: Start, client: Client, keys: KeyStore
) -> None:
    lacking = await made(keys, "events only", EVENT_SCOPE)
    served = await start(KeyAuthenticator(keys), {"helicone": SourceAccess(secret="of the webhook")})
    with capture_logs() as logs:
        for n in range(3):
            await asked(client, f"{served.url}/v1/traces", Authorization=f"tgk_CANARY-7Q{n}")
        await asked(client, f"{served.url}/v1/traces")
        await asked(client, f"{served.url}/v1/traces", Authorization=lacking)
        await asked(client, f"{served.url}/v1/traces", Authorization=lacking, api_key="CANARY-7Q")
        await asked(client, f"{served.url}/v1/trace/CANARY-7Q?token=CANARY-7Q")
        await asked(client, f"{served.url}/v1/sources/helicone", Helicone_Signature="CANARY-7Q")
        await asked(client, f"{served.url}/v1/sources/kong", Origin="https://CANARY-7Q.example")
        async with client.get(f"{served.url}/v1/events") as response:
            assert response.status == 405
        raw = await Raw.connect(served.url)
        await raw.send(b"POST /v1/traces HTTP/1.1\r\nAuthorization: CANARY-7Q\x00\r\n\r\n")
        assert (await raw.answer())[0] == 400
        await raw.close()
    told = served.receiver.refused.status()
    assert [(x["status"], x["reason"], x["route"], x["requests"], x["last_key"]) for x in told] == [
        (400, "malformed_http", "none", 1, None),
        (405, "method_not_allowed", "/v1/events", 1, None),
        (403, "foreign_origin", "/v1/sources/kong", 1, None),
        (401, "signature_wrong", "/v1/sources/helicone", 1, None),
        (404, "not_found", "none", 1, None),
        (401, "keys_differ", "/v1/traces", 1, None),
        (403, "scope_missing", "/v1/traces", 1, "events only"),
        (401, "no_key", "/v1/traces", 1, None),
        (401, "key_unknown_or_disabled", "/v1/traces", 3, None),
    ]
    assert {x["last_peer"] for x in told} == {"127.0.0.1"}
    assert "CANARY" not in json.dumps(told) + json.dumps(logs)
    assert lacking not in json.dumps(told) + json.dumps(logs)
    assert [entry["reason"] for entry in logs].count("key_unknown_or_disabled") == 1, "one line, not one a request"


def test_refusals_are_bounded_and_logged_now_and_then() -> None:
    now = [0]
    refused = RefusedRequests(lambda: now[0])
    with capture_logs() as logs:
        for _ in range(5):
            refused.note(401, "no_key", "/v1/traces", "10.0.0.1")
            now[0] += QUIET_MS // 4
    assert len(logs) == 2
    for n in range(2 * MAX_ENTRIES):
        refused.note(400, f"reason {n}", "/v1/traces", "10.0.0.1")
    assert len(refused.status()) == MAX_ENTRIES
    assert refused.status()[0]["reason"] == f"reason {2 * MAX_ENTRIES - 1}"


def test_one_who_is_refused_everywhere_in_turn_gets_no_line_for_each_request() -> None:
    refused = RefusedRequests(lambda: 0)
    with capture_logs() as logs:
        for _ in range(3):
            for n in range(2 * MAX_ENTRIES):
                refused.note(401, "no_key", f"/v1/sources/{n}", "10.0.0.1")
        assert len(logs) == 2 * MAX_ENTRIES
        for n in range(MAX_QUIET):
            refused.note(404, "not_found", f"/{n}", "10.0.0.1")
    assert len(logs) == MAX_QUIET, "what is remembered of them is bounded too"
