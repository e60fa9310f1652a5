"""What is wrong by the status: why, what to do, where on the page, and what is safe meanwhile."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.operate.findings.finding import Finding
from gateway.operate.findings.safe import safe_text
from gateway.operate.findings.status import of_status
from tests.support.findings import wrong_with
from tests.support.shown import shown, text_of
from tests.unit.operate.test_admin import figures, lane, overview, overview_of

NOW_MS = 1_767_607_200_000
"""2026-01-05T10:00:00Z"""
GIB = 1 << 30
REFUSED = {
    "status": 401, "reason": "no_key", "route": "/v1/traces", "requests": 3, "last_at": "2026-01-05T09:30:00.000Z",
    "last_peer": "10.0.0.7", "last_key": None,
}  # fmt: skip


def well(**fields: object) -> Any:
    return figures(**{"unpriced": {}, **fields})


def only(status: Any, **more: Any) -> Finding:
    (found,) = [each for each in of_status(status, **more) if each.level != "ok"]
    return found


def test_nothing_is_wrong_with_a_gateway_that_is_well() -> None:
    assert wrong_with(well()) == []


def test_models_without_a_price_are_named_with_the_page_that_prices_them() -> None:
    found = only(well(unpriced={"our/llama 3": 1}))
    assert (found.level, found.text) == ("warning", "our/llama 3 has no price; 1 call has no cost")
    assert found.step is not None
    assert (found.step.label, found.step.path) == ("Price it", "/prices?model=our%2Fllama+3")
    many = wrong_with(well(unpriced={f"m-{n}": n for n in range(1, 7)}))
    assert [each.text.split(";")[0] for each in many] == [
        "m-6 has no price", "m-5 has no price", "m-4 has no price", "3 more models have no price",
    ]  # fmt: skip
    assert "6 calls have no cost" in many[-1].text


@pytest.mark.parametrize(
    ("spool", "level", "text"),
    [
        ({"used_bytes": 81, "max_bytes": 100}, "warning", "81% full: 81 B of 100 B (spool.max_bytes)"),
        ({"disk_free_bytes": GIB - 1}, "warning", "1024.0 MiB are left on the disk of the data directory"),
        ({"disk_free_bytes": -5}, "fault", "0 B are left on the disk of the data directory"),
    ],
)
def test_room_that_runs_out_is_named_before_it_is_gone(spool: dict[str, int], level: str, text: str) -> None:
    found = only(well(spool={"used_bytes": 0, "max_bytes": 100, "disk_free_bytes": GIB, **spool}))
    assert (found.level, found.text) == (level, text)
    assert found.remedy
    assert wrong_with(well(spool={"used_bytes": 80, "max_bytes": 100, "disk_free_bytes": GIB})) == []


def letter(message: str, reason: str = "bad_model") -> Mapping[str, Any]:
    return {"lane": "ai_telemetry", "reason": reason, "message": message}


def test_refused_records_come_with_the_words_of_the_upstream_cut_and_harmless() -> None:
    kinds = [
        {"lane": "ai_telemetry", "reason": "bad_model", "records": 2},
        {"lane": "ai_telemetry", "reason": "quarantined", "records": 9},
    ]
    status = well(dead_letters=kinds)
    found = only(
        status, letters=[letter("of another", "other"), letter("no such\x1b[31m model " + "x" * 300), letter("older")]
    )
    assert found.text == "2 records were refused by the upstream of lane ai_telemetry (bad_model)"
    assert found.why is not None
    assert found.why.startswith("no such")
    assert "\x1b" not in found.why
    assert len(found.why) == 201
    assert found.step is not None
    assert found.step.path == "/dead-letters?lane=ai_telemetry&reason=bad_model"
    assert only(status).why is None


def test_a_sender_that_was_refused_is_named_for_an_hour() -> None:
    status = well(refused=[REFUSED])
    found = only(status, now_ms=NOW_MS)
    assert (
        found.text
        == "3 requests on /v1/traces from 10.0.0.7 refused with 401 (no_key), the last at 2026-01-05 09:30:00 UTC"
    )
    assert found.step is not None
    assert (found.step.path, found.step.is_change) == ("/keys/new", True)
    assert [*of_status(status, now_ms=NOW_MS + 1_800_001)] == [*of_status(well())]
    assert "with the key 'checkout'" in only(well(refused=[{**REFUSED, "last_key": "checkout"}])).text


def test_what_is_safe_is_said_and_what_is_lost_is_not_called_safe() -> None:
    kept = {"dead_letters": [{"lane": "a", "reason": "bad", "records": 1}], "lanes": {"a": lane(state="held")}}
    assert (
        safe_text(well(**kept))
        == "Nothing that was accepted is lost: 3 records wait on disk, 1 refused record is kept."
    )
    assert safe_text(well(lanes={"a": lane(pending=0, delivered=7)})) == "Nothing that was accepted is lost."
    lost = well(
        lanes={"a": lane(delivered=3, expired=1)}, resends={"a": {"dead_letters": {"expired": 2, "dropped": 4}}}
    )
    assert safe_text(lost) == (
        "1 record was given up for their age (spool.max_age), 2 refused records expired (spool.keep_dead_letters)."
        " All else is kept: 3 records wait on disk."
    )
    assert "not known" in safe_text(well(lanes={"a": lane(delivered=3)})), "the counts do not add up"
    unknown = well(quarantine={"salvages": 1, "records": None}, lanes={})
    assert (
        safe_text(unknown)
        == "an unknown number of records could not be read after 1 damage of the spool. All else is kept."
    )


def test_a_viewer_is_shown_no_button_that_is_refused_to_it() -> None:
    status = well(refused=[{**REFUSED, "last_at": "2026-01-05T09:59:00.000Z"}])
    for role_shown in (True, False):
        html = shown(overview.VIEW, {**overview_of(status), "can_change": role_shown})
        assert ('href="/keys/new"' in html) is role_shown
        assert "<code>telemetry-gateway keys create</code>" in html
        assert "Nothing that was accepted is lost: 3 records wait on disk." in text_of(html)
