"""The admin listener: what is open, who gets in, what it shows."""

import os
import re
import stat
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from exporters.secret import Secret
from gateway.common.lists.conventions import ListRequest, Page, envelope, read_request
from gateway.common.lists.memory import page_of
from gateway.config.values import TcpAddress
from gateway.observability.metrics import NAMES, LaneStatus, Status, StatusCollector, WebFigures, billing_metrics
from gateway.operate.findings.billing import of_billing
from gateway.operate.parts import AdminParts
from gateway.operate.registry import AdminStores
from gateway.operate.role import Role
from gateway.operate.server import admin_app
from gateway.operate.session import CODE_LIFE_S, COOKIE, MAX_ENTRIES, SESSION_LIFE_S, AdminAccess, Expiring, token_of
from gateway.operate.site import delivery, insights, overview
from gateway.operate.site.usage_answers import NOTHING
from gateway.operate.site.usage_question import question_of
from gateway.serve.listen import listen, runner_for
from gateway.usage.insights.finding import INSIGHT_LIST, Insight
from gateway.usage.insights.finding import Status as InsightStatus
from gateway.usage.insights.store import InsightStore
from tests.support.findings import texts_of, wrong_with
from tests.support.running_gateway import running_gateway
from tests.support.shown import shown, text_of

TOKEN = Secret("admin-token-of-the-test")
BEARER = {"Authorization": f"Bearer {TOKEN.reveal()}"}


def lane(**fields: object) -> LaneStatus:
    made: LaneStatus = {
        "kept": 7, "delivered": 4, "pending": 3, "dead_lettered": 0, "expired": 0,
        "oldest_pending_age_s": 12.5, "state": "ok", "reason": None, "pending_bytes": 2048,
        "upstream": "https://upstream.example", "last_success_at": "2026-01-05T10:00:00.000Z", "last_send_s": 0.012, "send_p95_s": 2.5,
    }  # fmt: skip
    return {**made, **fields}  # type: ignore[typeddict-item]  # the test's own keywords


def figures(**fields: object) -> Status:
    edge = {"received": 20, "kept": 7, "duplicate": 2, "suppressed": 5, "rejected": 1, "ignored": 5}
    made: Status = {
        "edge": edge,
        "lanes": {"ai_telemetry": lane()},
        "reasons": {"suppressed.not_a_call": 5, "duplicate.span": 2},
        "unpriced": {"m-new": 3},
        "spool": {"used_bytes": 4096, "max_bytes": 8192, "file_bytes": 5000, "disk_free_bytes": 1 << 30},
        "quarantine": {"salvages": 0, "records": 0, "bytes": 0, "unacknowledged": 0, "lanes": {}, "latest": None},
        "devices": {"states": {"enrolled": 2, "blocked": 1}, "enrolments_waiting": 3, "telemetry_held_s": None},
        "version": "0.2.0",
        "reader": {
            "name": "python",
            "why_not_native": "it is not built",
            "other_reader": "build it",
            "native_spans": 0,
            "python_spans": {},
            "python_payloads": {},
        },
    }
    return {**made, **fields}  # type: ignore[typeddict-item]  # the test's own keywords


def insight(title: str, status: InsightStatus) -> Insight:
    return Insight(
        id=sha256(title.encode()).hexdigest()[:32],
        status=status,
        category="pricing",
        cost_impact=None,
        effort="low",
        title=title,
        last_updated="2026-01-05T10:00:00.000Z",
    )


class Found(NamedTuple):
    """Insights, as `gateway.operate.insights` asks for them."""

    page: Callable[[ListRequest], Awaitable[Page]]
    store: InsightStore


async def nothing(*_: Any) -> Any:
    return None


def pages_of(access: AdminAccess, **parts: Any) -> AdminParts:
    """Pages with nothing on them."""
    made = {"status": figures, "not_ready": nothing, "registry": CollectorRegistry()}
    return AdminParts(**{**made, "access": access, "unsettled": nothing, **parts})


