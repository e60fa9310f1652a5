"""Routes of AI gateways on a real socket: who is let in, how bodies arrive, and in whose
words senders are answered.
"""

import gzip
import hashlib
import hmac
import io
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, get_args

import aiohttp
import pytest

from gateway.access.store import KeyStore
from gateway.common.contract.intake import Receipt
from gateway.common.contract.scopes import SEND_AI_TELEMETRY, Fixed, Managed
from gateway.products.catalogue import SOURCES
from gateway.products.source import AnswerKind, Snippet, Source, SourceRead, WayIn
from gateway.serve.authenticator import Authenticator, KeyAuthenticator
from gateway.serve.body import BodyLimits
from gateway.serve.cors import Cors
from gateway.serve.http.source_responses import accepted
from gateway.serve.http.sources import SourceAccess, source_routes
from gateway.serve.http.streaming import PIECE_BYTES
from gateway.serve.routes import Route
from tests.support.growth import assert_linear_async
from tests.support.polling import until_true
from tests.unit.serve.conftest import Serve, Served

PAGE = "https://app.example"
MIB = 1 << 20
DOCUMENT = b'{"a":1}'
Client = aiohttp.ClientSession


def source(name: str, ways_in: tuple[WayIn, ...] = ("key",), answers: AnswerKind = "json") -> Source:
    def read(documents: object, out: SourceRead, context: object) -> None:
        raise AssertionError("the recording intake reads nothing")

    native = ("/native/ingestion",) if answers == "langfuse" else ()
    return Source(name, name, read, Snippet("text", "{url}"), "never", ways_in, answers, native)


MADE = (
    source("plain"),
    source("helicone", ("key", "hmac_sha256")),
    source("vercel", ("key", "hmac_sha1")),
    source("bedrock", ("key", "firehose_access_key"), "firehose"),
    source("aperture", ("key", "vendor_headers")),
    source("langfuse", ("key",), "langfuse"),
)


Start = Callable[..., Awaitable[Served]]


@pytest.fixture
def start(serve: Serve) -> Start:
    """Start a receiver with the routes of `MADE`, and PAGE allowed."""

    async def begin(
        gate: Authenticator | None = None,
        access: Mapping[str, SourceAccess] | None = None,
        limits: BodyLimits | None = None,
    ) -> Served:
        def further(*parts: Any) -> list[Route]:
            return source_routes(MADE, access or {}, *parts)

        return await serve(gate=gate, limits=limits, cors=Cors(frozenset({PAGE})), further=further)

    return begin


async def secret_of(keys: KeyStore, name: str = "gateway") -> str:
    made = await keys.create(name, Managed(frozenset({SEND_AI_TELEMETRY})), by="ops@example.com")
    return made.secret.reveal()


async def post(client: Client, url: str, body: bytes = DOCUMENT, **headers: str) -> tuple[int, dict[str, object]]:
    sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
    async with client.post(url, data=io.BytesIO(body), headers=sent) as response:
        return response.status, json.loads(await response.read())


async def test_every_way_of_sending_a_key_is_let_in_under_its_name(
    start: Start, client: Client, keys: KeyStore
) -> None:
    secret = await secret_of(keys)
    started = await start(KeyAuthenticator(keys))
    basic = aiohttp.encode_basic_auth("public", secret)
    for headers in (
        {"Authorization": secret},
        {"Authorization": f"Bearer {secret}"},
        {"Authorization": basic},
        {"x_api_key": secret},
        {"api_key": secret},
    ):
        assert (await post(client, f"{started.url}/v1/sources/plain", **headers))[0] == 200
    assert {kept.sender.key for kept in started.intake.kept} == {"gateway"}
    assert len(started.intake.kept) == 5


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("bedrock", "X-Amz-Firehose-Access-Key"),
        ("aperture", "x-goog-api-key"),
        ("aperture", "cf-aig-authorization"),
    ],
)
async def test_a_header_of_one_product_lets_in_there_and_nowhere_else(
    start: Start, client: Client, keys: KeyStore, name: str, header: str
) -> None:
    secret = await secret_of(keys)
    started = await start(KeyAuthenticator(keys))
    headers = {header.replace("-", "_"): secret}
    assert (await post(client, f"{started.url}/v1/sources/{name}", **headers))[0] == 200
    assert (await post(client, f"{started.url}/v1/sources/plain", **headers))[0] == 401


