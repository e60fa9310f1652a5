"""Enrolment once, heartbeats that only go forward, blocked and forgotten devices."""

import asyncio

import pytest

from .conftest import Client

DEVICES = "/v2/ai-control-plane/devices"
OURS = {"device_id": "dev-1", "status": "active", "heartbeat_interval_s": 60}


def enrolment(**changes: object) -> dict[str, object]:
    return {
        "enrollment_id": "9f2c",
        "epoch": 1,
        "device_id": "dev-1",
        "instance_id": "i-1",
        "kind": "workstation",
        "first_seen_at": "2026-01-05T09:59:58Z",
        "host": {"os": "darwin", "arch": "arm64"},
        **changes,
    }


def beat(sequence: int, instance_id: str = "i-1", **changes: object) -> dict[str, object]:
    return {
        "instance_id": instance_id,
        "sequence": sequence,
        "observed_at": f"2026-01-05T10:{sequence:02}:00Z",
        "status": "healthy",
        **changes,
    }


async def only_device(client: Client) -> dict[str, object]:
    (device,) = (await client.get(DEVICES)).json["devices"]
    found: dict[str, object] = device
    return found


async def test_an_enrolment_that_comes_many_times_at_once_enrols_once(client: Client) -> None:
    replies = await asyncio.gather(*(client.post(DEVICES, enrolment()) for _ in range(10)))
    assert sorted(reply.status for reply in replies) == [200] * 9 + [201]
    assert all(reply.json == OURS for reply in replies)
    assert await only_device(client) == {
        "device_id": "dev-1",
        "status": "active",
        "kind": "workstation",
        "instance_id": "i-1",
        "epoch": 1,
        "enrollments": 1,
        "heartbeats": 0,
        "health": None,
        "first_seen_at": "2026-01-05T09:59:58.000Z",
        "enrolled_at": "2026-01-05T10:00:00.000Z",
        "last_heartbeat_at": None,
        "last_ping_at": None,
    }


async def test_another_enrolment_of_the_same_epoch_meets_the_device_that_is_there(client: Client) -> None:
    await client.post(DEVICES, enrolment())
    reply = await client.post(DEVICES, enrolment(enrollment_id="other"))
    assert (reply.status, reply.json["device_id"]) == (409, "dev-1")
    assert (await only_device(client))["enrollments"] == 1


async def test_a_later_epoch_enrols_again_and_the_first_enrolment_still_answers(client: Client) -> None:
    await client.post(DEVICES, enrolment())
    again = await client.post(DEVICES, enrolment(enrollment_id="second", epoch=2, instance_id="i-2"))
    assert (again.status, again.json) == (200, OURS)
    device = await only_device(client)
    assert (device["epoch"], device["instance_id"], device["enrollments"]) == (2, "i-2", 2)
    assert (await client.post(DEVICES, enrolment())).status == 200
    assert (await only_device(client))["epoch"] == 2


@pytest.mark.parametrize("field", ["enrollment_id", "epoch", "device_id", "instance_id", "kind", "first_seen_at"])
async def test_an_enrolment_without_a_required_field_is_refused_with_its_name(client: Client, field: str) -> None:
    reply = await client.post(DEVICES, enrolment(**{field: None}))
    assert (reply.status, reply.json["error"]["type"]) == (400, f"missing_{field}")
    assert (await client.get(DEVICES)).json["devices"] == []


async def test_a_heartbeat_moves_the_device_only_forward(client: Client) -> None:
    await client.post(DEVICES, enrolment())
    for sequence in (1, 3, 2, 3):
        reply = await client.post(f"{DEVICES}/dev-1/heartbeat", beat(sequence, status=f"s{sequence}"))
        assert (reply.status, reply.json) == (200, {"status": "active", "heartbeat_interval_s": 60})
    device = await only_device(client)
    assert (device["heartbeats"], device["health"]) == (2, "s3")
    assert device["last_heartbeat_at"] == "2026-01-05T10:03:00.000Z"


async def test_each_instance_has_a_sequence_of_its_own(client: Client) -> None:
    await client.post(DEVICES, enrolment())
    await client.post(f"{DEVICES}/dev-1/heartbeat", beat(7))
    await client.post(f"{DEVICES}/dev-1/heartbeat", beat(1, "i-2", observed_at="2026-01-05T10:08:00Z"))
    device = await only_device(client)
    assert (device["heartbeats"], device["instance_id"]) == (2, "i-2")
    await client.post(f"{DEVICES}/dev-1/heartbeat", beat(8, observed_at="2026-01-05T10:07:30Z", status="stale"))
    assert (await only_device(client))["health"] == "healthy"


@pytest.mark.parametrize("verb", ["heartbeat", "ping"])
async def test_a_device_that_was_never_enrolled_or_was_forgotten_is_unknown(client: Client, verb: str) -> None:
    async def answer() -> tuple[int, object]:
        reply = await client.post(f"{DEVICES}/dev-1/{verb}", beat(1))
        return reply.status, reply.json["error"]["type"] if reply.body and reply.status >= 400 else None

    assert await answer() == (404, "device_unknown")
    await client.post(DEVICES, enrolment())
    assert (await answer())[0] in (200, 204)
    assert await client.service.forget_device("dev-1")
    assert await answer() == (404, "device_unknown")
    assert (await client.post(DEVICES, enrolment(enrollment_id="second", epoch=2))).status == 201


async def test_a_blocked_device_is_refused_everywhere_until_it_is_let_in_again(client: Client) -> None:
    await client.post(DEVICES, enrolment())
    assert await client.service.block_device("dev-1")
    calls = {DEVICES: enrolment(), f"{DEVICES}/dev-1/heartbeat": beat(1), f"{DEVICES}/dev-1/ping": {}}
    for path, body in calls.items():
        reply = await client.post(path, body)
        assert (reply.status, reply.json["error"]["type"]) == (403, "device_blocked")
    assert (await client.get(DEVICES, status="blocked")).json["pagination"]["total_count"] == 1
    await client.service.unblock_device("dev-1")
    assert (await client.post(f"{DEVICES}/dev-1/heartbeat", beat(1))).status == 200
    assert not await client.service.block_device("nobody")


async def test_a_ping_needs_no_body_and_answers_with_none(client: Client) -> None:
    await client.post(DEVICES, enrolment())
    reply = await client.post(f"{DEVICES}/dev-1/ping", b"")
    assert (reply.status, reply.body) == (204, b"")
    assert (await only_device(client))["last_ping_at"] == "2026-01-05T10:00:00.000Z"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sequence": -1}, "invalid_sequence"),
        ({"sequence": None}, "missing_sequence"),
        ({"observed_at": 1}, "invalid_observed_at"),
        ({"status": None}, "missing_status"),
        ({"instance_id": ""}, "invalid_instance_id"),
    ],
)
async def test_a_heartbeat_that_breaks_a_rule_is_refused(client: Client, changes: dict[str, object], code: str) -> None:
    await client.post(DEVICES, enrolment())
    reply = await client.post(f"{DEVICES}/dev-1/heartbeat", beat(1) | changes)
    assert (reply.status, reply.json["error"]["type"]) == (400, code)
