"""Gateways that forward to a hub, as `doctor` and the page show them."""

from typing import Any

import pytest

from gateway.common.lists.conventions import Page, envelope, read_request
from gateway.fleet.devices.operated import DEVICE_LIST
from gateway.operate.devices import DeviceJson
from gateway.operate.edges import BEHIND_S, QUERY, edges_in
from gateway.operate.findings.senders import MAX_REFUSALS, of_edges
from gateway.operate.site.devices import VIEW, devices
from tests.support.shown import shown, text_of

CLIENT = {"name": "ai-telemetry-gateway", "version": "0.3.0"}
AT = "2026-01-05T10:00:00.000Z"


def device(name: str = "edge-1", **changes: Any) -> DeviceJson:
    made: DeviceJson = {
        "device_id": name, "state": "enrolled", "reason": None, "kind": "gateway", "first_contact": "enrolment",
        "upstream_id": None, "clone_of": None, "epoch": 1, "first_seen_at": AT, "last_contact_at": AT, "enrolled_at": AT,
        "last_heartbeat_at": AT, "heartbeat_interval_s": None, "host": {}, "client": CLIENT, "labels": {},
        "counters": {"pending_records": 12, "oldest_pending_s": 9},
    }  # fmt: skip
    return {**made, **changes}  # type: ignore[typeddict-item]  # fields of it


def answer(*found: DeviceJson) -> dict[str, Any]:
    page = Page(found, len(found), previous=None, next=None)
    return envelope(DEVICE_LIST, read_request(DEVICE_LIST, ()), page)


def test_other_products_gateways_are_no_edges() -> None:
    other = device("other", client={"name": "acme-gateway"})
    assert [edge.device_id for edge in edges_in([other, device()])] == ["edge-1"]
    wanted = read_request(DEVICE_LIST, QUERY)
    assert "gateway" not in wanted.filters["first_contact"], "the hub itself"


FAULTS = {
    "silent": ({"state": "offline"}, f"edge-1 is silent since {AT}", "look at its network"),
    "long silent": ({"state": "inactive"}, f"edge-1 is silent since {AT}", "look at its network"),
    "blocked": ({"state": "blocked", "reason": "an operator blocked it"}, "is blocked: an operator", "devices unblock"),
    "one id": ({"state": "conflict"}, "several gateways send heartbeats", "devices.own_id"),
    "behind": (
        {"counters": {"pending_records": 7000, "oldest_pending_s": BEHIND_S + 1}},
        "edge-1 is behind: 7000 records wait there, the oldest for 601 s",
        "telemetry-gateway status",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_with_an_edge_is_named_with_its_remedy(name: str) -> None:
    changes, text, remedy = FAULTS[name]
    sound, wrong = of_edges(answer(device("edge-2"), device(**changes)))
    assert (sound.level, sound.text) == ("ok", "2 gateways forward to this one; version 0.3.0")
    assert wrong.level == "warning"
    assert text in wrong.text
    assert remedy in (wrong.remedy or "")
    page = text_of(shown(VIEW, devices(answer(device(**changes)), edges_in([device(**changes)]))))
    assert text in page
    assert remedy in page


def test_an_edge_that_is_well_is_shown_with_its_release_and_what_waits_there() -> None:
    page = text_of(shown(VIEW, devices(answer(device()), edges_in([device()]))))
    assert "edge-1 enrolled 0.3.0 2026-01-05 10:00:00 UTC 12 9 s" in page
    assert "Edges" not in text_of(shown(VIEW, devices(answer(), [])))


def test_an_edge_of_an_earlier_release_states_nothing_of_what_waits() -> None:
    earlier = device(counters={}, client={"name": CLIENT["name"]})
    assert [finding.text for finding in of_edges(answer(earlier))] == [
        "1 gateway forwards to this one; version unknown"
    ]
    page = text_of(shown(VIEW, devices(answer(earlier), edges_in([earlier]))))
    unknown = "\N{EN DASH}"
    assert f"edge-1 enrolled {unknown} 2026-01-05 10:00:00 UTC {unknown} {unknown}" in page


def test_many_edges_with_a_fault_are_counted() -> None:
    found = list(of_edges(answer(*(device(f"edge-{n}", state="offline") for n in range(MAX_REFUSALS + 3)))))
    assert len(found) == MAX_REFUSALS + 2
    assert found[-1].text == "3 more have a fault"


def test_an_id_that_an_edge_chose_is_no_markup() -> None:
    odd = device("<b>rm", state="offline")
    assert "<b>rm" not in shown(VIEW, devices(answer(odd), edges_in([odd])))
