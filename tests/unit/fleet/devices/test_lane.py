"""What goes out for devices, when, and what the service's answers make of them."""

import asyncio
import json

import pytest

from exporters.cost_service.devices import SCOPES
from gateway.common.contract.errors import NoAnswer
from gateway.fleet.devices.lane_store import EnrolmentRate
from gateway.fleet.devices.outbox import LEASE_MS
from gateway.fleet.devices.own import DISTRIBUTION, OLDEST_S, PENDING, own_device
from gateway.fleet.devices.states import State
from tests.support.polling import until_true
from tests.support.upstream import Reply, Seen
from tests.unit.fleet.devices.conftest import GATEWAY_ID, Rig, device_in, kind_of

FINE = {"enroll": 201, "heartbeat": 204, "ping": 204}


async def test_contacts_of_every_kind_at_once_enrol_one_device_once(rig: Rig) -> None:
    await rig.open()
    beats = [rig.beat("d", n) for n in range(5)]
    await asyncio.gather(*beats, rig.store.ping("d"), rig.telemetry("d"), rig.telemetry("d"))
    await rig.until(lambda: len(rig.calls("heartbeat")) == 1)
    assert len(rig.enrolments()) == 1
    assert json.loads(rig.calls("heartbeat")[0].body)["sequence"] == 4
    assert rig.store.figures.edge["received"] == 6, "what telemetry tells of a device is no item"


async def test_an_enrolment_that_fails_comes_again_as_the_same_one(rig: Rig) -> None:
    rig.upstream.script.extend([Reply(500), Reply(reset="after_reading"), Reply(503, {"Retry-After": "7"})])
    await rig.open()
    await rig.telemetry("d")
    await rig.until(lambda: len(rig.calls("enroll")) == 4)
    await rig.until(lambda: rig.store.figures.enrolments == 0)
    assert len({body["enrollment_id"] for body in rig.enrolments()}) == 1
    first, second, third, fourth = (seen.headers["Idempotency-Key"] for seen in rig.calls("enroll"))
    assert len({first, second, fourth}) == 3, "an answered error is not to be replayed"
    assert second == third, "no answer came"
    assert (await rig.device("d")).state == "enrolled"


async def test_what_was_under_way_when_it_was_killed_is_sent_again_as_the_same(rig: Rig) -> None:
    never = asyncio.Event()
    rig.upstream.respond = lambda seen: Reply(201, until=never)
    await rig.open()
    await rig.beat("d")
    await rig.upstream.seen_at_least(1)
    survivor = Rig(rig.folder, rig.upstream, rig.memory, rig.dsn)
    survivor.clock.now_s += 5
    rig.upstream.respond = lambda seen: Reply(FINE[kind_of(seen)])
    await survivor.open()
    await survivor.until(lambda: len(survivor.calls("heartbeat")) == 1)
    one, other = survivor.enrolments()
    assert one == other
    never.set()
    await survivor.close()


async def test_a_fleet_is_enrolled_at_the_buckets_rate_four_at_a_time(rig: Rig) -> None:
    rig.rate = EnrolmentRate(per_s=10, burst=50)
    most = 0

    def respond(seen: Seen) -> Reply:
        nonlocal most
        most = max(most, rig.lane.pump.holding)
        return Reply(201)

    rig.upstream.respond = respond
    await rig.open()
    await rig.telemetry(*(f"d{n}" for n in range(120)))
    await until_true(lambda: len(rig.enrolments()) >= 50, what="a burst")
    assert len(rig.enrolments()) == 50
    await rig.go_on(3)
    await until_true(lambda: len(rig.enrolments()) >= 70, what="three seconds of the bucket")
    assert len(rig.enrolments()) <= 81
    await rig.until(lambda: len(rig.enrolments()) == 120, most_s=10)
    assert most <= 4