@dataclass
class Admin:
    url: str
    access: AdminAccess
    status: Status
    now_s: float = 1000.0
    not_ready: str | None = None
    insights: Sequence[Insight] = ()
    unforeseen: int = 0

    def note_unforeseen(self) -> None:
        self.unforeseen += 1


Start = Callable[..., Awaitable[Admin]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    listeners = []

    async def started(*, loopback: bool = True, host_names: frozenset[str] = frozenset()) -> Admin:
        admin = Admin("", None, figures())  # type: ignore[arg-type]  # set below
        admin.access = AdminAccess(TOKEN, lambda: admin.now_s, os.urandom)
        registry = CollectorRegistry()
        registry.register(
            StatusCollector(lambda: admin.status, lambda: WebFigures(Counter({("/v1/traces", 200): 9}), 1, 2, 3))
        )

        async def not_ready() -> str | None:
            return admin.not_ready

        async def insights(request: ListRequest) -> Page:
            return page_of(
                request,
                list(enumerate(admin.insights)),
                field_of=lambda row, name: str(dict(row[1])[name]),
                id_of=lambda row: row[0],
                item_of=lambda row: row[1],
            )

        async def unsettled() -> Sequence[Insight]:
            return admin.insights

        parts = AdminParts(
            status=lambda: admin.status,
            not_ready=not_ready,
            registry=registry,
            access=admin.access,
            unsettled=unsettled,
            note_unforeseen=admin.note_unforeseen,
        )
        stores = AdminStores(status=lambda: admin.status, insights=Found(insights, None))  # type: ignore[arg-type]  # only the list is asked for
        app = admin_app(parts, stores, loopback=loopback, host_names=host_names)
        listener = await listen(runner_for(app), TcpAddress("127.0.0.1", 0))
        assert listener is not None
        listeners.append(listener)
        admin.url = f"http://{listener.address}"
        return admin

    yield started
    for listener in listeners:
        await listener.close()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


async def status_of(client: aiohttp.ClientSession, url: str, **headers: str) -> int:
    async with client.get(url, headers=headers, allow_redirects=False) as response:
        return response.status


async def test_probes_figures_and_nothing_else_are_open_on_loopback(
    start: Start, client: aiohttp.ClientSession
) -> None:
    admin = await start()
    statuses = {
        path: await status_of(client, admin.url + path) for path in ("/healthz", "/readyz", "/metrics", "/v2/status")
    }
    assert set(statuses.values()) == {200}, statuses
    for path in ("/", "/v2/anything", "/favicon.ico"):
        assert await status_of(client, admin.url + path) == 401
    async with client.get(admin.url + "/v2/status") as response:
        assert await response.json() == admin.status


async def test_beyond_loopback_only_the_probes_are_open(start: Start, client: aiohttp.ClientSession) -> None:
    admin = await start(loopback=False)
    assert await status_of(client, admin.url + "/healthz") == 200
    for path in ("/metrics", "/v2/status", "/"):
        assert await status_of(client, admin.url + path) == 401
        assert await status_of(client, admin.url + path, **BEARER) == 200


async def test_not_being_able_to_keep_data_is_not_ready_and_still_alive(
    start: Start, client: aiohttp.ClientSession
) -> None:
    admin = await start()
    admin.not_ready = "the spool is full"
    async with client.get(admin.url + "/readyz") as response:
        assert (response.status, await response.text()) == (503, "not ready: the spool is full\n")
    assert await status_of(client, admin.url + "/healthz") == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4319", "127.0.0.1.evil.example", "10.0.0.1", ""])
async def test_a_foreign_host_is_refused_everywhere_on_loopback(
    start: Start, client: aiohttp.ClientSession, host: str
) -> None:
    admin = await start()
    for path in ("/healthz", "/metrics", "/v2/status", "/", "/login"):
        assert await status_of(client, admin.url + path, Host=host, **BEARER) == 403


async def test_beyond_loopback_addresses_and_configured_names_are_ours(
    start: Start, client: aiohttp.ClientSession
) -> None:
    admin = await start(loopback=False, host_names=frozenset({"gateway.example"}))
    for host, status in (
        ("10.0.0.1:4319", 200),
        ("[fd00::1]", 200),
        ("Gateway.example:4319", 200),
        ("evil.example", 403),
    ):
        assert await status_of(client, admin.url + "/healthz", Host=host) == status


async def test_a_one_time_link_opens_a_session_once(start: Start, client: aiohttp.ClientSession) -> None:
    admin = await start()
    link = admin.url + admin.access.login_path()
    async with client.get(link, allow_redirects=False) as response:
        assert response.status == 303
        assert response.headers["Location"] == "/"
        cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "Secure" not in cookie, "over HTTP a browser would not send it"
    assert "SameSite=Strict" in cookie
    assert await status_of(client, admin.url + "/") == 200
    async with aiohttp.ClientSession() as other:
        assert await status_of(other, link) == 401
        assert await status_of(other, admin.url + "/", Cookie=f"{COOKIE}=guess") == 401


async def test_links_and_sessions_end_in_time(start: Start, client: aiohttp.ClientSession) -> None:
    admin = await start()
    late, used = admin.access.login_path(), admin.access.login_path()
    assert await status_of(client, admin.url + used) == 303
    admin.now_s += CODE_LIFE_S
    assert await status_of(client, admin.url + late) == 401
    assert await status_of(client, admin.url + "/") == 200
    admin.now_s += SESSION_LIFE_S
    assert await status_of(client, admin.url + "/") == 401


async def test_the_token_opens_a_session_through_the_form(start: Start, client: aiohttp.ClientSession) -> None:
    admin = await start()
    async with client.get(admin.url + "/", headers={"Accept": "text/html"}) as response:
        assert response.status == 401
        assert 'action="/login"' in await response.text()
    async with client.post(admin.url + "/login", data={"token": "wrong"}, allow_redirects=False) as response:
        assert response.status == 401
    async with client.post(admin.url + "/login", data={"token": TOKEN.reveal()}, allow_redirects=False) as response:
        assert response.status == 303
    assert await status_of(client, admin.url + "/") == 200


async def test_a_session_writes_only_from_a_page_of_this_listener(start: Start, client: aiohttp.ClientSession) -> None:
    admin = await start()
    await status_of(client, admin.url + admin.access.login_path())
    for origin, status in ((None, 401), ("http://evil.example", 401), ("null", 401), (admin.url, 201)):
        headers = {"Origin": origin} if origin else {}
        async with client.post(admin.url + "/v2/login-links", headers=headers) as response:
            assert response.status == status
    async with client.post(admin.url + "/logout", headers={"Origin": admin.url}, allow_redirects=False) as response:
        assert response.status == 303
    assert await status_of(client, admin.url + "/") == 401


async def test_everyone_with_the_token_can_ask_for_a_link(start: Start, client: aiohttp.ClientSession) -> None:
    admin = await start()
    async with client.post(admin.url + "/v2/login-links", headers=BEARER) as response:
        path = (await response.json())["path"]
    assert await status_of(client, admin.url + path) == 303


@pytest.mark.parametrize("role", ["root", ["viewer"], {"viewer": 1}, 1, None])
async def test_a_link_is_of_a_role_that_exists(start: Start, client: aiohttp.ClientSession, role: object) -> None:
    admin = await start()
    async with client.post(admin.url + "/v2/login-links", headers=BEARER, json={"role": role}) as response:
        assert response.status == 400
        assert "role: one of operator, viewer is needed" in await response.text()


async def test_errors_of_the_listener_are_json_and_name_no_cause(start: Start, client: aiohttp.ClientSession) -> None:
    admin = await start()
    async with client.post(admin.url + "/healthz") as response:
        assert response.status == 405
        assert "GET" in response.headers["Allow"]
        assert (await response.json())["error"]["type"] == "method_not_allowed"
    async with client.get(admin.url + "/nowhere", headers=BEARER) as response:
        assert response.status == 404
        assert (await response.json())["error"]["type"] == "not_found"
    async with client.get(admin.url + "/nowhere", headers={**BEARER, "Accept": "text/html"}) as response:
        assert response.status == 404
        assert "There is no page at this address." in await response.text()
    admin.status = {"lanes": {}}  # type: ignore[typeddict-item]  # a fault of ours
    async with client.get(admin.url + "/", headers=BEARER) as response:
        assert response.status == 503
        assert "edge" not in await response.text()
    assert admin.unforeseen == 1


async def test_the_page_needs_nothing_from_elsewhere_and_cannot_be_framed(
    start: Start, client: aiohttp.ClientSession
) -> None:
    admin = await start()
    async with client.get(admin.url + "/", headers=BEARER) as response:
        policy = response.headers["Content-Security-Policy"]
        text = await response.text()
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-inline" not in policy
    addresses = re.findall(r'(?:src|href|action)="([^"]*)"', text)
    assert addresses
    assert not [address for address in addresses if not re.match(r"/(?!/)|#", address)]
    assert not re.search(r"<style|<script>|\sstyle=|\son\w+=", text)
    for address in {each for each in addresses if each.startswith("/assets/")}:
        async with client.get(admin.url + address) as response:
            assert (response.status, response.headers["Cache-Control"]) == (200, "public, max-age=31536000, immutable")


async def test_insights_take_the_token_and_follow_the_list_conventions(
    start: Start, client: aiohttp.ClientSession
) -> None:
    admin = await start()
    admin.insights = [insight(f"insight {n}", "new" if n % 2 else "ignored") for n in range(5)]
    assert await status_of(client, admin.url + "/v2/insights") == 401
    async with client.get(admin.url + "/v2/insights?status=new&sort_key=title&limit=1", headers=BEARER) as response:
        body = await response.json()
    assert body["insights"] == [admin.insights[1]]
    assert (body["pagination"]["total_count"], body["pagination"]["cursor"]["has_next"]) == (2, True)
    assert body["filtering"]["current"] == {"status": ["new"]}
    assert body["sorting"]["current"] == [{"sort_key": "title", "sort_order": "asc"}]
    async with client.get(admin.url + "/v2/insights?status=old", headers=BEARER) as response:
        assert response.status == 400
        fault = (await response.json())["error"]
        assert "status: one of new" in fault["message"]
        assert fault["type"] == "invalid_request"


def overview_of(status: Status) -> dict[str, Any]:
    """Without usage."""
    return overview.overview(status, wrong_with(status), [], question_of([]), NOTHING, 1_767_607_200_000)


def test_the_page_lists_what_to_look_at() -> None:
    text = text_of(shown(insights.VIEW, insights.insights(answer_of([insight("insight 1", "new")]))))
    assert "insight 1" in text
    assert "1 insight" in text
    assert "unknown" in text, "a cost that nobody knows is not 0"


def answer_of(found: list[Insight]) -> dict[str, Any]:
    """As the list of insights answers."""
    return envelope(INSIGHT_LIST, read_request(INSIGHT_LIST, ()), Page(found, len(found), None, None))


def test_the_page_shows_both_identities_and_the_lanes() -> None:
    text = text_of(shown(delivery.VIEW, delivery.delivery(figures())))
    assert "received 20 = kept 7 + duplicate 2 + suppressed 5 + rejected 1 + ignored 5" in text
    assert "kept 7 = delivered 4 + pending 3 + dead lettered 0 + expired 0" in text
    assert (
        "ai_telemetry AI calls ok https://upstream.example 2026-01-05 10:00:00 UTC 12 ms 2.5 s 3 2.0 KiB 12 s" in text
    )
    assert "ai_telemetry 7 = 4 3 0 0 0" in text
    for word in ("4.0 KiB", "of 8.0 KiB"):
        assert word in text


BILLING = {
    "connection": "conn-1", "state": "held", "reason": "billing: HTTP 404: connection_unknown", "days_due": 2, "days_refused": 1,
    "days_dropped": 28, "last_dropped_at": "2026-01-05T10:00:00.000Z",
}  # fmt: skip


def test_the_lane_of_billing_is_on_the_page_and_in_the_metrics_where_it_is_configured() -> None:
    status = figures(billing=BILLING)
    text = text_of(shown(delivery.VIEW, delivery.delivery(status)))
    assert "conn-1 held billing: HTTP 404: connection_unknown 2026-01-05 10:00:00 UTC 2 1 28" in text
    assert "<h2>Billing</h2>" not in shown(delivery.VIEW, delivery.delivery(figures(billing=None)))
    assert "lane billing: held, 2 days are due: billing: HTTP 404: connection_unknown" in texts_of(status)
    (days, states) = billing_metrics(status["billing"])
    assert {sample.labels["state"]: sample.value for sample in days.samples} == {"due": 2, "refused": 1, "dropped": 28}
    assert [sample.labels["state"] for sample in states.samples if sample.value] == ["held"]
    assert [list(metric.samples) for metric in billing_metrics(None)] == [[], []]


async def test_the_lane_of_billing_is_among_those_that_the_log_follows(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, billing={"connection": "conn-1"}) as gateway:
        assert gateway.status.logged_lanes()["billing"].keys() == {"pending", "state", "reason"}
        assert "billing" not in gateway.status()["lanes"], "its days are no records"


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({}, "fault", "held, 2 days are due: billing: HTTP 404"),
        ({"state": "retrying"}, "warning", "retrying"),
        ({"state": "ok", "reason": None}, "fault", "1 day was refused"),
        ({"state": "ok", "reason": None, "days_refused": 0}, "ok", "ok, 2 days are due"),
    ],
)
def test_doctor_states_how_the_lane_of_billing_fares(changes: dict[str, object], level: str, words: str) -> None:
    found = of_billing({**BILLING, **changes})
    assert (found.level, words in found.whole) == (level, True)