async def test_a_token_in_the_address_counts_only_where_it_is_turned_on(
    start: Start, client: Client, keys: KeyStore
) -> None:
    secret = await secret_of(keys)
    started = await start(KeyAuthenticator(keys), {"plain": SourceAccess(url_token=True)})
    assert (await post(client, f"{started.url}/v1/sources/plain/token/{secret}"))[0] == 200
    assert (await post(client, f"{started.url}/v1/sources/plain?token={secret}"))[0] == 200
    assert (await post(client, f"{started.url}/v1/sources/plain/token/wrong"))[0] == 401
    assert (await post(client, f"{started.url}/v1/sources/helicone/token/{secret}"))[0] == 404
    assert (await post(client, f"{started.url}/v1/sources/helicone?token={secret}"))[0] == 401


async def test_a_key_without_the_scope_is_refused(start: Start, client: Client, keys: KeyStore) -> None:
    made = await keys.create("events only", Fixed(frozenset({"events_v1:create_event"})), by="ops@example.com")
    started = await start(KeyAuthenticator(keys))
    status, answer = await post(client, f"{started.url}/v1/sources/plain", Authorization=made.secret.reveal())
    assert status == 403
    assert "ai-telemetry-ingest" in str(answer)
    assert started.intake.kept == []


@pytest.mark.parametrize(
    ("name", "header", "algorithm"),
    [("helicone", "Helicone-Signature", "sha256"), ("vercel", "x-vercel-signature", "sha1")],
)
async def test_a_signed_request_needs_no_key_and_a_wrong_signature_is_refused(
    start: Start, client: Client, keys: KeyStore, name: str, header: str, algorithm: str
) -> None:
    await secret_of(keys)
    started = await start(KeyAuthenticator(keys), {name: SourceAccess(secret="of the webhook")})
    url = f"{started.url}/v1/sources/{name}"
    signature = hmac.new(b"of the webhook", DOCUMENT, algorithm).hexdigest()
    assert (await post(client, url, **{header.replace("-", "_"): signature}))[0] == 200
    assert started.intake.kept[0].sender.key == f"signed:{name}"
    for wrong in (signature[:-1] + ("0" if signature[-1] != "0" else "1"), "", hashlib.sha256(DOCUMENT).hexdigest()):
        assert (await post(client, url, **{header.replace("-", "_"): wrong}))[0] == 401
    assert (await post(client, url, b'{"a":2}', **{header.replace("-", "_"): signature}))[0] == 401
    assert len(started.intake.kept) == 1


async def test_a_source_that_signs_is_not_open_to_unsigned_requests(start: Start, client: Client) -> None:
    started = await start(access={"helicone": SourceAccess(secret="of the webhook")})
    status, answer = await post(client, f"{started.url}/v1/sources/helicone")
    assert status == 401
    assert "Helicone-Signature" in str(answer)
    assert "of the webhook" not in repr(SourceAccess(secret="of the webhook"))


async def test_a_signature_without_a_configured_secret_proves_nothing(
    start: Start, client: Client, keys: KeyStore
) -> None:
    await secret_of(keys)
    started = await start(KeyAuthenticator(keys))
    signature = hmac.new(b"", DOCUMENT, "sha256").hexdigest()
    assert (await post(client, f"{started.url}/v1/sources/helicone", Helicone_Signature=signature))[0] == 401


async def test_pages_of_other_origins_may_not_post(start: Start, client: Client) -> None:
    started = await start()
    url = f"{started.url}/v1/sources/plain"
    assert (await post(client, url, Origin="https://evil.example", Content_Type="text/plain"))[0] == 403
    assert (await post(client, url, Origin=PAGE, Content_Type="text/plain"))[0] == 200
    assert (await post(client, url, Content_Type="text/plain"))[0] == 200


async def test_put_is_taken_and_get_only_where_the_product_tries_the_address(start: Start, client: Client) -> None:
    started = await start(access={"vercel": SourceAccess(verify="proof-1")})
    async with client.put(f"{started.url}/v1/sources/plain", data=DOCUMENT) as response:
        assert response.status == 200
    async with client.get(f"{started.url}/v1/sources/plain") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST, PUT"
    for method in ("GET", "HEAD", "POST"):
        async with client.request(method, f"{started.url}/v1/sources/vercel", data=DOCUMENT) as response:
            assert response.status == 200
            assert response.headers["x-vercel-verify"] == "proof-1"