async def test_a_restart_is_no_second_burst(rig: Rig) -> None:
    rig.rate = EnrolmentRate(per_s=1, burst=20)
    await rig.open()
    await rig.telemetry(*(f"d{n}" for n in range(60)))
    await until_true(lambda: len(rig.enrolments()) >= 20, what="a burst")
    await rig.close()
    sent = len(rig.enrolments())
    await rig.open()
    await rig.go_on(5)
    assert len(rig.enrolments()) <= sent + 7


async def test_a_device_that_the_service_forgot_is_enrolled_again_after_its_cool_down(rig: Rig) -> None:
    await rig.open()
    for n in range(8):
        await rig.beat(f"d{n}")
    await rig.until(lambda: len(rig.calls("heartbeat")) == 8)
    rig.upstream.respond = lambda seen: Reply(404 if "/d3/" in seen.path else FINE[kind_of(seen)])
    for n in range(8):
        await rig.beat(f"d{n}", 2)
    enrolled_s = rig.clock.now_s
    await rig.until(lambda: len(rig.enrolments()) == 9)
    assert rig.clock.now_s - enrolled_s >= 59
    again = rig.enrolments("d3")
    assert [body["epoch"] for body in again] == [1, 2]
    assert again[0]["enrollment_id"] != again[1]["enrollment_id"]


async def test_a_device_that_is_forgotten_again_and_again_is_quarantined(rig: Rig) -> None:
    await rig.open()
    rig.upstream.respond = lambda seen: Reply(404 if kind_of(seen) == "heartbeat" else 201)
    sequence = 0
    while (await rig.states()).get("d") != "quarantined":
        sequence += 1
        assert sequence < 400
        await rig.beat("d", sequence)
        await rig.go_on(2)
    assert [body["epoch"] for body in rig.enrolments()] == [1, 2, 3, 4]
    device = await rig.device("d")
    assert device.reason == "the service forgot it 4 times within an hour"
    assert (await rig.beat("d", 1000)).outcome == "suppressed"


async def test_a_fleet_that_the_service_forgot_is_not_enrolled_again_but_recalled_when_it_was_an_outage(
    rig: Rig,
) -> None:
    await rig.open()
    names = [f"d{n}" for n in range(40)]
    for name in names:
        await rig.beat(name)
    await rig.until(lambda: len(rig.calls("heartbeat")) == 40)
    rig.upstream.respond = lambda seen: Reply(201 if kind_of(seen) == "enroll" else 404)
    await rig.go_on(40)
    for name in names:
        await rig.beat(name, 2)
    await rig.until(lambda: rig.lane.state == "held")
    asked = len(rig.calls("heartbeat"))
    await rig.go_on(20)
    await rig.beat("new")
    await rig.close()
    await rig.open()
    await rig.until(lambda: len(rig.enrolments("new")) == 1)
    await rig.go_on(60)
    assert len(rig.calls("heartbeat")) == asked
    assert len(rig.enrolments()) == 41
    assert "does not know device after device" in (rig.lane.reason or "")

    rig.upstream.respond = lambda seen: Reply(FINE[kind_of(seen)])
    await rig.until(lambda: rig.lane.state == "ok", most_s=400)
    assert set((await rig.states()).values()) <= {"enrolled", "offline"}
    assert len(rig.enrolments()) == 41
    assert len(rig.calls("ping")) <= 5


async def test_an_operators_word_enrols_a_lost_fleet_again(rig: Rig) -> None:
    await rig.open()
    names = [f"d{n}" for n in range(10)]
    for name in names:
        await rig.beat(name)
    await rig.until(lambda: len(rig.calls("heartbeat")) == 10)
    rig.upstream.respond = lambda seen: Reply(201 if kind_of(seen) == "enroll" else 404)
    for name in names:
        await rig.beat(name, 2)
    await rig.until(lambda: rig.lane.state == "held")
    rig.upstream.respond = lambda seen: Reply(FINE[kind_of(seen)])
    assert await rig.operate("POST", "/v2/devices/enroll", all=True) == {"enrolling": 10}
    await rig.until(lambda: rig.lane.state == "ok" and len(rig.enrolments()) >= 20, most_s=5)
    assert 20 <= len(rig.enrolments()) <= 24, "of so few, some are enrolled again before it shows"


