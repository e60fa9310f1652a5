"""What an operator reads of a key that was tried at the upstream."""

import pytest

from exporters.cost_service.lanes import AI_TELEMETRY_SCOPE
from exporters.cost_service.liveness import LIVENESS_SCOPE
from exporters.cost_service.probe import judged


@pytest.mark.parametrize("status", [200, 202, 204])
def test_a_key_is_taken_where_the_answer_proves_it(status: int) -> None:
    probed = judged(status, AI_TELEMETRY_SCOPE, is_granted=True)
    assert probed.is_well
    assert probed.text == f"HTTP {status}: the upstream takes this key"


@pytest.mark.parametrize("status", [206, 400, 405, 413, 422, 429])
@pytest.mark.parametrize("scope", [AI_TELEMETRY_SCOPE, LIVENESS_SCOPE])
def test_what_proves_nothing_of_the_key_is_not_said_to(status: int, scope: str) -> None:
    probed = judged(status, scope, is_granted=True)
    assert probed.is_well
    assert "takes this key is unknown" in probed.text
    assert ("limits requests" in probed.text) is (status == 429)


@pytest.mark.parametrize("status", [302, 401, 403, 404, 500, 503])
def test_a_refusal_of_the_key_or_an_upstream_that_is_not_well_is_a_fault(status: int) -> None:
    assert not judged(status, AI_TELEMETRY_SCOPE, is_granted=True).is_well
