"""Devices of the real process: enrolled by what they post, blocked over restarts, in the
hands of an operator's commands.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from gateway.cli.keys import person
from gateway.common.wall_clock import wall_ms
from spool.record import DEVICES
from spool.settings import SpoolSettings
from spool.sqlite.spool import SqliteSpool
from spool.store import ItemCounts
from tests.support.device_senders import (
    JSON,
    Message,
    enrolled_at,
    heartbeat,
    ping,
    resource_spans,
    run_command,
    run_devices,
    telemetry,
    telemetry_of,
)
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import until_true


class Rig:
    def __init__(self, gateway: GatewayProcess, session: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self.session = session

    async def post(self, message: Message) -> tuple[int, dict[str, Any]]:
        async with self.session.post(self.gateway.intake_url + message.path, data=message.body, headers=JSON) as answer:
            return answer.status, await answer.json()

    async def command(self, *arguments: str, runs: bool = True) -> dict[str, Any]:
        ended = await asyncio.to_thread(run_devices, self.gateway, *arguments, "--json", runs=runs)
        assert ended.code == 0, ended.err
        answer: dict[str, Any] = json.loads(ended.out)
        return answer

    def service_devices(self) -> dict[str, int]:
        """Device -> enrolments, as the embedded service has them."""
        return {each.device_id: each.enrolments for each in enrolled_at(self.gateway.data_dir / "service")}

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        await until_true(condition, what=what)

    async def restart(self) -> None:
        self.gateway.kill()
        await asyncio.to_thread(self.gateway.restart)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    with GatewayProcess(tmp_path) as gateway:
        async with aiohttp.ClientSession() as session:
            yield Rig(gateway, session)


async def test_each_way_of_first_contact_enrols_and_the_gateway_is_a_device_too(rig: Rig) -> None:
    status, answer = await rig.post(heartbeat("laptop"))
    assert (status, answer) == (
        202, {"accepted": 1, "rejected": [], "state": answer["state"], "heartbeat_interval_s": 60.0}
    )  # fmt: skip
    assert (await rig.post(ping("printer")))[0] == 202
    assert (await rig.post(Message("/v1/devices", b'{"device_id":"rack/1","kind":"server","labels":{"team":"core"}}')))[
        0
    ] == 202
    assert (await rig.post(telemetry_of("node-1")))[0] == 200
    wanted = {"laptop": 1, "printer": 1, "rack/1": 1, "node-1": 1}
    await rig.until(lambda: rig.service_devices() == wanted, "enrolled")
    await rig.until(lambda: rig.gateway.status()["lanes"]["devices"]["pending"] == 0, "delivered")
    listed = await rig.command("list", "--kind", "gateway")
    assert [device["first_contact"] for device in listed["devices"]] == ["gateway"]
    assert (await rig.command("show", "rack/1"))["labels"] == {"team": "core"}
    status_now = rig.gateway.status()
    assert status_now["lanes"]["devices"]["delivered"] == 3
    assert not broken_identities(status_now)


def enrolment(**fields: object) -> Message:
    return Message("/v1/devices", json.dumps({"device_id": "a", **fields}).encode())


def beat(**fields: object) -> Message:
    return Message("/v1/devices/a/heartbeat", json.dumps({"instance_id": "i", "sequence": 1, **fields}).encode())


MANY = {f"n{n}": "x" for n in range(65)}
REFUSALS = (
    (Message("/v1/devices", b"{}"), "device_id must be a text of 1 to 128 characters"),
    (enrolment(device_id="a\nb"), "device_id"),
    (enrolment(device_id="x" * 129), "device_id"),
    (enrolment(device_id=".."), "device_id"),
    (enrolment(instance_id=7), "instance_id must be a text of 1 to 128 characters"),
    (enrolment(kind="toaster"), "kind must be one of workstation, server, gateway"),
    (enrolment(host=["linux"]), "host must be an object of texts"),
    (enrolment(client={"name": "x" * 129}), "a value in client must be a text of 1 to 128 characters"),
    (enrolment(labels={"x": 1}), "a value in labels must be a text of 1 to 128 characters"),
    (enrolment(labels={"": "x"}), "a name in labels must be a text of 1 to 128 characters"),
    (enrolment(labels=MANY), "labels must have at most 64 entries"),
    (Message("/v1/devices/%00/ping", b"{}"), "device_id"),
    (Message("/v1/devices/a/heartbeat", b"nonsense"), "the body is not valid JSON (line 1, column 1)"),
    (Message("/v1/devices/a/heartbeat", b"[]"), "the body must be a JSON object"),
    (beat(instance_id=None), "instance_id must be a text of 1 to 128 characters"),
    (beat(instance_id=""), "instance_id must be a text of 1 to 128 characters"),
    (beat(sequence=None), "sequence must be a whole number from 0 up"),
    (beat(sequence=-1), "sequence must be a whole number from 0 up"),
    (beat(sequence=True), "sequence must be a whole number from 0 up"),
    (beat(sequence=1e30), "sequence must be a whole number from 0 up"),
    (beat(sequence=99999999999999999999), "sequence must be a whole number from 0 up"),
    (beat(observed_at="yesterday"), "observed_at must be an RFC 3339 time with an offset"),
    (beat(observed_at="2026-01-05T10:00:00"), "observed_at must be an RFC 3339 time with an offset"),
    (beat(last_activity_at=5), "last_activity_at must be an RFC 3339 time with an offset"),
    (beat(status="x" * 129), "status must be a text of 1 to 128 characters"),
    (beat(counters=[1]), "counters must be an object of at most 64 whole numbers from 0 up"),
    (beat(counters={"x": -1}), "counters must be an object of whole numbers from 0 up"),
    (beat(counters={"x": 1e99}), "counters must be an object of whole numbers from 0 up"),
    (beat(counters={"": 1}), "a name in counters must be a text of 1 to 128 characters"),
)


async def test_what_cannot_be_is_refused_by_the_fields_name(rig: Rig) -> None:
    """Wire contract 6.4, each rule with the error that the sender sees."""
    for message, told in REFUSALS:
        status, answer = await rig.post(message)
        assert (status, answer["error"]["type"]) == (400, "bad_payload"), message
        assert answer["error"]["message"].startswith(told), message
    assert rig.gateway.status()["edge"]["received"] == 0


async def test_a_blocked_device_is_refused_over_restarts_until_it_is_let_in(rig: Rig) -> None:
    await rig.post(heartbeat("bad"))
    await rig.until(lambda: rig.service_devices() == {"bad": 1}, "enrolled")
    assert (await rig.command("block", "bad"))["state"] == "blocked"
    for _ in range(2):
        for message in (
            heartbeat("bad", 7),
            ping("bad"),
            telemetry_of("bad"),
            Message("/v1/devices", b'{"device_id":"bad"}'),
        ):
            status, answer = await rig.post(message)
            assert status == 403
            assert "the device is blocked" in str(answer)
        mixed = telemetry(resource_spans({"device.id": "bad"}), resource_spans({"device.id": "good"}))
        status, answer = await rig.post(mixed)
        assert (status, answer["partialSuccess"]["rejectedSpans"]) == (200, "1")
        await rig.restart()
    await rig.command("unblock", "bad")
    assert (await rig.post(heartbeat("bad", 8)))[0] == 202
    await rig.until(lambda: rig.service_devices().get("bad") == 2, "enrolled again")
    status_now = rig.gateway.status()
    assert status_now["reasons"]["rejected.device_blocked"] >= 10
    assert not broken_identities(status_now)


async def test_to_block_to_let_in_and_to_forget_leave_a_line_that_says_who_asked(rig: Rig) -> None:
    await rig.post(heartbeat("d"))
    for verb in ("show", "block", "unblock", "ping", "forget"):
        await rig.command(verb, "d")
    await rig.post(heartbeat("e"))
    token = {"Authorization": (rig.gateway.data_dir / "admin-token").read_text().strip()}
    device = f"{rig.gateway.admin_url}/v2/devices/e"
    for by, status in (("ops@example.com", 200), ("", 400)):
        async with rig.session.post(f"{device}/block", json={"by": by}, headers=token) as answer:
            assert answer.status == status
    async with rig.session.delete(device, headers=token) as answer:
        assert answer.status == 200
    lines = [line for line in rig.gateway.process.log_tail().splitlines() if "device changed" in line]
    told = [dict(part.split("=") for part in line.split() if "=" in part) for line in lines]
    user = person(None)
    assert [(each["what"], each["device_id"], each["by"]) for each in told] == [
        ("block", "d", user),
        ("unblock", "d", user),
        ("forget", "d", user),
        ("block", "e", "ops@example.com"),
        ("forget", "e", "operator"),
    ]


async def test_commands_work_on_the_files_of_a_stopped_gateway_too(rig: Rig) -> None:
    await rig.post(heartbeat("host:a/b"))
    await rig.post(heartbeat("c"))
    await rig.until(lambda: rig.gateway.status()["lanes"]["devices"]["pending"] == 0, "delivered")
    assert (await rig.command("ping", "host:a/b"))["answer"] == "known"
    before = rig.gateway.status()["lanes"]["devices"]
    assert rig.gateway.stop() == 0
    status = await asyncio.to_thread(run_command, rig.gateway, "spool", "status", "--json", runs=False)
    at_rest = json.loads(status.out)
    assert {name: at_rest["lanes"]["devices"][name] for name in ("kept", "delivered")} == {"kept": 2, "delivered": 2}
    assert at_rest["edge"]["received"] == 2
    listed = await rig.command("list", "--state", "enrolled", runs=False)
    assert [device["device_id"] for device in listed["devices"]][:2] == ["c", listed["devices"][1]["device_id"]]
    assert (await rig.command("block", "host:a/b", runs=False))["reason"] == "an operator blocked it"
    assert (await rig.command("forget", "c", runs=False))["device_id"] == "c"
    ended = await asyncio.to_thread(run_devices, rig.gateway, "ping", "host:a/b", runs=False)
    assert (ended.code, "start it first" in ended.err) == (1, True)
    ended = await asyncio.to_thread(run_devices, rig.gateway, "show", "c", runs=False)
    assert (ended.code, "no device has this id" in ended.err) == (1, True)
    await asyncio.to_thread(rig.gateway.restart)
    assert (await rig.post(heartbeat("host:a/b", 2)))[0] == 403
    after = rig.gateway.status()["lanes"]["devices"]
    assert (after["kept"], after["delivered"]) == (before["kept"], before["delivered"])
    table = await asyncio.to_thread(run_devices, rig.gateway, "list")
    assert "host:a/b" in table.out
    assert "blocked" in table.out


async def test_the_team_of_a_device_reaches_its_calls_before_and_after_a_kill(rig: Rig) -> None:
    enrolment = {"device_id": "laptop", "labels": {"team": "search"}}
    assert (await rig.post(Message("/v1/devices", json.dumps(enrolment).encode())))[0] == 202
    assert (await rig.post(telemetry_of("laptop")))[0] == 200
    await rig.restart()
    assert (await rig.post(telemetry_of("laptop")))[0] == 200
    await asyncio.to_thread(rig.gateway.wait_until_delivered, at_least=2)
    groups = rig.gateway.summary("team")["summary"]
    assert [(group["team"], group["calls"]) for group in groups] == [("search", 2)]


async def test_an_id_of_any_printable_characters_is_enrolled_and_in_an_operators_hands(rig: Rig) -> None:
    names = ["{id}", "a?b#c", "50%", "%2e%2e", "...", "<b>x</b>", "[bold]x[/bold]", "~", "ü-ñ", "enroll", "x" * 128]
    for name in names:
        assert (await rig.post(heartbeat(name)))[0] == 202
    await rig.until(lambda: rig.gateway.status()["lanes"]["devices"]["delivered"] == len(names), "delivered")
    assert rig.service_devices() == dict.fromkeys(names, 1)
    for name in names:
        shown = await rig.command("show", name)
        assert (shown["device_id"], shown["state"]) == (name, "enrolled")
        assert (await rig.command("block", name))["state"] == "blocked"
    table = (await asyncio.to_thread(run_devices, rig.gateway, "list")).out
    assert [name for name in names if name not in table] == []
    status, answer = await rig.post(Message("/v1/devices", b'{"device_id":".."}'))
    assert (status, "neither . nor .." in str(answer)) == (400, True)


async def test_a_device_that_the_service_lost_is_found_by_a_ping_and_enrolled_by_an_operators_word(rig: Rig) -> None:
    await rig.post(heartbeat("d"))
    await rig.until(lambda: rig.gateway.status()["lanes"]["devices"]["pending"] == 0, "delivered")
    assert (await rig.command("enroll", "d"))["epoch"] == 2
    await rig.until(lambda: rig.service_devices() == {"d": 2}, "enrolled again")
    ended = await asyncio.to_thread(run_devices, rig.gateway, "enroll", "--all", "d")
    assert ended.code == 2


async def test_what_an_earlier_release_left_in_the_spool_is_taken_over(tmp_path: Path) -> None:
    left = [
        {"type": "enroll", "device_id": "old", "body": {"enrollment_id": "x", "kind": "server", "labels": {"team": "core"}}},
        {"type": "heartbeat", "device_id": "old", "body": {"instance_id": "i", "sequence": 1}},
        {"type": "heartbeat", "device_id": "older", "body": {"instance_id": "i", "sequence": 4}},
    ]  # fmt: skip
    gateway = GatewayProcess(tmp_path)
    spool = SqliteSpool(gateway.data_dir, SpoolSettings(), now_ms=wall_ms)
    records = [json.dumps(each).encode() for each in left]
    await spool.append(DEVICES, [*records, b"nonsense"], ItemCounts(received=4, kept=4))
    await spool.close()
    with gateway:
        await until_true(
            lambda: (
                {x.device_id: x.enrolments for x in enrolled_at(gateway.data_dir / "service")} == {"old": 1, "older": 1}
            ),
            what="enrolled",
        )
        status = await asyncio.to_thread(gateway.wait_until_delivered, DEVICES)
        assert status["lanes"]["devices"]["delivered"] == 4
        assert not broken_identities(status)


@pytest.mark.parametrize("opens_with", ["keys", "open intake"])
async def test_200_enrolments_at_once_make_one_device_of_each_id(rig: Rig, opens_with: str) -> None:
    """100 of one id, in ways that differ; 100 of others. The upstream has each once, too."""
    headers = dict(JSON)
    if opens_with == "keys":
        scopes = ("ai-control-plane:enroll-device", "ai-control-plane:heartbeat-device")
        flags = [part for scope in scopes for part in ("--scope", scope)]
        made = await asyncio.to_thread(run_command, rig.gateway, "keys", "create", "--name", "fleet", *flags, "--json")
        headers["Authorization"] = made.json["secret"]
    stated = [
        Message("/v1/devices", json.dumps({"device_id": "one", "labels": {"team": f"{n}"}}).encode()) for n in range(50)
    ]
    others = [Message("/v1/devices", json.dumps({"device_id": f"device-{n}"}).encode()) for n in range(100)]
    messages = [*stated, *others, *[heartbeat("one")] * 50]
    Random(1).shuffle(messages)

    async def post_all_at_once() -> set[int]:
        async def post(message: Message) -> int:
            url = rig.gateway.intake_url + message.path
            async with session.post(url, data=message.body, headers=headers) as answer:
                return answer.status

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            return set(await asyncio.gather(*(post(message) for message in messages)))

    assert await post_all_at_once() == {202}
    wanted = {"one": 1} | {f"device-{n}": 1 for n in range(100)}
    await rig.until(lambda: rig.service_devices() == wanted, "each enrolled once")
    await rig.until(lambda: rig.gateway.status()["lanes"]["devices"]["pending"] == 0, "delivered")
    assert rig.service_devices() == wanted
    await rig.restart()
    assert await post_all_at_once() == {202}
    await rig.until(lambda: rig.gateway.status()["lanes"]["devices"]["pending"] == 0, "delivered again")
    assert rig.service_devices().keys() == wanted.keys()
    assert not broken_identities(rig.gateway.status())