@pytest.mark.parametrize(
    ("status", "body", "state"),
    [
        (200, b'{"status":"blocked"}', "blocked"),
        (403, b'{"error":{"type":"device_blocked","message":"m"}}', "blocked"),
        (422, b'{"error":{"type":"bad_kind","message":"m"}}', "quarantined"),
    ],
)
async def test_an_enrolment_that_the_service_refuses_is_not_sent_again(
    rig: Rig, status: int, body: bytes, state: State
) -> None:
    rig.upstream.respond = lambda seen: Reply(status, body=body)
    await rig.open()
    await rig.beat("d")
    await rig.until(lambda: rig.store.figures.enrolments == 0)
    await rig.go_on(30)
    assert len(rig.calls()) == 1
    assert (await rig.device("d")).state == state
    lane = rig.store.figures.lane
    assert (lane["kept"], lane["expired"], lane["pending"]) == (1, 1, 0)


async def test_a_device_that_the_service_blocks_stays_blocked_over_a_restart_until_an_operator_lets_it_in(
    rig: Rig,
) -> None:
    await rig.open()
    await rig.beat("d")
    await rig.until(lambda: len(rig.calls("heartbeat")) == 1)
    rig.upstream.respond = lambda seen: Reply(403, body=b'{"error":{"type":"device_revoked"}}')
    await rig.beat("d", 2)
    await rig.until(lambda: len(rig.calls("heartbeat")) == 2)
    await rig.until(lambda: rig.store.figures.lane["pending"] == 0)
    assert (await rig.beat("d", 3)).outcome == "rejected"
    await rig.close()
    rig.upstream.respond = lambda seen: Reply(FINE[kind_of(seen)])
    await rig.open()
    await rig.telemetry("d")
    assert rig.store.is_blocked("d")
    assert (await rig.store.ping("d")).outcome == "rejected"
    await rig.go_on(30)
    assert len(rig.calls()) == 3
    await rig.operate("POST", "/v2/devices/d/unblock")
    assert (await rig.beat("d", 4)).outcome == "kept"
    await rig.until(lambda: len(rig.calls("heartbeat")) == 3)
    assert [body["epoch"] for body in rig.enrolments()] == [1, 2]


async def test_an_id_that_the_service_gives_is_used_from_then_on_and_finds_the_device(rig: Rig) -> None:
    rig.upstream.respond = lambda seen: Reply(
        FINE[kind_of(seen)],
        body=b'{"device_id":"theirs","heartbeat_interval_s":30}' if kind_of(seen) == "enroll" else b"",
    )
    await rig.open()
    await rig.beat("ours")
    await rig.until(lambda: len(rig.calls("heartbeat")) == 1)
    assert device_in(rig.calls("heartbeat")[0]) == "theirs"
    await rig.until(lambda: rig.store.figures.lane["delivered"] == 1)
    taken = await rig.beat("theirs", 2)
    assert (taken.state, taken.interval_ms) == ("enrolled", 30_000)
    assert list(await rig.states()) == ["ours"]


async def test_a_key_that_is_refused_holds_the_lane_and_a_new_one_lets_it_go_on(rig: Rig) -> None:
    rig.upstream.respond = lambda seen: Reply(401)
    await rig.open()
    await rig.beat("d")
    await rig.until(lambda: rig.lane.state == "held")
    await rig.go_on(20)
    assert len(rig.calls()) == 1
    rig.upstream.respond = lambda seen: Reply(FINE[kind_of(seen)])
    rig.lane.wake()
    await rig.until(lambda: len(rig.calls("heartbeat")) == 1, most_s=5)
    assert rig.lane.state == "ok"


