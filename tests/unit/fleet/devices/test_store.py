"""What senders bring, in each home: outcomes, clones, limits, verdicts,
restarts, and an operator's words.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from gateway.common.contract.errors import BadPayload, NoAnswer, NotFound
from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.devices import changes
from gateway.fleet.devices.contacts import MAX_INSTANCES
from gateway.fleet.devices.heartbeat_body import decode_heartbeat
from gateway.fleet.devices.home import DeviceRows
from gateway.fleet.devices.rows import New
from gateway.operate.devices import OPERATIONS
from tests.support.operations import perform
from tests.support.upstream import Reply
from tests.unit.fleet.devices.conftest import GATEWAY_ID, Rig, beat_of


@contextmanager
def commits_of(database: Database) -> Iterator[list[str]]:
    """The statements that commit, of *database*'s writing connection."""
    commits: list[str] = []
    connection = database._writer.plain
    connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    yield commits
    connection.set_trace_callback(None)


async def test_a_burst_of_first_contacts_is_few_commits(rig: Rig) -> None:
    await rig.open(lane=False)
    in_file = rig.memory is None and isinstance(rig.database, Database)
    with commits_of(rig.database) if in_file else nullcontext([]) as commits:
        await asyncio.gather(*(rig.beat(f"d{n}") for n in range(400)))
    assert len(commits) <= 3
    assert rig.store.figures.enrolments == 400


async def test_a_known_device_is_looked_for_in_memory_alone(rig: Rig) -> None:
    await rig.open(lane=False)
    assert rig.store.strangers(["d"]) == ["d"]
    await rig.telemetry("d")
    assert rig.store.strangers(["d"]) == []
    await rig.close()
    await rig.open(lane=False)
    assert rig.store.strangers(["d"]) == ["d"]
    await rig.telemetry("d")
    assert rig.store.figures.enrolments == 1


async def test_outcomes_of_heartbeats_pings_and_enrolments(rig: Rig) -> None:
    await rig.open(lane=False)
    outcomes = [
        (await rig.beat("d", 5)).outcome,  # waits
        (await rig.beat("d", 5)).outcome,  # again
        (await rig.beat("d", 4)).outcome,  # late
        (await rig.beat("d", 6)).outcome,  # takes the other's place
        (await rig.store.ping("d")).outcome,  # states less than what waits
        (await rig.store.ping("p")).outcome,
        (await rig.store.enroll(New("e", "server", "enrolment"))).outcome,
        (await rig.store.enroll(New("e", "server", "enrolment"))).outcome,
    ]
    assert outcomes == ["kept", "duplicate", "suppressed", "suppressed", "suppressed", "kept", "kept", "duplicate"]
    figures = rig.store.figures
    assert figures.edge == {"received": 8, "kept": 3, "duplicate": 2, "suppressed": 3, "rejected": 0, "ignored": 0}
    assert figures.reasons == {"duplicate.heartbeat": 1, "suppressed.superseded": 3, "duplicate.enrolment": 1}
    assert figures.lane["pending"] == 3
    device = await rig.device("d")
    assert b'"sequence":6' in (device.beat or b"")


