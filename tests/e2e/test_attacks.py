"""The running gateway under attack: headers and framing over raw sockets, foreign pages at the
admin port, keys in every place of a request.
"""

import asyncio
import base64
import http.client
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from benchmarks.processes import ProcessFailed
from benchmarks.scenario import fetch
from gateway.access.key import GATEWAY_PREFIX, SERVICE_PREFIX, mint
from gateway.access.limits import RateLimits
from gateway.common.contract.scopes import EVENT_SCOPE, Fixed
from gateway.operate.session import COOKIE, TOKEN_FILES
from gateway.serve.otlp import INGEST_SCOPE
from tests.support.corpus import CORPUS
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.keys_beside import keys_beside
from tests.support.polling import HANGS_S
from tests.support.spans import call_span

KONG = (CORPUS / "gateways/kong/http_log_single.json").read_bytes()
HELICONE_SECRET = "CANARY-7Q-of-the-webhook"


class Made(NamedTuple):
    good: str
    lacking: str
    disabled: str
    deleted: str


async def make_keys(data_dir: Path) -> Made:
    async with keys_beside(data_dir) as keys:

        async def made(name: str, scope: str) -> str:
            created = await keys.create(
                name, Fixed(frozenset({scope})), by="ops@example.com", labels={"team": "alpha", "cost_center": "4711"}
            )
            return created.secret.reveal()

        found = Made(
            await made("good", INGEST_SCOPE),
            await made("lacking", EVENT_SCOPE),
            await made("disabled", INGEST_SCOPE),
            await made("deleted", INGEST_SCOPE),
        )
        await keys.disable("disabled", by="ops@example.com")
        await keys.delete("deleted", typed_name="deleted")
        return found


class Running(NamedTuple):
    gateway: GatewayProcess
    keys: Made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("attacks")
    secret = folder / "helicone"
    secret.write_text(HELICONE_SECRET)
    sources = {"helicone": {"secret": f"${{file:{secret}}}", "url_token": True}}
    gateway = GatewayProcess(folder, config={"sources": sources})
    keys = asyncio.run(make_keys(gateway.data_dir))
    with gateway:
        yield Running(gateway, keys)


class Answers(NamedTuple):
    statuses: list[int]
    text: bytes
    is_closed: bool