async def test_a_login_page_enrols_no_one_and_holds_the_lane(rig: Rig) -> None:
    rig.upstream.respond = lambda seen: Reply(200, {"Content-Type": "text/html"}, b"<html>Log in")
    await rig.open()
    await rig.telemetry("d", "e", "f")
    await rig.until(lambda: rig.lane.state == "held")
    assert "it is a web page" in (rig.lane.reason or "")
    assert "enrolled" not in (await rig.states()).values()
    rig.upstream.respond = lambda seen: Reply(FINE[kind_of(seen)])
    await rig.until(lambda: rig.store.figures.enrolments == 0)
    assert set((await rig.states()).values()) == {"enrolled"}
    keys = {seen.headers["Idempotency-Key"] for seen in rig.calls("enroll")}
    assert len(keys) == 3, "each enrolment went under its own key, each time"


async def test_an_unclear_403_is_about_the_key_unless_others_are_taken(rig: Rig) -> None:
    await rig.open()
    rig.upstream.respond = lambda seen: Reply(403 if device_in(seen) == "bad" else FINE[kind_of(seen)])
    await rig.telemetry("bad")
    for n in range(300):
        await rig.telemetry(f"d{n}")
        await rig.go_on(1)
        if (await rig.device("bad")).state == "quarantined":
            break
    assert (await rig.device("bad")).reason == "the service refuses it, and takes others: "
    assert len(rig.enrolments("bad")) == 4, (
        "once about the key, for nobody was taken before it, and three times about the device"
    )

    rig.upstream.respond = lambda seen: Reply(403)
    await rig.telemetry("x", "y", "z")
    await rig.until(lambda: rig.lane.state == "held", most_s=5)


async def test_without_a_key_nothing_goes_out_and_the_lane_says_why(rig: Rig) -> None:
    rig.grants = lambda scope: False
    await rig.open()
    assert (await rig.beat("d")).outcome == "kept"
    await rig.until(lambda: rig.store.figures.lane["expired"] == 1)
    assert rig.lane.state == "off"
    assert rig.lane.reason == f"no configured key grants {' or '.join(SCOPES.values())}"
    assert rig.calls() == []
    assert (await rig.device("d")).state == "pending"


async def test_a_missing_scope_is_named_while_the_rest_goes_on(rig: Rig) -> None:
    rig.grants = SCOPES["enroll"].__eq__
    await rig.open()
    await rig.beat("d")
    await rig.until(lambda: rig.store.figures.lane["expired"] == 1)
    assert len(rig.enrolments()) == 1
    assert (rig.lane.state, rig.lane.reason) == ("held", "no configured key grants ai-control-plane:heartbeat-device")


async def test_a_device_that_sends_telemetry_has_a_heartbeat_a_slot_and_a_silent_one_has_none(rig: Rig) -> None:
    await rig.open()
    await rig.telemetry("d", "silent")
    await rig.until(lambda: len(rig.enrolments()) == 2)
    for _ in range(40):
        await rig.telemetry("d")
        await rig.go_on(5)
    beats = rig.calls("heartbeat")
    assert {device_in(seen) for seen in beats} == {"d"}
    assert 2 <= len(beats) <= 5
    bodies = [json.loads(seen.body) for seen in beats]
    assert {body["instance_id"] for body in bodies} == {"gw-7f3a"}
    assert [body["sequence"] for body in bodies] == sorted({body["sequence"] for body in bodies})
    await rig.until(lambda: rig.store.states.get("offline") == 1, most_s=400)
    before = len(rig.calls("heartbeat"))
    await rig.go_on(130)
    assert len(rig.calls("heartbeat")) <= before + 1


async def test_a_beat_that_fails_is_tried_again_until_it_is_out_of_date(rig: Rig) -> None:
    await rig.open()
    await rig.beat("d")
    await rig.until(lambda: len(rig.calls("heartbeat")) == 1)
    rig.upstream.respond = lambda seen: Reply(500)
    await rig.beat("d", 2)
    await rig.until(lambda: rig.store.figures.lane["expired"] == 1)
    assert len(rig.calls("heartbeat")) > 3
    rig.upstream.respond = lambda seen: Reply(204)
    await rig.beat("d", 3)
    await rig.until(lambda: rig.store.figures.lane["delivered"] == 2)


