"""The client's own promises: TLS that is verified, bounded reading, time limits, the liveness
look, the settings it refuses.
"""

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from exporters.answer_body import ERROR_BYTES
from exporters.base import Hold, Retry
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.lanes import AI_TELEMETRY_SCOPE
from exporters.cost_service.liveness import check_liveness
from exporters.cost_service.preset import preset_with
from exporters.cost_service.probe import probe_key
from exporters.http_client import Endpoint, HttpAnswer
from exporters.keyring import Keyring, KeySetting, OutboundKey
from exporters.secret import Secret
from tests.support.upstream import Reply, Upstream, running_upstream

KEY = OutboundKey("k", Secret("some-key"))


@pytest.mark.parametrize(
    "base_url",
    ["http://service.example", "http://10.0.0.1:80", "ftp://service.example", "service.example", "", "https://",
     "https://user:word@service.example", "https://service.example/?a=b", "http://127.0.0.1.example"],
)  # fmt: skip
def test_an_address_that_would_leak_the_key_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        Endpoint(base_url)
    assert "word" not in str(caught.value)


@pytest.mark.parametrize(
    "base_url", ["https://service.example", "http://127.0.0.1:4320", "http://[::1]:80", "http://localhost:1"]
)
def test_https_anywhere_and_http_on_this_machine_are_taken(base_url: str) -> None:
    assert Endpoint(base_url).base_url == base_url


def make_certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate),
         "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


async def test_a_certificate_of_nobody_we_trust_holds_the_lane_and_sees_no_key(tmp_path: Path) -> None:
    context, certificate = make_certificate(tmp_path)
    async with running_upstream(context) as upstream:
        client = CostServiceClient(Endpoint(upstream.base_url), Keyring([]), "gw")
        assert await client.post("/x", b"{}", KEY) == Hold(
            f"the certificate of {upstream.base_url.removeprefix('https://')} is not trusted", answered=False
        )
        assert upstream.seen == []
        await client.close()

        trusting = CostServiceClient(Endpoint(upstream.base_url, ca_file=certificate), Keyring([]), "gw")
        answer = await trusting.post("/x", b"{}", KEY)
        assert isinstance(answer, HttpAnswer)
        assert answer.status == 202
        await trusting.close()


async def test_an_endless_answer_is_read_up_to_its_limit_only(client: CostServiceClient, upstream: Upstream) -> None:
    upstream.script.append(Reply(500, body=b"x" * (8 * ERROR_BYTES)))
    answer = await client.post("/x", b"{}", KEY)
    assert isinstance(answer, HttpAnswer)
    assert len(answer.body) == ERROR_BYTES


async def test_an_upstream_that_never_answers_is_silence_after_the_time_limit(upstream: Upstream) -> None:
    never = asyncio.Event()
    upstream.script.append(Reply(202, until=never))
    client = CostServiceClient(Endpoint(upstream.base_url, timeout_s=1), Keyring([]), "gw")
    address = upstream.base_url.removeprefix("http://")
    silence = Retry(f"{address} did not answer in time", answered=False, may_be_there=True)
    assert await client.post("/x", b"{}", KEY) == silence
    never.set()
    await client.close()


async def test_cookies_are_neither_kept_nor_sent(keyring: Keyring, upstream: Upstream) -> None:
    by_name = upstream.base_url.replace("127.0.0.1", "localhost")  # no client keeps cookies of a bare address
    client = CostServiceClient(Endpoint(by_name), keyring, "gw")
    upstream.script.append(Reply(202, headers={"Set-Cookie": "a=b; Path=/"}))
    for _ in range(2):
        assert isinstance(await client.post("/x", b"{}", KEY), HttpAnswer)
    await client.close()
    assert len(upstream.seen) == 2
    assert all("Cookie" not in seen.headers for seen in upstream.seen)


async def test_a_proxy_from_the_settings_is_used_and_none_from_the_environment(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    client = CostServiceClient(Endpoint(upstream.base_url), Keyring([]), "gw")
    assert isinstance(await client.post("/x", b"{}", KEY), HttpAnswer)
    await client.close()
    async with running_upstream() as proxy:
        through = CostServiceClient(Endpoint(upstream.base_url, proxy=Secret(proxy.base_url)), Keyring([]), "gw")
        assert isinstance(await through.post("/y", b"{}", KEY), HttpAnswer)
        await through.close()
        assert [seen.path for seen in proxy.seen] == [f"{upstream.base_url}/y"]


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (Reply(200, body=b'{"insights":[]}'), "ok"),
        (Reply(401), "key_rejected_or_scope_missing"),
        (Reply(403), "key_rejected_or_scope_missing"),
        (Reply(500), "unreachable"),
        (Reply(302, headers={"Location": "/"}), "unreachable"),
        (Reply(reset="before_reading"), "unreachable"),
    ],
)
async def test_the_liveness_look_reports_and_is_never_fatal(
    client: CostServiceClient, upstream: Upstream, reply: Reply, wanted: str
) -> None:
    upstream.respond = lambda seen: Reply(503)
    upstream.script.extend([reply] * (2 if reply.reset else 1))  # aiohttp itself repeats a GET on a fresh connection
    assert await check_liveness(client) == wanted
    assert all((seen.method, seen.path) == ("GET", "/v2/insights?limit=1") for seen in upstream.seen)


async def test_without_a_key_that_may_read_nothing_is_asked(upstream: Upstream) -> None:
    client = CostServiceClient(Endpoint(upstream.base_url), Keyring([]), "gw")
    assert await check_liveness(client) == "no_key"
    await client.close()
    assert upstream.seen == []


async def test_every_name_of_a_preset_can_be_another_one(upstream: Upstream, keyring: Keyring) -> None:
    preset = preset_with("cloudzero", {"gateway_id_header": "X-Shipper", "authorization_header": "X-Api-Key"})
    client = CostServiceClient(Endpoint(upstream.base_url), keyring, "gw-1", preset=preset)
    await client.post("/x", b"{}", KEY, idempotency_key="i")
    await client.close()
    headers = upstream.seen[0].headers
    assert headers["cloudzero-idempotency-key"] == "i"
    assert headers["X-Shipper"] == "gw-1"
    assert headers["X-Api-Key"] == "some-key"
    assert "Authorization" not in headers


@pytest.mark.parametrize(("name", "names"), [("other", {}), ("document", {"colour": "red"})])
def test_an_unknown_preset_or_name_is_refused(name: str, names: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"preset|name"):
        preset_with(name, names)


@pytest.mark.parametrize(
    ("reply", "is_well"),
    [
        (Reply(202, body=b'{"accepted":0,"rejected":[]}'), True),
        (Reply(204), True),
        (Reply(200, {"Content-Type": "text/html"}, b"<html>Log in"), False),
        (Reply(200, body=b"OK"), False),
        (Reply(200, body=b'{"error":"m"}'), False),
        (Reply(401), False),
    ],
)
async def test_a_key_that_is_tried_at_a_login_page_is_not_well(
    client: CostServiceClient, upstream: Upstream, reply: Reply, *, is_well: bool
) -> None:
    upstream.script.append(reply)
    setting = KeySetting("telemetry", Secret("key-4711"), {AI_TELEMETRY_SCOPE}.__contains__)
    assert (await probe_key(client, setting)).is_well is is_well
