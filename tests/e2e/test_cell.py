"""Several gateways on one Postgres count as one, whatever dies."""

import asyncio
import gzip
import itertools
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.processes import HANGS_S
from benchmarks.scenario import fetch
from gateway.observability.cell import CELL_NAMES
from gateway.serve.http.to_owner import ANSWER_S
from tests.support.cell_processes import (
    PROTOBUF,
    Cell,
    Traffic,
    check_all_is_there_once,
    owns,
    running_cell,
    send,
    stopped,
)
from tests.support.commands import run_command, run_telemetry_gateway
from tests.support.device_senders import (
    JSON,
    Message,
    enrolled_at,
    heartbeat,
    ping,
    resource_spans,
    telemetry,
    telemetry_of,
)
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import wait_until_true
from tests.support.postgres import needs_postgres, running_server
from tests.support.spans import call_span
from tests.support.worst_bodies import series

pytestmark = needs_postgres


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[Cell]:
    with running_cell(tmp_path) as running:
        yield running


FIRST_CONTACTS = 500


def contacts_of(device: str, messages: int) -> list[Message]:
    """Of all three kinds, as they come in any order."""
    kinds = (lambda: heartbeat(device), lambda: ping(device), lambda: telemetry_of(device))
    return [kinds[number % 3]() for number in range(messages)]


async def post_at_once(cell: Cell, messages: Sequence[Message]) -> list[int]:
    """Each on a connection of its own, to the gateways in turn, again until it is taken; the
    statuses.
    """
    limits = httpx.Limits(max_connections=len(messages))
    async with httpx.AsyncClient(limits=limits, headers=JSON, timeout=HANGS_S) as client:

        async def post(url: str, message: Message) -> int:
            while (answer := await client.post(url + message.path, content=message.body)).status_code == 503:
                pass
            return answer.status_code

        urls = itertools.cycle(each.intake_url for each in cell.gateways)
        return await asyncio.gather(*(post(url, message) for url, message in zip(urls, messages, strict=False)))


def test_calls_of_all_gateways_are_counted_once(cell: Cell) -> None:
    for gateway in cell.gateways:
        assert send(gateway, "the same") == 200
        assert send(gateway, f"of {gateway.data_dir}") == 200
    cell.wait_until_delivered(4)
    wait_until_true(lambda: cell.ask(cell.gateways[0], "/v2/status")["edge"]["received"] == 6, what="all counted")
    edge = cell.ask(cell.gateways[1], "/v2/status")["edge"]
    assert (edge["received"], edge["kept"], edge["duplicate"]) == (6, 4, 2)
    assert len(cell.service.records()) == 4


def test_an_owner_that_is_killed_loses_and_repeats_nothing(cell: Cell) -> None:
    with Traffic(cell) as traffic:
        traffic.wait_for(50)
        owner = cell.owner()
        owner.kill()
        traffic.wait_for(50)
        assert cell.owner() is not owner
        owner.start()
        traffic.wait_for(50)
    check_all_is_there_once(cell, traffic)
    shown = cell.ask(owner, "/v2/status")["cell"]
    assert (shown["epoch"], shown["why"]) == (2, "expired")
    assert len(shown["members"]) == 3


def test_an_owner_that_was_stopped_for_longer_than_its_lease_changes_nothing_any_more(cell: Cell) -> None:
    with Traffic(cell) as traffic:
        traffic.wait_for(50)
        owner = cell.owner()
        with stopped(owner):
            wait_until_true(lambda: any(owns(x) for x in cell.gateways if x is not owner), what="another owner")
        traffic.wait_for(50)
        wait_until_true(lambda: not owns(owner), what="an owner that noticed")
    check_all_is_there_once(cell, traffic)
    assert "cell lost" in owner.log.read_text()


def test_a_gateway_that_stops_hands_the_cell_over(cell: Cell) -> None:
    assert cell.owner().stop() == 0
    assert cell.ask(cell.owner(), "/v2/status")["cell"]["why"] == "released"