def test_a_lane_whose_bytes_are_not_counted_has_unknown_ones() -> None:
    """The lane of devices has rows of control.db."""
    devices = lane()
    del devices["pending_bytes"]
    text = text_of(shown(delivery.VIEW, delivery.delivery(figures(lanes={"devices": devices}))))
    assert "3 unknown 12 s" in text


def test_the_overview_states_that_all_is_well() -> None:
    assert "Every item is accounted for" in text_of(shown(overview.VIEW, overview_of(figures(unpriced={}))))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (figures(edge={**figures()["edge"], "kept": 8}), "what was received is not accounted for"),
        (figures(lanes={"a": lane(delivered=5)}), "Lane a : its counts do not add up."),
        (
            figures(lanes={"a": lane(state="held", reason="401 from the upstream")}),
            "Lane a : held, 3 records wait. 401 from the upstream.",
        ),
        (figures(lanes={"a": lane(state="off")}), "Lane a : off, 3 records wait."),
        (
            figures(dead_letters=[{"lane": "a", "reason": "bad", "records": 1}]),
            "1 record was refused by the upstream of lane a (bad).",
        ),
    ],
)
def test_the_page_says_first_what_is_wrong(status: Status, words: str) -> None:
    text = text_of(shown(overview.VIEW, overview_of(status)))
    assert words in text
    assert "Every item is accounted for" not in text
    if "add up" in words:
        assert "≠" in shown(delivery.VIEW, delivery.delivery(status))