async def test_who_telemetry_reported_is_enrolled_as_what_it_says_itself_if_it_does_so_in_time(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.telemetry("enrolled", "beating", "of no kind", "silent")
    labelled = New("enrolled", "workstation", "enrolment", b'{"labels":{"team":"core"}}')
    assert (await rig.store.enroll(labelled)).outcome == "duplicate"
    await rig.store.heartbeat("beating", beat_of(kind="workstation", host={"os": "darwin"}))
    await rig.store.heartbeat("of no kind", beat_of(host={"os": "linux"}))
    await rig.close()
    await enroll_all(rig)
    sent = {body["device_id"]: body for body in rig.enrolments()}
    assert {name: body["kind"] for name, body in sent.items()} == {
        "enrolled": "workstation", "beating": "workstation", "of no kind": "server", "silent": "server"
    }  # fmt: skip
    assert (sent["enrolled"]["labels"], sent["beating"]["host"]) == ({"team": "core"}, {"os": "darwin"})
    assert (await rig.device("enrolled")).origin == "telemetry", "its first contact"


async def test_an_enrolment_that_may_have_arrived_is_repeated_as_it_was(rig: Rig) -> None:
    rig.upstream.respond = lambda seen: Reply(500)
    await rig.open()
    await rig.telemetry("d")
    await rig.until(lambda: len(rig.enrolments()) == 1)
    await rig.store.enroll(New("d", "workstation", "enrolment"))
    await rig.until(lambda: len(rig.enrolments()) == 2)
    assert {body["kind"] for body in rig.enrolments()} == {"server"}


async def test_a_repeat_under_one_enrollment_id_is_the_same_request_whatever_was_learnt_since(rig: Rig) -> None:
    rig.upstream.script.extend([Reply(reset="after_reading")] * 2)
    await rig.open()
    await rig.telemetry("d")
    await rig.until(lambda: len(rig.enrolments()) == 1)
    await rig.store.heartbeat("d", beat_of(kind="gateway", host={"os": "darwin"}))
    await rig.until(lambda: len(rig.enrolments()) == 2)
    await rig.close()
    await enroll_all(rig)
    sent = rig.calls("enroll")
    assert len(sent) == 3
    assert len({(seen.body, seen.headers["Idempotency-Key"]) for seen in sent}) == 1
    assert b"darwin" in (await rig.device("d")).details, "for the next enrolment"


async def test_a_clone_says_nothing_of_the_machine_that_keeps_the_id(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.telemetry("d")
    await rig.close()
    await enroll_all(rig)
    for n in range(1, 5):
        await rig.store.heartbeat("d", beat_of(n, "b", host={"name": "b"}))
        await rig.store.heartbeat("d", beat_of(n, "a", host={"name": "a"}))
    before = await rig.device("d")
    await rig.operate("POST", "/v2/devices/d/enroll")
    clone = "a" if before.instance_id == "b" else "b"
    await rig.store.heartbeat("d", beat_of(9, clone, kind="gateway", host={"name": clone}))
    after = await rig.device("d")
    assert (after.kind, after.details, after.instance_id) == (before.kind, before.details, before.instance_id)


async def test_figures_outlive_the_process(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.beat("d")
    before = rig.store.figures
    await rig.close()
    await rig.open(lane=False)
    assert rig.store.figures == before


async def test_a_change_that_raises_takes_nothing_of_the_others_with_it(rig: Rig) -> None:
    await rig.open(lane=False)

    def bad(kept: DeviceRows) -> None:
        changes.count(kept, "kept")
        raise BadPayload("no")

    results = await asyncio.gather(rig.beat("a"), rig.store.change(bad), rig.beat("b"), return_exceptions=True)
    assert isinstance(results[1], BadPayload)
    assert rig.store.figures.edge["kept"] == 2
    assert sorted(await rig.states()) == ["a", "b"]


async def test_who_cannot_be_written_down_is_asked_about_again(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.lose("enrolments")
    with pytest.raises(DatabaseUnavailable):
        await rig.telemetry("d")
    with pytest.raises(DatabaseUnavailable):
        await rig.beat("d")
    await rig.give_back("enrolments")
    await rig.telemetry("d")
    assert list(await rig.states()) == ["d"]


async def test_an_hour_brings_so_many_new_devices_also_over_a_restart(rig: Rig) -> None:
    rig.max_new_per_hour = 3
    await rig.open(lane=False)
    await rig.telemetry("a", "b", "c", "too many")
    assert (await rig.beat("d")).state is None
    assert rig.store.figures.reasons == {"rejected.too_many_new_devices": 1}
    assert rig.store.new_device_wait_s() == 1201
    assert rig.store.strangers(["too many"]) == ["too many"]
    await rig.close()
    await rig.open(lane=False)
    assert (await rig.beat("d")).state is None
    assert (await rig.beat("a")).outcome == "kept"
    rig.clock.advance(3600)
    assert (await rig.beat("d")).outcome == "kept"
    assert sorted(await rig.states()) == ["a", "b", "c", "d"]


async def test_the_gateway_itself_is_not_one_new_device_too_many(rig: Rig) -> None:
    rig.max_new_per_hour = 0
    await rig.open(lane=False)
    await rig.store.meet([New(GATEWAY_ID, "gateway", "gateway")])
    assert list(await rig.states()) == [GATEWAY_ID]


async def enroll_all(rig: Rig) -> None:
    """As if the service had taken all of them."""
    await rig.open()
    await rig.until(lambda: rig.store.figures.enrolments == 0)
    await rig.close()
    await rig.open(lane=False)


async def test_two_instances_that_take_turns_are_two_machines(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.beat("d", 1, "a")
    await rig.close()
    await enroll_all(rig)
    await rig.beat("d", 1, "b")
    assert (await rig.states()) == {"d": "enrolled"}, "a restart has a new instance too"
    await rig.beat("d", 2, "a")
    assert (await rig.states()) == {"d": "conflict"}
    for n in range(3, 9):
        await rig.beat("d", n, "a")
        await rig.beat("d", n, "b")
    assert await rig.states() == {"d": "conflict", "d~2": "pending"}
    assert (await rig.device("d~2")).clone_of == "d"
    assert (await rig.device("d")).instance_id == "a"
    assert rig.store.figures.enrolments == 1


async def meet_two_machines(rig: Rig) -> None:
    """Two that speak in turns under the id of one that is enrolled."""
    await rig.open(lane=False)
    await rig.beat("d", 1, "a")
    await rig.close()
    await enroll_all(rig)
    for n in range(2, 5):
        await rig.beat("d", n, "b")
        await rig.beat("d", n, "a")


async def test_a_block_of_an_id_holds_for_every_machine_that_speaks_under_it(rig: Rig) -> None:
    await meet_two_machines(rig)
    assert await rig.states() == {"d": "conflict", "d~2": "pending"}
    await rig.operate("POST", "/v2/devices/d/block")
    taken = [(await rig.beat("d", 9, instance)).outcome for instance in ("a", "b", "new")]
    assert taken == ["rejected"] * 3
    assert rig.store.figures.reasons["rejected.device_blocked"] == 3


async def test_a_block_of_one_machine_holds_for_what_is_sent_under_its_own_id(rig: Rig) -> None:
    await meet_two_machines(rig)
    await rig.telemetry("d~2")
    assert rig.store.strangers(["d~2"]) == []
    await rig.operate("POST", "/v2/devices/d~2/block")
    assert (await rig.beat("d", 9, "b")).outcome == "rejected"
    await rig.telemetry("d", "d~2")
    assert [rig.store.is_blocked(name) for name in ("d", "d~2")] == [False, True]


async def test_invented_instances_neither_grow_the_file_nor_make_one_device_slow(rig: Rig) -> None:
    await rig.open(lane=False)
    for n in range(200):
        assert (await rig.beat("d", 1, f"i{n}")).outcome in {"kept", "suppressed"}
        rig.clock.advance(1)
    number = (await rig.device("d")).device_no
    instances = await rig.store.read(lambda kept: kept.instances(number))
    assert instances.keys() == {f"i{n}" for n in range(200 - MAX_INSTANCES, 200)}
    assert (await rig.beat("d", 1, "i199")).outcome == "duplicate"


async def test_times_are_those_of_the_wall_clock_after_it_was_put_right(rig: Rig) -> None:
    await rig.open()
    rig.wall_ahead_ms = 6 * 86_400_000  # as after a week in which no gateway ran: that counts as one day
    await rig.beat("d")
    await rig.telemetry("t")
    await rig.until(lambda: len(rig.calls("heartbeat")) == 1)
    await rig.telemetry("t")
    await rig.until(lambda: len(rig.calls("heartbeat")) == 2)
    told = [json.loads(seen.body) for seen in rig.calls("heartbeat")]
    assert [body["first_seen_at"][:10] for body in rig.enrolments()] == ["2026-01-11"] * 2
    assert [body["observed_at"][:10] for body in told] == ["2026-01-11"] * 2
    assert told[1]["last_activity_at"][:10] == "2026-01-11"
    shown = await rig.operate("GET", "/v2/devices/d")
    times = ("first_seen_at", "last_contact_at", "enrolled_at", "last_heartbeat_at")
    assert {shown[name][:10] for name in times} == {"2026-01-11"}
    (listed, _) = (await rig.operate("GET", "/v2/devices"))["devices"]
    assert {name: listed[name] for name in times} == {name: shown[name] for name in times}


async def test_an_instance_that_comes_back_after_long_is_a_machine_that_was_switched(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.beat("d", 1, "a")
    await rig.close()
    await enroll_all(rig)
    await rig.beat("d", 1, "b")
    rig.clock.advance(11 * 60)
    await rig.beat("d", 2, "a")
    assert list(await rig.states()) == ["d"]


async def test_many_machines_under_one_id_get_eight_ids_and_no_more(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.beat("d", 0, "m0")
    await rig.close()
    await enroll_all(rig)
    for n in range(40):
        for machine in range(20):
            await rig.beat("d", n + 1, f"m{machine}")
    assert len(await rig.states()) == 8


async def test_who_is_silent_is_offline_then_inactive_then_forgotten_and_comes_back_by_speaking(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.telemetry("d", "b")
    await rig.close()
    await enroll_all(rig)
    await rig.operate("POST", "/v2/devices/b/block")

    async def later(seconds: float) -> dict[str, str]:
        rig.clock.advance(seconds)
        await rig.store.look_after(())
        return await rig.states()

    assert (await later(290))["d"] == "enrolled"
    assert (await later(40))["d"] == "offline"
    await rig.telemetry("d")
    assert (await later(1))["d"] == "enrolled"
    assert (await later(15 * 86_400))["d"] == "inactive"
    assert await later(80 * 86_400) == {"b": "blocked"}


async def test_last_contacts_are_written_now_and_then(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.telemetry("d")
    rig.clock.advance(30)
    await rig.telemetry("d")
    assert (await rig.device("d")).last_contact_ms == rig.now_ms() - 30_000
    await rig.store.look_after(())
    assert (await rig.device("d")).last_contact_ms == rig.now_ms()
    rig.clock.advance(30)
    await rig.telemetry("d")
    await rig.close()
    await rig.open(lane=False)
    assert (await rig.device("d")).last_contact_ms == rig.now_ms(), "a stop writes them down"


async def test_an_operator_blocks_lets_in_and_forgets(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.store.heartbeat("d", beat_of(1, labels={"team": "core"}))
    shown = await rig.operate("GET", "/v2/devices/d")
    assert (shown["state"], shown["labels"], shown["enrolment"]["attempts"]) == ("pending", {"team": "core"}, 0)
    blocked = await rig.operate("POST", "/v2/devices/d/block")
    assert (blocked["state"], blocked["reason"]) == ("blocked", "an operator blocked it")
    assert rig.store.figures.lane["expired"] == 1
    assert (await rig.beat("d", 2)).outcome == "rejected"
    with pytest.raises(BadPayload, match="unblock it first"):
        await rig.operate("POST", "/v2/devices/d/enroll")
    assert (await rig.operate("POST", "/v2/devices/d/unblock"))["epoch"] == 2
    with pytest.raises(BadPayload, match="only a blocked or quarantined"):
        await rig.operate("POST", "/v2/devices/d/unblock")
    assert (await rig.beat("d", 3)).outcome == "kept"
    await rig.operate("DELETE", "/v2/devices/d")
    assert await rig.states() == {}
    assert (rig.store.figures.lane["pending"], rig.store.figures.enrolments) == (0, 0)
    with pytest.raises(NotFound):
        await rig.operate("GET", "/v2/devices/d")
    with pytest.raises(BadPayload, match="all"):
        await rig.operate("POST", "/v2/devices/enroll")


async def test_those_who_are_blocked_are_known_by_all_their_names(rig: Rig) -> None:
    await rig.open(lane=False)
    for name in ("d", "e", "f"):
        await rig.beat(name)

    def named(kept: DeviceRows) -> None:
        device = kept.find("d")
        assert device is not None
        kept.add_alias("dev-42", device.device_no)

    await rig.home.commit(named)
    assert await rig.home.read(lambda kept: kept.blocked(10)) == []
    await rig.operate("POST", "/v2/devices/d/block")
    await rig.operate("POST", "/v2/devices/e/block")
    assert {*await rig.home.read(lambda kept: kept.blocked(10))} == {"d", "e", "dev-42"}
    assert len(await rig.home.read(lambda kept: kept.blocked(2))) == 2


async def test_nobody_asks_the_service_while_there_is_no_lane(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.beat("d")
    with pytest.raises(NoAnswer):
        await rig.operate("POST", "/v2/devices/d/ping")


async def test_the_list_has_filters_sorting_and_pages(rig: Rig) -> None:
    await rig.open(lane=False)
    for n in range(5):
        rig.clock.advance(1)
        await rig.telemetry(f"d{n}")
    await rig.beat("laptop")
    await rig.operate("POST", "/v2/devices/d3/block")

    async def page(**query: str) -> tuple[list[str], dict[str, Any]]:
        answer = await perform(OPERATIONS, rig.store, "GET", "/v2/devices", query=list(query.items()))
        return [device["device_id"] for device in answer["devices"]], answer

    assert (await page())[0] == ["d0", "d1", "d2", "d3", "d4", "laptop"]
    assert (await page(state="blocked"))[0] == ["d3"]
    assert (await page(kind="workstation"))[0] == ["laptop"]
    assert (await page(first_contact="telemetry", sort_key="first_seen_at", sort_order="desc", limit="2"))[0] == [
        "d4",
        "d3",
    ]
    first, answer = await page(limit="4")
    second, _ = await page(cursor=answer["pagination"]["cursor"]["next_cursor"])
    assert first + second == ["d0", "d1", "d2", "d3", "d4", "laptop"]
    assert answer["pagination"]["total_count"] == 6


async def test_an_enrolment_that_was_taken_is_not_taken_again_before_its_lease_ends_or_the_next_start(rig: Rig) -> None:
    await rig.open(lane=False)
    await rig.telemetry("a", "b")
    first = await rig.store.claim(10, again=True)
    assert len(first) == 2
    assert rig.store.figures.enrolments == 2
    await rig.telemetry("c")
    assert [each.device.device_id for each in await rig.store.claim(10, again=True)] == ["c"]
    rig.clock.advance(121)
    assert len(await rig.store.claim(2, again=True)) == 2
    await rig.close()
    await rig.open(lane=False)
    again = await rig.store.claim(10, again=True)
    assert {each.enrollment_id for each in first} < {each.enrollment_id for each in again}
    assert [each.attempts for each in again][:2] == [3, 3]


async def test_the_counters_of_a_heartbeat_are_shown_until_later_ones_and_are_in_no_enrolment(rig: Rig) -> None:
    await rig.open(lane=False)
    said = {"client": {"name": "edge", "version": "1"}, "counters": {"pending_records": 7}}
    await rig.store.heartbeat("d", decode_heartbeat(json.dumps({"instance_id": "one", "sequence": 1, **said}).encode()))
    shown = await rig.operate("GET", "/v2/devices/d")
    assert (shown["client"], shown["counters"]) == (said["client"], {"pending_records": 7})
    later = {"instance_id": "one", "sequence": 2, "counters": {"pending_records": 0}}
    await rig.store.heartbeat("d", decode_heartbeat(json.dumps(later).encode()))
    shown = await rig.operate("GET", "/v2/devices/d")
    assert (shown["client"], shown["counters"]) == (said["client"], {"pending_records": 0})
    await rig.close()
    await rig.open()
    await rig.until(lambda: rig.enrolments("d") != [])
    (enrolment,) = rig.enrolments("d")
    assert enrolment["client"] == said["client"]
    assert "counters" not in enrolment
