"""The table of a device's life."""

import pytest

from gateway.fleet.devices.states import (
    ENROLS,
    EVENTS,
    KNOWN,
    STATES,
    TRANSITIONS,
    Event,
    NoSuchTransition,
    State,
    after,
    may,
)


def test_every_state_can_be_reached_and_every_event_happens_somewhere() -> None:
    assert set(TRANSITIONS.values()) == set(STATES)
    assert {event for _, event in TRANSITIONS} == set(EVENTS)


def test_what_is_not_in_the_table_is_an_error() -> None:
    assert not may("pending", "forgotten")
    with pytest.raises(NoSuchTransition, match="forgotten cannot happen to a device that is pending"):
        after("pending", "forgotten")


@pytest.mark.parametrize("state", ["blocked", "quarantined"])
def test_only_an_operator_ends_a_block_or_a_quarantine(state: State) -> None:
    ways_out = {event for (before, event), to in TRANSITIONS.items() if before == state and to != state}
    assert ways_out <= {"let_in", "blocked"}
    assert after(state, "let_in") == "pending"


@pytest.mark.parametrize("state", STATES)
def test_every_device_may_speak_and_may_be_blocked(state: State) -> None:
    assert after(state, "blocked") == "blocked"
    spoken = after(state, "contacted")
    assert (spoken in ENROLS, spoken in KNOWN) == (state in ENROLS, state in KNOWN)


@pytest.mark.parametrize(("event", "to"), [("fell_silent", "offline"), ("long_silent", "inactive")])
def test_verdicts_on_silence_are_the_ones_that_the_store_writes_in_bulk(event: Event, to: State) -> None:
    before = {state for (state, happened) in TRANSITIONS if happened == event}
    assert before == ({"enrolled"} if to == "offline" else {"enrolled", "offline"})
    assert all(after(state, event) == to for state in before)