def test_everything_on_the_page_is_escaped() -> None:
    evil = "<img src=x onerror=alert(1)>\"'&\x1b[31m\u202egpj.exe\u2066\x9b"
    status = figures(lanes={evil: lane(state="held", reason=evil)})
    pages = [
        shown(overview.VIEW, overview_of(status)),
        shown(delivery.VIEW, delivery.delivery(status)),
        shown(insights.VIEW, insights.insights(answer_of([insight(evil, "new")]))),
    ]
    assert [text.count("&lt;img src=x") for text in pages] == [3, 3, 1]
    assert not [text for text in pages if "<img src=x" in text]
    assert not [text for text in pages if set("\x1b\u202e\u2066\x9b") & set(text)]


async def test_metrics_are_readable_complete_and_agree_with_the_status(
    start: Start, client: aiohttp.ClientSession
) -> None:
    admin = await start()
    async with client.get(admin.url + "/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        families = {family.name: family for family in text_string_to_metric_families(await response.text())}
    assert set(families) == {name.name for name in NAMES}
    for name in NAMES:
        assert families[name.name].type == name.kind
        assert all(set(sample.labels) == set(name.labels) for sample in families[name.name].samples)
    items = {sample.labels["fate"]: sample.value for sample in families["telemetry_gateway_items"].samples}
    assert items == {outcome: n for outcome, n in admin.status["edge"].items() if outcome != "received"}
    states = {s.labels["state"]: s.value for s in families["telemetry_gateway_lane_state"].samples}
    assert states == {"ok": 1, "behind": 0, "retrying": 0, "held": 0, "off": 0}


async def test_refusals_that_an_otlp_upstream_did_not_name_are_counted(
    start: Start, client: aiohttp.ClientSession
) -> None:
    admin = await start()
    admin.status = figures(lanes={"backend": lane(unnamed_refusals=2)})
    async with client.get(admin.url + "/metrics") as response:
        assert 'telemetry_gateway_lane_unnamed_refusals_total{lane="backend"} 2.0' in await response.text()


async def test_a_salvaged_spool_is_ready_and_degraded(start: Start, client: aiohttp.ClientSession) -> None:
    admin = await start()
    latest = {"at_ms": 1, "folder": "20260105T100000Z", "records": None, "why": "a page", "damaged": {"chunk": 1}}
    latest |= {"lanes": {"ai_telemetry": 7}, "since_ms": 1_767_607_200_000, "acknowledged": False}
    quarantine = {"salvages": 2, "records": None, "bytes": 8192, "unacknowledged": 1, "lanes": {"ai_telemetry": 3}}
    admin.status = figures(quarantine=quarantine | {"latest": latest})
    async with client.get(admin.url + "/readyz") as response:
        assert response.status == 200
        text = await response.text()
    assert text.startswith("ready, degraded: the spool was damaged (a page): an unknown number of records")
    assert "(at 2026-01-05T10:00:00.000Z it held ai_telemetry 7)" in text
    assert "not refused by the upstream" in text
    async with client.get(admin.url + "/metrics") as response:
        text = await response.text()
    assert "telemetry_gateway_quarantine_bytes 8192.0" in text
    assert "\ntelemetry_gateway_quarantined_records " not in text, "unknown is not 0"
    assert 'telemetry_gateway_spool_lost_records{lane="ai_telemetry"} 3.0' in text
    assert "telemetry_gateway_spool_unacknowledged_losses 1.0" in text
    admin.status = figures(quarantine=quarantine | {"latest": latest, "unacknowledged": 0})
    async with client.get(admin.url + "/readyz") as response:
        assert await response.text() == "ready\n"


def test_the_admin_token_is_made_once_and_for_the_owner_only(tmp_path: Path) -> None:
    first = token_of(tmp_path, Role.OPERATOR, os.urandom)
    assert token_of(tmp_path, Role.OPERATOR, os.urandom) == first
    assert len(first.reveal()) >= 40
    assert stat.S_IMODE((tmp_path / "admin-token").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"\xff" * 40, b"two words and more of them"])
def test_a_token_file_that_holds_none_opens_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "admin-token").write_bytes(content)
    with pytest.raises(OSError, match="admin-token holds no token"):
        token_of(tmp_path, Role.OPERATOR, os.urandom)


async def test_a_form_that_cannot_be_read_is_no_fault_of_ours(start: Start, client: aiohttp.ClientSession) -> None:
    admin = await start()
    form = "application/x-www-form-urlencoded; charset="
    sent = ((form + "nobody-knows", 400), ("multipart/form-data", 400), (form + "utf-7", 401))
    for content_type, status in sent:
        headers = {"Content-Type": content_type}
        async with client.post(admin.url + "/login", data=b"token=+2AA-", headers=headers) as response:
            assert response.status == status


def test_codes_are_bounded_and_the_oldest_goes_first() -> None:
    codes = Expiring(10, lambda: 0.0, os.urandom)
    issued = [codes.issue() for _ in range(MAX_ENTRIES + 1)]
    assert codes.find(issued[0]) is None
    assert all(codes.find(code) for code in issued[1:])