async def test_a_source_that_nobody_knows_is_not_found(start: Start, client: Client) -> None:
    started = await start()
    assert (await post(client, f"{started.url}/v1/sources/nobody"))[0] == 404


async def test_a_long_body_of_lines_comes_in_pieces_of_whole_lines(start: Start, client: Client) -> None:
    lines = [b'{"n":%d,"pad":"%s"}' % (n, b"x" * 1000) for n in range(5000)]
    lines[1234] = b"this is no JSON"
    body = b"\n".join(lines)
    started = await start()
    status, answer = await post(client, f"{started.url}/v1/sources/plain", body)
    assert status == 200
    assert answer["accepted"] == 4999
    assert answer["rejected"] == [{"reason": "not_json", "position": "line 1235"}]
    kept = started.intake.kept
    assert len(kept) > 3
    assert b"".join(piece.body for piece in kept) == body
    assert all(piece.body.endswith(b"\n") for piece in kept[:-1])
    lines_before = 1
    for piece in kept:
        assert piece.what == f"plain {lines_before}"
        lines_before += piece.body.count(b"\n")
    assert started.receiver.budget.used_bytes == 0


async def piece_by_piece(started: Served, *parts: bytes) -> AsyncIterator[bytes]:
    """Each of *parts* but the first when the intake has taken as many
    pieces as were sent before it.
    """
    for sent, part in enumerate(parts):
        await taken(started, sent)
        yield part


async def taken(started: Served, pieces: int) -> None:
    await until_true(lambda: len(started.intake.kept) >= pieces, what=f"{pieces} pieces taken")


