"""How the lanes are shown, and what their keys grant."""

from exporters.secret import Secret
from gateway.common.contract.scopes import CATALOGUE, SEND_AI_TELEMETRY
from gateway.config.model import UpstreamKey
from gateway.pipeline.delivery.lanes import grants_of, shown_state


def test_a_lane_that_gave_up_its_last_record_is_not_shown_as_trying_again() -> None:
    assert shown_state("retrying", "no answer", 0) == ("ok", None)
    assert shown_state("retrying", "no answer", 1) == ("retrying", "no answer")
    assert shown_state("held", "the key is refused", 0) == ("held", "the key is refused")


def test_a_managed_outbound_key_grants_what_the_catalogue_has_in_its_use_case() -> None:
    grants = grants_of(UpstreamKey(name="a", secret=Secret("x"), managed=(SEND_AI_TELEMETRY,)))
    assert {row.name for row in CATALOGUE if grants(row.name)} == {
        row.name for row in CATALOGUE if row.use_case == SEND_AI_TELEMETRY
    }


def test_a_fixed_outbound_key_grants_exactly_what_it_lists() -> None:
    scopes = ("events_v1:create_event", "ai-control-plane:ping-device")
    grants = grants_of(UpstreamKey(name="a", secret=Secret("x"), scopes=scopes))
    assert {row.name for row in CATALOGUE if grants(row.name)} == set(scopes)