async def test_a_beat_that_comes_while_one_is_under_way_has_a_outcome_of_its_own(rig: Rig) -> None:
    await rig.open()
    answer = asyncio.Event()
    rig.upstream.respond = lambda seen: Reply(
        FINE[kind_of(seen)], until=answer if kind_of(seen) == "heartbeat" else None
    )
    await rig.beat("d")
    await rig.until(lambda: len(rig.calls("heartbeat")) == 1)
    await rig.beat("d", 2)
    await rig.beat("d", 3)
    assert rig.store.figures.reasons["suppressed.superseded"] == 2
    answer.set()
    await rig.until(lambda: rig.store.figures.lane["delivered"] == 1, most_s=5)
    figures = rig.store.figures
    assert (figures.edge["kept"], figures.reasons["suppressed.superseded"], figures.lane["pending"]) == (2, 1, 1)
    await rig.until(lambda: rig.store.figures.lane["delivered"] == 2)
    assert [json.loads(seen.body)["sequence"] for seen in rig.calls("heartbeat")] == [1, 3]


async def test_an_operators_ping_reports_what_the_service_says(rig: Rig) -> None:
    await rig.open()
    await rig.telemetry("d")
    await rig.until(lambda: len(rig.enrolments()) == 1)
    assert await rig.operate("POST", "/v2/devices/d/ping") == {"device_id": "d", "answer": "known"}
    rig.upstream.respond = lambda seen: Reply(404)
    assert await rig.operate("POST", "/v2/devices/d/ping") == {"device_id": "d", "answer": "unknown"}
    rig.upstream.respond = lambda seen: Reply(500)
    with pytest.raises(NoAnswer, match="HTTP 500"):
        await rig.operate("POST", "/v2/devices/d/ping")


async def test_a_ping_goes_as_a_heartbeat_where_no_key_may_ping_and_holds_nothing(rig: Rig) -> None:
    rig.grants = {SCOPES["enroll"], SCOPES["heartbeat"]}.__contains__
    await rig.open()
    await rig.store.ping("d")
    await rig.until(lambda: rig.store.figures.lane["delivered"] == 1)
    assert [kind_of(seen) for seen in rig.calls()] == ["enroll", "heartbeat"]
    assert json.loads(rig.calls("heartbeat")[0].body)["instance_id"] == "gw-7f3a"
    assert (rig.lane.state, rig.lane.reason) == ("ok", None)


async def test_a_device_that_is_gone_is_enrolled_again_and_holds_no_other(rig: Rig) -> None:
    await rig.open()
    for name in ("gone", "there"):
        await rig.beat(name)
    await rig.until(lambda: len(rig.calls("heartbeat")) == 2)
    rig.upstream.respond = lambda seen: Reply(410 if "/gone/" in seen.path else FINE[kind_of(seen)])
    for name in ("gone", "there"):
        await rig.beat(name, 2)
    await rig.until(lambda: len(rig.enrolments("gone")) == 2)
    await rig.until(lambda: rig.store.figures.lane["delivered"] >= 3)
    assert rig.lane.state == "ok"


async def test_a_device_that_the_service_blocks_is_refused_under_each_of_its_ids(rig: Rig) -> None:
    rig.upstream.respond = lambda seen: Reply(
        FINE[kind_of(seen)], body=b'{"device_id":"theirs"}' if kind_of(seen) == "enroll" else b""
    )
    await rig.open()
    await rig.beat("ours")
    await rig.until(lambda: rig.store.figures.lane["delivered"] == 1)
    await rig.telemetry("ours", "theirs")
    rig.upstream.respond = lambda seen: Reply(403, body=b'{"error":{"type":"device_blocked"}}')
    await rig.beat("theirs", 2)
    await rig.until(lambda: rig.store.figures.lane["expired"] == 1)
    for _ in range(100):  # the figure is there before memory is
        await rig.telemetry("ours", "theirs")
        if rig.store.is_blocked("ours"):
            break
        await rig.go_on(1)
    assert [rig.store.is_blocked(name) for name in ("ours", "theirs")] == [True, True]