def talk(url: str, *sent: bytes) -> Answers:
    """Every answer to what is sent on one connection, which is then half closed."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=HANGS_S) as connection:
        received = b""
        try:
            for part in sent:
                connection.sendall(part)
            while not complete(received, has_body=not sent[-1].startswith(b"HEAD ")) and (
                more := connection.recv(65536)
            ):
                received += more
            connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(65536):
                received += more
        except ConnectionError:
            pass
    statuses = [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3})", received)]
    return Answers(statuses, received, is_closed=b"connection: close" in received.lower() or b"HTTP/1.0" in received)


def complete(received: bytes, *, has_body: bool) -> bool:
    """Whether an answer is there with all of its body."""
    head, blank, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return bool(blank) and (length is None or not has_body or len(body) >= int(length[1]))


def request(  # one header or body at a time is odd
    *headers: str,
    path: str = "/v1/traces",
    method: str = "POST",
    body: str = "{}",
    length: str | None = "Content-Length: 2",
    host: str = "Host: localhost",
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", host, "Content-Type: application/json", *headers]
    lines += [] if length is None else [length]
    return ("\r\n".join(line for line in lines if line) + "\r\n\r\n" + body).encode("utf-8", "surrogateescape")


SMUGGLED = "POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

MALFORMED = {
    "a header folded over two lines": ["Authorization: x\r\n\t{key}"],
    "a folded value": ["Authorization:\r\n {key}"],
    "a blank before the colon": ["Authorization : {key}"],
    "a blank before the name": [" Authorization: {key}"],
    "NUL in a value": ["Authorization: {key}\0"],
    "a bare CR in a value": ["X: a\rAuthorization: {key}"],
    "a bare LF between headers": ["X: a\nAuthorization: {key}"],
    "two lengths that differ": ["Authorization: {key}", "Content-Length: 3"],
    "two lengths that agree": ["Authorization: {key}", "Content-Length: 2"],
    "length and chunks": ["Authorization: {key}", "Transfer-Encoding: chunked"],
    "two hosts": ["Authorization: {key}", "Host: evil.example"],
    "two content types": ["Authorization: {key}", "Content-Type: application/x-protobuf"],
    "a value of 17 kB": ["Authorization: {key}", "X: " + "x" * 17_000],
    "two hundred headers": ["Authorization: {key}", *(f"X-{n}: {n}" for n in range(200))],
}

BAD_FRAMES = {
    "a length with a sign": ("Content-Length: +2", "{}"),
    "a negative length": ("Content-Length: -2", "{}"),
    "a hexadecimal length": ("Content-Length: 0x2", "{}"),
    "a length with an underscore": ("Content-Length: 1_0", "{}" + 8 * " "),
    "a length in other digits": ("Content-Length: \uff12", "{}"),
    "a list of lengths": ("Content-Length: 2, 2", "{}"),
    "an unknown coding": ("Transfer-Encoding: xchunked", "2\r\n{}\r\n0\r\n\r\n"),
    "chunks that are not the last coding": ("Transfer-Encoding: chunked, identity", "2\r\n{}\r\n0\r\n\r\n"),
    "two codings": ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n"),
    "a vertical tab before the coding": ("Transfer-Encoding: \x0bchunked", "2\r\n{}\r\n0\r\n\r\n"),
    "a chunk size with 0x": ("Transfer-Encoding: chunked", "0x2\r\n{}\r\n0\r\n\r\n"),
    "a negative chunk size": ("Transfer-Encoding: chunked", "-2\r\n{}\r\n0\r\n\r\n"),
    "a chunk ended by LF alone": ("Transfer-Encoding: chunked", "2;a\n{}\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_headers_that_two_servers_may_read_differently_are_400_and_end_the_connection(
    running: Running, name: str
) -> None:
    key = running.keys.good
    before = running.gateway.status()["edge"]
    headers = [header.replace("{key}", key) for header in MALFORMED[name]]
    for url in (running.gateway.intake_url, running.gateway.admin_url, running.gateway.service_url):
        answers = talk(url, request(*headers, body="{}" + SMUGGLED))
        assert (answers.statuses, answers.is_closed) == ([400], True)
        assert key.encode() not in answers.text
    assert running.gateway.status()["edge"] == before


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_body_whose_end_two_servers_may_see_elsewhere_is_400_and_ends_the_connection(
    running: Running, name: str
) -> None:
    framing, body = BAD_FRAMES[name]
    answers = talk(
        running.gateway.intake_url,
        request(f"Authorization: {running.keys.good}", framing, length=None, body=body + SMUGGLED),
    )
    assert (answers.statuses, answers.is_closed) == ([400], True)
    assert running.keys.good.encode() not in answers.text


def test_a_request_behind_an_ended_body_needs_a_key_of_its_own(running: Running) -> None:
    key = f"Authorization: {running.keys.good}"
    for framing, body in (
        ("Content-Length: 2", "{}"),
        ("Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: CHUNKED", "2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n"),
    ):
        answers = talk(running.gateway.intake_url, request(key, framing, length=None, body=body), SMUGGLED.encode())
        assert answers.statuses[0] == 200
        assert 200 not in answers.statuses[1:]


def test_a_key_in_a_trailer_opens_nothing(running: Running) -> None:
    body = f"2\r\n{{}}\r\n0\r\nAuthorization: {running.keys.good}\r\n\r\n"
    answers = talk(running.gateway.intake_url, request("Transfer-Encoding: chunked", length=None, body=body))
    assert answers.statuses == [401]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Authorization: {good}"], 200),
        (["authorization:{good}"], 200),
        (["AUTHORIZATION: \t bEaReR  {good} \t"], 200),
        (["Authorization: {good}", "Authorization: {good}"], 200),
        (["Authorization: ", "x-api-key: {good}"], 200),
        (["Authorization: {good}", "Authorization: {wrong}"], 401),
        (["Authorization: {wrong}", "Authorization: {good}"], 401),
        (["Authorization: {good}", "x-api-key: {lacking}"], 401),
        (["x-api-key: {lacking}", "api-key: {good}"], 401),
        (["Authorization: Basic {basic}", "api-key: {wrong}"], 401),
        (["Authorization: {good},{good}"], 401),
        (["Authorization: {good} {good}"], 401),
        (["Authorization: é{good}"], 401),
        (["Authorization: \udce9{good}"], 401),
        (["Authorization: Basic ké"], 401),
        (["Authorization: Basic {good}"], 401),
        (["Authorization: Token {good}"], 401),
        (["Authorization: Bearer Bearer {good}"], 401),
        (["Authorization: " + "x" * 15_000], 401),
        (["Proxy-Authorization: {good}"], 401),
        (["Cookie: Authorization={good}"], 401),
        (["X-Authorization: {good}"], 401),
        (["Authorization_: {good}"], 401),
        (["Authorization: {disabled}"], 401),
        (["Authorization: {deleted}"], 401),
        (["Authorization: {foreign}"], 401),
        (["Authorization: {lacking}"], 403),
        ([], 401),
    ],
)
def test_one_key_to_the_letter_opens_the_receiver_and_nothing_else_does(
    running: Running, headers: Sequence[str], status: int
) -> None:
    keys = running.keys
    filled = [
        header.format(
            **keys._asdict(),
            wrong=keys.good[:-1],
            basic=base64.b64encode(f"public:{keys.good}".encode()).decode(),
            foreign=mint(SERVICE_PREFIX, lambda n: bytes(range(n))).secret.reveal(),
        )
        for header in headers
    ]
    answers = talk(running.gateway.intake_url, request(*filled))
    assert answers.statuses == [status]
    assert not any(secret.encode() in answers.text for secret in keys)
    if status == 401:
        assert b"WWW-Authenticate: Bearer" in answers.text
    if status == 403:
        assert INGEST_SCOPE.encode() in answers.text


def test_targets_in_other_forms_reach_the_same_route_or_none(running: Running) -> None:
    key = f"Authorization: {running.keys.good}"
    url = running.gateway.intake_url
    for path, status in (
        ("http://evil.example/v1/traces", 200),
        ("/v1/traces/", 200),
        ("//v1//traces?x=y#z", 200),
        ("/v1/../v1/traces", 404),
        ("/V1/TRACES", 404),
        ("/v1%2Ftraces", 404),
    ):
        assert talk(url, request(key, path=path)).statuses == [status], path
        assert talk(url, request(path=path)).statuses == [401 if status == 200 else 404], path
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"):
        answers = talk(url, request(key, method=method, body="", length=None))
        assert answers.statuses == [405], method
        assert running.keys.good.encode() not in answers.text


# ---- the admin port


def admin_token(gateway: GatewayProcess) -> str:
    return (gateway.data_dir / "admin-token").read_text().strip()


def opened_session(gateway: GatewayProcess) -> str:
    """The cookie of a browser that logged in."""
    token = admin_token(gateway)
    address = urlsplit(gateway.admin_url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=HANGS_S)
    connection.request("POST", "/login", f"token={token}", {"Content-Type": "application/x-www-form-urlencoded"})
    answer = connection.getresponse()
    assert answer.status == 303
    cookie = str(answer.getheader("Set-Cookie"))
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
    connection.close()
    return cookie.partition(";")[0]


WRITES = [
    ("POST", "/v2/login-links", ""),
    ("POST", "/v2/dead-letters/drop", '{"all": true}'),
    ("POST", "/v2/dead-letters/replay", '{"all": true}'),
    ("POST", "/v2/replay", '{"since": "6h"}'),
    ("POST", "/logout", ""),
]


def admin_request(method: str, path: str, body: str, host: str, *headers: str) -> bytes:
    return request(
        *headers, method=method, path=path, body=body, length=f"Content-Length: {len(body)}", host=f"Host: {host}"
    )


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_a_page_of_another_origin_cannot_write_with_the_operators_session(
    running: Running, method: str, path: str, body: str
) -> None:
    gateway = running.gateway
    host = urlsplit(gateway.admin_url).netloc
    cookie = f"Cookie: {opened_session(gateway)}"
    other_port = f"http://127.0.0.1:{urlsplit(gateway.intake_url).port}"
    for headers in (
        [],
        ["Origin: null"],
        ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"],
        [f"Origin: {other_port}", "Sec-Fetch-Site: same-site"],
        [f"Origin: http://{host}.evil.example"],
        [f"Origin: http://evil.example@{host}", "Sec-Fetch-Site: cross-site"],
        [f"Origin: http://localhost:{urlsplit(gateway.admin_url).port}"],
        [f"Referer: http://{host}/"],
        ["Origin: https://evil.example", f"Origin: http://{host}"],
        [f"Origin: http://{host}", "Origin: https://evil.example"],
        [f"Origin: http://{host}", "Sec-Fetch-Site: cross-site"],
        ["Origin: http://[::1"],
    ):
        for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            sent = admin_request(method, path, body, host, cookie, *headers)
            sent = sent.replace(b"application/json", content_type.encode())
            assert talk(gateway.admin_url, sent).statuses == [401], headers
    assert talk(gateway.admin_url, admin_request("GET", "/v2/insights", "", host, cookie)).statuses == [200], (
        "the session is still there"
    )


def test_a_dns_name_that_was_turned_to_loopback_reads_nothing(running: Running) -> None:
    gateway = running.gateway
    port = urlsplit(gateway.admin_url).port
    token = f"Authorization: {admin_token(gateway)}"
    for path in ("/", "/healthz", "/readyz", "/metrics", "/v2/status", "/v2/insights", "/login"):
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "localhost@evil.example"):
            for method in ("GET", "HEAD", "OPTIONS"):
                answers = talk(gateway.admin_url, admin_request(method, path, "", host, token))
                assert answers.statuses == [403], (path, host, method)
    for host in ("Host: localhost\r\nHost: evil.example", "Host: evil.example\r\nHost: localhost", ""):
        sent = request(token, method="GET", path="/v2/status", body="", length=None, host=host)
        assert talk(gateway.admin_url, sent).statuses == [400]


def test_the_admin_port_opens_by_its_own_token_alone(running: Running) -> None:
    gateway = running.gateway
    host = urlsplit(gateway.admin_url).netloc
    token = admin_token(gateway)
    for headers, status in (
        ([f"Authorization: {token}"], 201),
        ([f"Authorization: Bearer {token}", f"x-api-key: {token}"], 201),
        ([f"Authorization: {token}", "x-api-key: other"], 401),
        ([f"Authorization: {token}", "Authorization: other"], 401),
        ([f"Authorization: {running.keys.good}"], 401),
        ([f"Authorization: {token[:-1]}"], 401),
        ([f"Authorization: {token}é"], 401),
        ([f"Cookie: {COOKIE}={token}"], 401),
        ([f"Cookie: {COOKIE}="], 401),
        (["X-HTTP-Method-Override: GET"], 401),
    ):
        answers = talk(gateway.admin_url, admin_request("POST", "/v2/login-links", "", host, *headers))
        assert answers.statuses == [status], headers
        assert token.encode() not in answers.text
    assert talk(gateway.admin_url, admin_request("POST", f"/v2/login-links?token={token}", "", host)).statuses == [401]
    assert talk(gateway.intake_url, request(f"Authorization: {token}")).statuses == [401]


# ---- quotas, labels and leaks


def post(url: str, body: bytes, content_type: str = "application/x-protobuf", **headers: str) -> tuple[int, bytes]:
    sent = {"Content-Type": content_type} | {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, sent), timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read() + str(error.headers).encode()


def test_what_a_key_fixes_arrives_at_the_service_whatever_the_payload_says(running: Running) -> None:
    gateway = running.gateway
    said = {"service.name": "app", "team": "beta", "cost_center": "0815"}
    before = gateway.status()["lanes"]["ai_telemetry"]["kept"]
    url = f"{gateway.intake_url}/v1/traces"
    for name in ("a", "b"):
        assert post(url, call_span(name, (10, 2), resource=said), Authorization=running.keys.good)[0] == 200
    assert (
        post(f"{gateway.intake_url}/v1/sources/kong", KONG, "application/json", x_api_key=running.keys.good)[0] == 200
    )
    status = gateway.wait_until_delivered(at_least=before + 3)
    assert broken_identities(status) == []
    assert [group["team"] for group in gateway.summary("team")["summary"]] == ["alpha"]


PATHS = ("/v1/traces", "/v1/events", "/v1/sources/aperture", "/v1/devices/d/heartbeat", "/nowhere")


def test_no_key_and_no_token_is_in_any_answer_log_metric_status_or_file(tmp_path: Path) -> None:
    secret = tmp_path / "helicone"
    secret.write_text(HELICONE_SECRET)
    gateway = GatewayProcess(
        tmp_path,
        config={
            "sources": {
                "helicone": {"secret": f"${{file:{secret}}}", "url_token": True},
                "aperture": {"url_token": True},
            },
            "exporters": {"archive": {"type": "file", "path": str(tmp_path / "data" / "records.ndjson")}},
        },
    )
    keys = asyncio.run(make_keys(gateway.data_dir))
    unknown = mint(GATEWAY_PREFIX, lambda n: bytes(range(100, 100 + n))).secret.reveal()
    said: list[bytes] = []
    with gateway:
        intake, admin, service = gateway.intake_url, gateway.admin_url, gateway.service_url
        for key in (*keys, unknown, keys.good[:-1]):
            for headers in every_place(key):
                said += [talk(intake, request(*headers, path=path)).text for path in PATHS]
                said += [talk(url, request(*headers, path="/v2/insights")).text for url in (admin, service)]
            for path in (
                f"/v1/sources/aperture/token/{key}",
                f"/v1/sources/aperture?token={key}",
                f"/v1/{key}",
                f"/{key}",
            ):
                said += [talk(url, request(path=path)).text for url in (intake, admin, service)]
            body = json.dumps({"resourceSpans": key, "key": key, key: key})
            said.append(
                talk(intake, request(f"x-api-key: {keys.good}", body=body, length=f"Content-Length: {len(body)}")).text
            )
            said.append(talk(intake, request("Helicone-Signature: " + key, path="/v1/sources/helicone")).text)
        assert post(f"{intake}/v1/traces", call_span("a", (10, 2)), Authorization=keys.good)[0] == 200
        gateway.wait_until_delivered()
        gateway.wait_until_delivered("archive")
        shown = [str(fetch(admin + path)).encode() for path in ("/v2/status", "/metrics")]
        refused = gateway.status()["refused"]
        tokens = [(gateway.data_dir / name).read_text().strip() for name in TOKEN_FILES.values()]
        sessions = [*tokens, opened_session(gateway).partition("=")[2]]
        while_running = holding(tmp_path, [*keys, unknown])
        shown += [page_of(gateway, path).encode() for path in ("/", "/delivery", "/usage", "/settings", "/login")]
        assert gateway.stop() == 0
    assert len(said) > 300
    assert {entry["reason"] for entry in refused} >= {
        "no_key",
        "key_unknown_or_disabled",
        "scope_missing",
        "not_found",
        "malformed_http",
    }
    secrets = [*keys, unknown, keys.good[:-1], HELICONE_SECRET, *sessions]
    for text in (*said, *shown):
        assert not [n for n, key in enumerate(secrets) if of_secret(key) in text], text[:200]
    assert while_running == holding(tmp_path, [*keys, unknown]) == []
    assert holding(tmp_path, [sessions[-1]]) == []
    assert [holding(tmp_path, [token]) for token in tokens] == [[name] for name in TOKEN_FILES.values()]
    assert holding(tmp_path, [HELICONE_SECRET]) == ["helicone"]


def page_of(gateway: GatewayProcess, path: str) -> str:
    """A view of the page, as an operator sees it."""
    return str(fetch(gateway.admin_url + path, headers={"Authorization": admin_token(gateway)}))


def every_place(key: str) -> list[list[str]]:
    """The key wherever a request may show it, also where no one looks for one, and in
    headers that cannot be parsed.
    """
    basic = base64.b64encode(f"public:{key}".encode()).decode()
    names = (
        "Authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "User-Agent",
        "Cookie",
        "Origin",
        "X-Forwarded-For",
    )
    return [
        *([f"{name}: {key}"] for name in names),
        [f"Authorization: Bearer {key}"],
        [f"Authorization: Basic {basic}"],
        [f"Authorization: {key}\0"],
        [f"Authorization: x\r\n {key}"],
        [f"{key}: x\0"],
        [f"Content-Type: {key}"],
        [f"Content-Encoding: {key}"],
        [f"Expect: {key}"],
        [f"Transfer-Encoding: {key}"],
    ]


def of_secret(key: str) -> bytes:
    """What of it must not show: an id may, and does."""
    return key.split("_")[2].encode() if key.startswith(GATEWAY_PREFIX + "_") else key.encode()


def holding(folder: Path, secrets: Sequence[str]) -> list[str]:
    """Names of the files that hold any of them."""
    wanted = [of_secret(key) for key in secrets]
    return sorted(
        file.name for file in folder.rglob("*") if file.is_file() and any(key in file.read_bytes() for key in wanted)
    )


# ---- before the first key


def test_open_intake_is_loopbacks_alone_and_ends_with_the_first_key(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)
    with gateway:
        assert talk(gateway.intake_url, request()).statuses == [200]
        for host in ("evil.example", "127.0.0.1.evil.example", "192.168.0.1", ""):
            assert talk(gateway.intake_url, request(host=f"Host: {host}")).statuses == [403], host
        assert talk(gateway.intake_url, request("Origin: https://evil.example", path="/v1/sources/kong")).statuses == [
            403
        ]
        assert gateway.stop() == 0
        keys = asyncio.run(make_keys(gateway.data_dir))
        gateway.restart()
        assert talk(gateway.intake_url, request()).statuses == [401]
        assert talk(gateway.intake_url, request(f"Authorization: {keys.good}", host="Host: evil.example")).statuses == [
            200
        ]


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_address_that_others_reach_is_not_opened_without_an_enabled_key(tmp_path: Path, address: str) -> None:
    listen = {"http": address, "grpc": "off", "admin": "127.0.0.1:0", "service": "127.0.0.1:0"}
    with pytest.raises(ProcessFailed, match="no key is enabled"):
        GatewayProcess(tmp_path, config={"listen": listen}).start()


def test_a_key_that_sent_its_minutes_worth_learns_when_to_come_again(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)

    async def limited() -> str:
        async with keys_beside(gateway.data_dir) as keys:
            created = await keys.create(
                "batch job",
                Fixed(frozenset({INGEST_SCOPE})),
                by="ops@example.com",
                limits=RateLimits(requests_per_minute=2),
            )
            return created.secret.reveal()

    key = f"Authorization: {asyncio.run(limited())}"
    with gateway:
        assert [talk(gateway.intake_url, request(key)).statuses for _ in range(2)] == [[200], [200]]
        answers = talk(gateway.intake_url, request(key))
        assert answers.statuses == [429]
        retry_after = re.search(rb"Retry-After: (\d+)", answers.text)
        assert retry_after is not None
        assert 1 <= int(retry_after[1]) <= 30
        (refused,) = gateway.status()["refused"]
        assert (refused["reason"], refused["last_key"]) == ("over_quota_requests", "batch job")
        assert 'telemetry_gateway_http_over_quota_total{key="batch job",quota="requests"} 1.0' in str(
            fetch(gateway.admin_url + "/metrics")
        )