def test_events_unit_cost_and_devices_are_taken_at_any_gateway_and_known_again_at_another(cell: Cell) -> None:
    cell.wait_until_owned()
    event = {
        "event_id": "e1",
        "type": "report.generated",
        "title": "Report",
        "source": "shop",
        "time": "2026-01-05T12:00:00Z",
    }
    first, second, third = [httpx.post(f"{each.intake_url}/v1/events", json=event) for each in cell.gateways]
    assert [each.status_code for each in (first, second, third)] == [202, 202, 202], first.text
    assert [json.loads(each.text)["duplicate"] for each in (first, second, third)] == [0, 1, 1]
    wait_until_true(lambda: len(cell.service.event_ids()) >= 1, what="the event at the service")
    for n, gateway in enumerate(cell.gateways, 1):
        beat = httpx.post(
            f"{gateway.intake_url}/v1/devices/laptop-7/heartbeat",
            json={"instance_id": "i-1", "sequence": n, "status": "active"},
        )
        assert beat.status_code == 202, beat.text
    assert len(cell.service.event_ids()) == 1
    listed = cell.ask(cell.gateways[2], "/v2/devices")["devices"]
    assert [each["device_id"] for each in listed].count("laptop-7") == 1


def test_a_device_enrolls_once_whichever_gateways_it_meets_first(cell: Cell) -> None:
    cell.wait_until_owned()
    devices = [f"laptop-{number}" for number in range(FIRST_CONTACTS // 50)]
    messages = [message for each in devices for message in contacts_of(each, FIRST_CONTACTS // len(devices))]
    statuses = asyncio.run(post_at_once(cell, messages))
    assert len(statuses) == FIRST_CONTACTS
    assert {*statuses} <= {200, 202}, statuses

    def enrolled() -> dict[str, int]:
        found = enrolled_at(cell.service.data_dir / "service")
        return {device.device_id: device.enrolments for device in found}

    wait_until_true(lambda: len(enrolled()) == len(devices), what="all devices at the service")
    wait_until_true(lambda: not cell.ask(cell.gateways[0], "/v2/status")["lanes"]["devices"]["pending"], what="no more")
    assert enrolled() == dict.fromkeys(devices, 1)


def test_a_blocked_device_is_refused_at_each_gateway_and_others_beside_it_are_not(cell: Cell) -> None:
    cell.wait_until_owned()

    def post(gateway: GatewayProcess, *devices: str) -> httpx.Response:
        sent = [resource_spans({"service.name": "checkout", "device.id": device}) for device in devices]
        message = telemetry(*sent)
        return httpx.post(gateway.intake_url + message.path, content=message.body, headers=JSON)

    assert [post(each, "lost", "kept").status_code for each in cell.gateways] == [200, 200, 200]
    cell.wait_until_delivered(6)
    cell.ask(cell.gateways[0], "/v2/devices/lost/block", "POST")

    def all_answer(status: int) -> bool:
        return all(post(each, "lost").status_code == status for each in cell.gateways)

    wait_until_true(lambda: all_answer(403), what="the device is refused")
    assert len(cell.service.records()) == 6  # what came before a gateway knew was left out by the owner
    answers = [post(each, "lost", "kept") for each in cell.gateways]
    assert [(each.status_code, each.json()["partialSuccess"]["rejectedSpans"]) for each in answers] == [(200, "1")] * 3
    cell.wait_until_delivered(9)
    cell.ask(cell.gateways[0], "/v2/devices/lost/unblock", "POST")
    wait_until_true(lambda: all_answer(200), what="the device is let in again")
    cell.wait_until_delivered(12)
    assert broken_identities(cell.ask(cell.gateways[0], "/v2/status")) == []


def test_a_key_holds_at_every_gateway_within_a_second(cell: Cell) -> None:
    cell.wait_until_owned()
    made = cell.ask(
        cell.gateways[0], "/v2/keys", "POST", {"name": "checkout", "managed": ["send-ai-telemetry"], "confirmed": True}
    )
    headers = {**PROTOBUF, "Authorization": made["secret"]}

    def status(gateway: GatewayProcess) -> int:
        url, body = f"{gateway.intake_url}/v1/traces", call_span("keyed", (1, 1))
        return httpx.post(url, headers=headers, content=body).status_code

    for gateway in cell.gateways:
        wait_until_true(lambda each=gateway: status(each) == 200, timeout_s=5, what="a key that is known")  # type: ignore[misc]  # the default binds the round's gateway
    cell.ask(cell.gateways[1], f"/v2/keys/{made['id']}/disable", "POST", {})
    for gateway in cell.gateways:
        wait_until_true(lambda each=gateway: status(each) == 401, timeout_s=5, what="a key that is refused")  # type: ignore[misc]  # as above
    check_limited(cell)


def check_limited(cell: Cell) -> None:
    """A limited key and token see their team at every gateway, and a revoked one nothing."""
    first, second, third = cell.gateways
    limited = ("--team", "checkout", "--json")
    scopes = ("--scope", "insights:read_insights", "--scope", "billing:read_costs")
    key = run_command(first, "keys", "create", "--yes", "--name", "reader", *scopes, *limited).json["secret"]
    token = run_command(first, "viewer-tokens", "create", "leads", *limited).json
    asked = [
        (key, "intake_url", "/v2/insights", 200), (key, "admin_url", "/v2/billing/costs", 200),
        (key, "admin_url", "/metrics", 403), (token["secret"], "admin_url", "/v2/usage", 200),
        (token["secret"], "admin_url", "/v2/usage?team=search", 403), (token["secret"], "admin_url", "/v2/devices", 403),
        (token["secret"], "admin_url", "/metrics", 403),
    ]  # fmt: skip
    with httpx.Client(timeout=HANGS_S) as client:

        def status(gateway: GatewayProcess, credential: str, port: str, path: str) -> int:
            return client.get(getattr(gateway, port) + path, headers={"Authorization": credential}).status_code

        for gateway in (second, third):
            for credential, port, path, expected in asked:
                known = lambda: status(gateway, credential, port, path) == expected  # noqa: B023, E731 - used at once
                wait_until_true(known, timeout_s=1, what=f"{port}{path} is {expected}")
        assert run_command(second, "viewer-tokens", "revoke", token["id"]).code == 0
        for gateway in cell.gateways:
            is_gone = lambda: status(gateway, token["secret"], "admin_url", "/v2/usage") == 401  # noqa: B023, E731 - the same
            wait_until_true(is_gone, timeout_s=1, what="refused")


def new_key(cell: Cell, **limits: int) -> str:
    asked = {"name": f"events {limits}", "scopes": ["events_v1:create_event"], "limits": limits, "confirmed": True}
    return str(cell.ask(cell.gateways[0], "/v2/keys", "POST", asked)["secret"])


def post_event(gateway: GatewayProcess, key: str, event: dict[str, str]) -> int:
    """Compressed, and larger when it is plain. The status, once the key is known."""
    body = gzip.compress(json.dumps(event).encode() + b" " * 2_000)
    headers = {"Authorization": key, "Content-Type": "application/json", "Content-Encoding": "gzip"}
    found: list[int] = []

    def is_known() -> bool:
        found.append(httpx.post(f"{gateway.intake_url}/v1/events", content=body, headers=headers).status_code)
        return found[-1] != 401

    wait_until_true(is_known, what="a key that is known")
    return found[-1]


def test_what_is_passed_on_is_charged_once_by_its_plain_size(cell: Cell) -> None:
    """Each gateway has a part of a quota: one request at least, and a third of the bytes."""
    cell.wait_until_owned()
    event = {"type": "report.generated", "title": "Report", "source": "shop", "time": "2026-01-05T12:00:00Z"}
    key = new_key(cell, requests_per_minute=1)
    assert [post_event(each, key, {"event_id": f"e{n}", **event}) for n, each in enumerate(cell.gateways)] == [202] * 3
    key = new_key(cell, bytes_per_minute=3_000)
    assert [post_event(cell.gateways[0], key, {"event_id": f"f{n}", **event}) for n in range(2)] == [202, 429]


def test_a_reload_during_a_takeover_holds_at_the_new_owner(cell: Cell) -> None:
    owner = cell.owner()
    (heir, other) = cell.others()
    other.kill()
    with cell.migrations_held():
        owner.kill()
        wait_until_true(lambda: "cell taken" in heir.log.read_text(), what="a takeover")
        settings = json.loads((heir.data_dir.parent / "config.yaml").read_text())
        settings["limits"] = {"max_body_bytes": "2KiB"}
        (heir.data_dir.parent / "config.yaml").write_text(json.dumps(settings))
        os.kill(heir.process.pid, signal.SIGHUP)
        wait_until_true(lambda: "configuration reloaded" in heir.log.read_text(), what="a reload")
        assert "cell owned" not in heir.log.read_text()
    assert cell.owner() is heir
    answer = httpx.post(
        f"http://{cell.internal_address()}/v1/events", content=b" " * 4096, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413


def test_a_command_asks_whichever_gateway_runs(cell: Cell) -> None:
    cell.wait_until_owned()
    assert send(cell.gateways[0], "for usage") == 200
    cell.wait_until_delivered(1)
    other = cell.others()[0]
    wait_until_true(
        lambda: '"calls": 1' in run_command(other, "usage", "--json", "--from", "2025-12-01").out,
        what="usage by a command",
    )


def test_status_names_owner_gateways_and_journal_at_any_gateway(cell: Cell) -> None:
    cell.wait_until_owned()
    assert send(cell.gateways[0], "for status") == 200
    cell.wait_until_delivered(1)
    shown = run_command(cell.others()[0], "status")
    assert shown.code == 0, shown.out + shown.err
    assert f"cell       owner {socket.gethostname()} (epoch 1, start, since " in shown.out
    assert "; journal " in shown.out
    assert [line.split()[1] for line in shown.out.splitlines() if line.startswith(socket.gethostname())] == [
        "owner" if owns(each) else "alive" for each in cell.gateways
    ]
    found = run_command(cell.others()[0], "status", "--json").json
    assert (found["state"], found["cell"]["epoch"], len(found["cell"]["members"])) == ("well", 1, 3)


def test_a_gateway_that_reaches_no_owner_says_so_and_what_to_do(cell: Cell) -> None:
    cell.owner()
    cell.take_away()
    metrics = f"{cell.gateways[1].admin_url}/metrics"
    wait_until_true(lambda: b"telemetry_gateway_cell_epoch 2.0" in fetch(metrics), what="a gateway that saw it")
    shown = run_command(cell.gateways[1], "status")
    assert shown.code == 1
    assert "gateway    runs, and no owner of its cell answers (process" in shown.out
    text = "this gateway runs, but the owner of the cell cannot take it now: no gateway owns the cell now"
    assert f"FAULT   cell: {text}\n        -> wait some seconds" in shown.out
    doctor = run_telemetry_gateway("doctor", "--config", str(cell.gateways[1].data_dir.parent / "config.yaml"))
    assert f"FAULT   cell: {text}" in doctor.out
    assert "WARNING cell: no gateway owns it" in doctor.out
    check_page_of_no_owner(cell.gateways[1])


def test_an_owner_whose_database_went_back_counts_nothing_until_that_is_settled(cell: Cell) -> None:
    """As where a standby that lacks its last commits was promoted below it."""
    owner = cell.owner()
    assert send(owner, "before") == 200
    cell.wait_until_delivered(1)
    cell.change("UPDATE cell SET turn = 0")
    wait_until_true(lambda: not any(map(owns, cell.gateways)), what="an owner that gave up")
    wait_until_true(lambda: "restored to an earlier moment" in owner.log.read_text(), what="a log that says so")
    assert send(owner, "while held") == 200
    config = str(owner.data_dir.parent / "config.yaml")
    assert "the database was restored to an earlier moment" in run_telemetry_gateway("doctor", "--config", config).out
    restored = run_telemetry_gateway("store", "restored", "--config", config)
    assert restored.code == 0, restored.err
    cell.wait_until_delivered(2)


def check_page_of_no_owner(gateway: GatewayProcess) -> None:
    """It asks again by itself, and has its style without an owner."""
    page = httpx.get(gateway.admin_url, headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["Refresh"]) == (503, page.headers["Retry-After"])
    assert "no gateway owns the cell now" in page.text
    assets = re.findall(r'(?:href|src)="(/assets/[^"]+)"', page.text)
    assert len(assets) >= 2
    assert {httpx.get(gateway.admin_url + each).status_code for each in assets} == {200}
    assert httpx.get(f"{gateway.admin_url}/assets/of-another-release.css").status_code == 503


def test_each_gateway_has_metrics_of_its_own_and_the_owner_those_of_counting_too(cell: Cell) -> None:
    owner, other = cell.owner(), cell.others()[0]
    alive = 'telemetry_gateway_cell_members{state="alive"} 3.0'
    wait_until_true(lambda: alive in fetch(f"{other.admin_url}/metrics").decode(), what="a look at all members")
    texts = [fetch(f"{each.admin_url}/metrics").decode() for each in (owner, other)]
    families = [{family.name for family in text_string_to_metric_families(text)} for text in texts]
    own = {name.name for name in CELL_NAMES}
    assert own <= families[0] & families[1]
    assert "telemetry_gateway_lane_records" in families[0] - families[1]


def test_a_sender_of_too_many_series_waits_at_each_gateway(tmp_path: Path) -> None:
    """The owner counts them; their calls are taken."""
    with running_cell(tmp_path, gateways=2, limits={"max_source_series": 1000}) as cell:
        cell.wait_until_owned()
        owner, other = cell.owner(), cell.others()[0]

        def post(gateway: GatewayProcess, first: int, many: int) -> httpx.Response:
            return httpx.post(f"{gateway.intake_url}/v1/metrics", content=series(first, many), headers=PROTOBUF)

        assert post(other, 0, 999).status_code == 200
        assert post(other, 999, 1).status_code == 200
        for each in (other, owner):
            wait_until_true(lambda each=each: post(each, 0, 1).status_code == 429, what="a sender that must wait")
        refused = post(other, 0, 1)
        assert "raise limits.max_source_series" in refused.text
        assert 0 < int(refused.headers["Retry-After"]) <= 600
        assert send(other, "a call") == 200


def test_what_senders_ask_of_the_owner_is_refused_soon_while_no_commit_is_answered(tmp_path: Path) -> None:
    """As telemetry is: one that would be passed on would wait for a minute."""
    with running_server() as server, running_cell(tmp_path, gateways=2, server=server) as cell:
        cell.wait_until_owned()

        def post(gateway: GatewayProcess) -> int:
            event = {"event_id": "e1", "type": "report.generated", "title": "Report", "source": "shop"}
            return httpx.post(f"{gateway.intake_url}/v1/events", json=event, timeout=HANGS_S).status_code

        def is_ready(gateway: GatewayProcess) -> bool:
            return httpx.get(f"{gateway.admin_url}/readyz").status_code == 200

        def standby(name: str) -> None:
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
                connection.execute("SELECT pg_reload_conf()")

        standby("nobody")
        for each in cell.gateways:
            wait_until_true(lambda each=each: not is_ready(each), what="a gateway that is not ready")
            began_s = time.monotonic()
            assert post(each) == 503
            assert time.monotonic() - began_s < ANSWER_S / 10
        standby("")
        wait_until_true(lambda: {post(each) for each in cell.gateways} == {202}, what="events are taken again")


@pytest.mark.parametrize("is_owner", [True, False], ids=["the owner", "another one"])
def test_a_gateway_stops_while_the_database_hangs(tmp_path: Path, is_owner: bool) -> None:  # noqa: FBT001 - a parameter
    """With a call that waits for it, which is not acknowledged."""
    with running_server() as server, running_cell(tmp_path, 2, server) as cell:
        gateway = cell.owner() if is_owner else cell.others()[0]
        with server.paused():
            answers: list[int] = []
            sending = threading.Thread(target=lambda: answers.append(send(gateway, "waits")))
            sending.start()
            assert gateway.stop() == 0
            sending.join()
        assert answers[0] != 200
        assert "Traceback" not in gateway.log.read_text()


def test_a_gateway_stops_while_there_is_no_database(tmp_path: Path) -> None:
    with running_server() as server, running_cell(tmp_path, 2, server) as cell:
        gateway = cell.owner()
        server.stop()
        try:
            assert gateway.stop() == 0
        finally:
            server.start()
        assert "Traceback" not in gateway.log.read_text()


def test_a_gateway_with_another_secret_is_refused(cell: Cell) -> None:
    (cell.folder / "cell-secret").write_text("another secret that is long enough for a cell")
    gateway = cell.gateways[0]
    gateway.kill()
    with pytest.raises(Exception, match=r"store\.secret"):
        gateway.start()