async def lose(rig: Rig, names: list[str]) -> None:
    """The service knows none of these devices any more, and the lane sees
    that it is no single one.
    """
    for name in names:
        await rig.beat(name)
    await rig.until(lambda: len(rig.calls("heartbeat")) == len(names))
    rig.upstream.respond = lambda seen: Reply(201 if kind_of(seen) == "enroll" else 404)
    for name in names:
        await rig.beat(name, 2)
    await rig.until(lambda: rig.lane.state == "held")


async def test_one_device_that_the_service_really_dropped_does_not_keep_a_fleet_from_being_found_again(
    rig: Rig,
) -> None:
    await rig.open()
    names = [f"d{n:02}" for n in range(20)]
    await lose(rig, names)
    lost = [name for name, state in (await rig.states()).items() if state == "reenrolling"]
    dropped = min(lost)
    rig.upstream.respond = lambda seen: Reply(404 if f"/{dropped}/" in seen.path else FINE[kind_of(seen)])
    await rig.until(lambda: rig.lane.state == "ok", most_s=600)
    assert next(device_in(seen) for seen in rig.calls("ping")) == dropped
    assert (await rig.device(lost[-1])).cycles == b"[]", "an outage of the service is no cycle of theirs"


async def test_a_lost_fleet_stays_lost_while_the_enrolments_of_some_are_tried_again(rig: Rig) -> None:
    await rig.open()
    await lose(rig, [f"d{n}" for n in range(6)])
    await rig.store.change(  # as after a first try that failed before the others showed
        lambda kept: [kept.save(device, state="pending") for device in kept.to_recall()]
    )
    asked = len(rig.enrolments())
    await rig.until(lambda: len(rig.calls("ping")) == 2)
    assert rig.lane.state == "held"
    assert len(rig.enrolments()) == asked


async def test_an_enrolment_that_lasts_longer_than_its_lease_is_not_sent_twice_at_once(rig: Rig) -> None:
    answer = asyncio.Event()
    rig.upstream.respond = lambda seen: Reply(201, until=answer)
    await rig.open()
    await rig.telemetry("slow")
    await rig.upstream.seen_at_least(1)
    await rig.go_on(LEASE_MS / 1000 + 5)
    assert len(rig.enrolments()) == 1
    answer.set()
    await rig.until(lambda: rig.store.figures.enrolments == 0)
    assert (await rig.device("slow")).state == "enrolled"


async def test_the_gateway_s_own_heartbeat_states_its_release_and_what_waits_and_no_other_does(rig: Rig) -> None:
    itself = own_device(GATEWAY_ID, None, is_workstation=False)
    rig.itself, rig.own_beat = itself, lambda: {**json.loads(itself.details), "counters": {PENDING: 7, OLDEST_S: 31}}
    await rig.open()
    await rig.telemetry("d")
    await rig.until(lambda: len(rig.enrolments()) == 2 and rig.store.figures.enrolments == 0)
    await rig.telemetry("d")
    await rig.until(lambda: {device_in(seen) for seen in rig.calls("heartbeat")} == {"d", GATEWAY_ID})
    bodies = {device_in(seen): json.loads(seen.body) for seen in rig.calls("heartbeat")}
    assert bodies[GATEWAY_ID]["client"]["name"] == DISTRIBUTION
    assert bodies[GATEWAY_ID]["counters"] == {PENDING: 7, OLDEST_S: 31}
    assert not {"client", "counters"} & set(bodies["d"])
