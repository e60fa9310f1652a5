"""How the lanes are shown."""

from gateway.lanes import shown_state


def test_a_lane_that_gave_up_its_last_record_is_not_shown_as_trying_again() -> None:
    assert shown_state("retrying", "no answer", 0) == ("ok", None)
    assert shown_state("retrying", "no answer", 1) == ("retrying", "no answer")
    assert shown_state("held", "the key is refused", 0) == ("held", "the key is refused")