LONG_LINES = (DOCUMENT + b"\n") * (PIECE_BYTES // len(DOCUMENT))


async def test_blank_lines_behind_a_piece_are_nothing(start: Start, client: Client) -> None:
    started = await start()
    async with client.post(
        f"{started.url}/v1/sources/plain", data=piece_by_piece(started, LONG_LINES, b"\r\n")
    ) as response:
        assert response.status == 200
        assert (await response.json())["accepted"] == LONG_LINES.count(b"\n")


async def test_a_piece_of_one_bad_line_does_not_cost_the_lines_behind_it(start: Start, client: Client) -> None:
    started = await start()
    body = piece_by_piece(started, LONG_LINES, b'{"cut": "' + b"x" * PIECE_BYTES + b"\n", LONG_LINES, b'{"cut"')
    async with client.post(f"{started.url}/v1/sources/plain", data=body) as response:
        assert response.status == 200
        answer = await response.json()
    n = LONG_LINES.count(b"\n")
    assert answer["accepted"] == 2 * n
    assert [x["position"] for x in answer["rejected"]] == [f"line {n + 1}", f"line {2 * n + 2}"]


async def test_a_key_that_is_disabled_while_its_body_comes_takes_no_further_piece(
    start: Start, client: Client, keys: KeyStore
) -> None:
    secret = await secret_of(keys)
    started = await start(KeyAuthenticator(keys))

    async def body() -> AsyncIterator[bytes]:
        yield LONG_LINES
        await taken(started, 1)
        await keys.disable("gateway", by="ops@example.com")
        yield LONG_LINES

    headers = {"Authorization": secret}
    async with client.post(f"{started.url}/v1/sources/plain", data=body(), headers=headers) as response:
        assert response.status == 401
    assert len(started.intake.kept) == 1


async def test_a_long_first_line_is_looked_at_once(start: Start, client: Client) -> None:
    """A first line that is no JSON, and as much behind it, is not looked at for each block."""
    started = await start()

    async def work(mib: int) -> None:
        body = b'["' + b"1," * (mib * MIB // 2) + b"\n" + b"x" * (mib * MIB)
        assert (await post(client, f"{started.url}/v1/sources/plain", body))[0] == 200

    await assert_linear_async(work, 5)


async def test_gzip_is_known_without_its_header(start: Start, client: Client) -> None:
    started = await start()
    for body in (DOCUMENT, LONG_LINES * 2):
        status, answer = await post(client, f"{started.url}/v1/sources/plain", gzip.compress(body))
        assert (status, answer["accepted"]) == (200, body.count(b"{"))
    assert started.receiver.budget.used_bytes == 0
    small = await start(limits=BodyLimits(max_body_bytes=1000))
    assert (await post(client, f"{small.url}/v1/sources/plain", gzip.compress(os.urandom(2000))))[0] == 413


async def test_of_a_compressed_body_that_is_cut_short_all_whole_lines_before_the_cut_are_kept(
    start: Start, client: Client
) -> None:
    lines = [b'{"n":%d,"pad":"%s"}\n' % (n, os.urandom(500).hex().encode()) for n in range(4000)]
    body = gzip.compress(b"".join(lines))
    started = await start()
    status, _ = await post(client, f"{started.url}/v1/sources/plain", body[: len(body) // 2], Content_Encoding="gzip")
    assert status == 400
    kept = b"".join(piece.body for piece in started.intake.kept)
    assert b"".join(lines).startswith(kept)
    assert kept.endswith(b"\n")
    assert kept.count(b"\n") > 1900


async def test_a_long_array_comes_whole(start: Start, client: Client) -> None:
    body = json.dumps([{"n": n, "pad": "x" * 1000} for n in range(2000)]).encode()
    assert len(body) > PIECE_BYTES
    started = await start()
    status, answer = await post(client, f"{started.url}/v1/sources/plain", body)
    assert (status, answer["accepted"]) == (200, 2000)
    assert [piece.body for piece in started.intake.kept] == [body]


async def test_a_body_that_is_neither_lines_nor_small_is_too_large(start: Start, client: Client) -> None:
    started = await start(limits=BodyLimits(max_body_bytes=2 * MIB, max_decompressed_bytes=2 * MIB))
    line = b'{"pad":"' + b"x" * 3 * MIB + b'"}'
    assert (await post(client, f"{started.url}/v1/sources/plain", line))[0] == 413
    small_then_huge = DOCUMENT + b"\n" + line
    status, answer = await post(client, f"{started.url}/v1/sources/plain", small_then_huge)
    assert (status, "one line is larger than limits.max_decompressed_bytes allows" in str(answer)) == (413, True)


async def test_a_body_that_can_never_be_read_is_refused_in_the_senders_own_words(start: Start, client: Client) -> None:
    started = await start()
    status, answer = await post(client, f"{started.url}/v1/sources/plain", b'{"cut": "sh')
    assert status == 400
    assert set(answer) == {"error"}
    status, answer = await post(client, f"{started.url}/v1/sources/bedrock", b'{"cut": "sh')
    assert status == 400
    assert set(answer) == {"requestId", "timestamp", "errorMessage"}
    _, answer = await post(client, f"{started.url}/v1/sources/bedrock", b"{", X_Amz_Firehose_Request_Id="r-1")
    assert answer["requestId"] == "r-1"
    status, answer = await post(client, f"{started.url}/native/ingestion", b'{"cut": "sh')
    assert status == 400
    assert set(answer) == {"message", "error"}


async def test_firehose_is_answered_with_the_id_of_its_request(start: Start, client: Client) -> None:
    started = await start()
    headers = {"X_Amz_Firehose_Request_Id": "ed4acda5-034f-9f42-bba1-f29aea6d7d8f"}
    status, answer = await post(client, f"{started.url}/v1/sources/bedrock", **headers)
    assert (status, answer["requestId"]) == (200, "ed4acda5-034f-9f42-bba1-f29aea6d7d8f")


def test_an_answer_states_what_was_ignored() -> None:
    assert accepted(Receipt(3, ())) == {"accepted": 3, "rejected": []}
    assert accepted(Receipt(3, (), ignored=2)) == {"accepted": 3, "rejected": [], "ignored": 2}
    told = accepted(Receipt(2, (), ignored=2))
    assert (told["accepted"], told["ignored"]) == (2, 2)
    assert "no call" in told["message"]


async def test_one_bad_line_does_not_cost_its_neighbours(start: Start, client: Client) -> None:
    started = await start()
    status, answer = await post(client, f"{started.url}/v1/sources/plain", DOCUMENT + b"\n{broken\n" + DOCUMENT)
    assert (status, answer["accepted"]) == (200, 2)
    assert answer["rejected"] == [{"reason": "not_json", "position": "line 2"}]


def test_every_way_in_is_some_sources() -> None:
    """One that no source names is reported in the docs and works nowhere."""
    assert {way for known in SOURCES.values() for way in known.ways_in} == set(get_args(WayIn))


def test_every_source_says_how_to_point_it_here_and_what_it_does_when_refused() -> None:
    for name, known in SOURCES.items():
        assert known.name == name
        assert "{url}" in known.snippet.text
        assert known.retries.endswith(".")
        known.snippet.text.format(url="u", key="k")
