"""From when on telemetry is held back: since the first contact of who is not enrolled yet, for a
quarter of an hour at most.
"""

import asyncio

from gateway.fleet.devices.enrolment_hold import LONGEST_MS, MARGIN_MS, EnrolmentGate
from gateway.fleet.devices.own import own_device
from tests.support.upstream import Reply
from tests.unit.fleet.devices.conftest import GATEWAY_ID, START_MS, Rig, beat_of, kind_of

SETTLE_MS = 10_000


def gate(rig: Rig) -> EnrolmentGate:
    return EnrolmentGate(rig.store, settle_ms=SETTLE_MS, now_ms=rig.now_ms)


async def test_nothing_is_held_but_for_a_device_that_was_never_enrolled(rig: Rig) -> None:
    await rig.open()
    assert await gate(rig).held_from_ms() is None
    await rig.telemetry("d")
    await rig.until(lambda: rig.store.figures.enrolments == 0)
    assert await gate(rig).held_from_ms() is None


async def test_the_longest_known_of_those_that_wait_counts_over_restarts_too(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.telemetry("first")
    await rig.go_on(5)
    await rig.telemetry("second")
    assert await gate(rig).held_from_ms() == START_MS - SETTLE_MS - MARGIN_MS
    await rig.close()
    await rig.open(lane=False)
    assert await gate(rig).held_from_ms() == START_MS - SETTLE_MS - MARGIN_MS
    await rig.operate("POST", "/v2/devices/first/forget")
    assert await gate(rig).held_from_ms() == START_MS + 5000 - SETTLE_MS - MARGIN_MS


async def test_an_enrolment_under_way_holds_until_it_is_answered(rig: Rig) -> None:
    answer = asyncio.Event()
    rig.upstream.respond = lambda seen: Reply(201, until=answer)
    await rig.open()
    await rig.telemetry("d")
    await rig.upstream.seen_at_least(1)
    assert (await rig.device("d")).state == "enrolling"
    assert await gate(rig).held_from_ms() is not None
    answer.set()
    await rig.until(lambda: rig.store.figures.enrolments == 0)
    assert await gate(rig).held_from_ms() is None


async def test_after_a_quarter_of_an_hour_it_goes_on_without(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.telemetry("d")
    rig.clock.now_s += LONGEST_MS / 1000 - 1
    assert await gate(rig).held_from_ms() is not None
    rig.clock.now_s += 1
    assert await gate(rig).held_from_ms() is None


async def test_a_device_that_the_service_refuses_or_forgot_holds_nothing(rig: Rig) -> None:
    rig.upstream.respond = lambda seen: Reply(422 if kind_of(seen) == "enroll" else 204)
    await rig.open()
    await rig.beat("refused")
    await rig.until(lambda: rig.store.figures.enrolments == 0)
    assert (await rig.device("refused")).state == "quarantined"
    assert await gate(rig).held_from_ms() is None
    rig.upstream.respond = lambda seen: Reply(201 if kind_of(seen) == "enroll" else 404)
    await rig.beat("dropped")
    await rig.until(lambda: len(rig.calls("heartbeat")) == 1 and rig.store.figures.enrolments == 1)
    assert (await rig.device("dropped")).state == "reenrolling"
    assert await gate(rig).held_from_ms() is None


async def test_the_gateways_own_enrolment_holds_nothing_where_it_is_no_machine_of_a_user(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.store.meet([own_device(GATEWAY_ID, None, is_workstation=False)])
    assert await gate(rig).held_from_ms() is None
    await rig.store.meet([own_device("laptop", None, is_workstation=True)])
    assert await gate(rig).held_from_ms() is not None


async def test_who_calls_itself_a_gateway_is_held_for_as_others_are(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.store.heartbeat("rack-1", beat_of(kind="gateway"))
    assert await gate(rig).held_from_ms() is not None


async def test_while_it_cannot_be_read_who_waits_telemetry_waits_for_no_longer_than_else(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.telemetry("d")
    asked = gate(rig)
    held_ms = await asked.held_from_ms()
    assert held_ms is not None
    await rig.lose("devices")
    blind = gate(rig)
    for _ in range(2):
        assert (await asked.held_from_ms(), await blind.held_from_ms()) == (held_ms, held_ms)
        rig.clock.now_s += LONGEST_MS / 2000 - 1
    for _ in range(2):
        rig.clock.now_s += LONGEST_MS / 2000
        assert (await asked.held_from_ms(), await blind.held_from_ms()) == (None, None)
    await rig.give_back("devices")
