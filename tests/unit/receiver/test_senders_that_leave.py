"""A sender that leaves before its body is whole: no unforeseen error, and nothing is taken."""

import pytest
from structlog.testing import capture_logs

from tests.support.leaving import leave
from tests.support.polling import until_true
from tests.unit.receiver.test_revocation import Rig, rig

__all__ = ["rig"]


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
async def test_leaving_is_no_unforeseen_error_on_any_route(rig: Rig, *, reset: bool) -> None:
    headers = {"Authorization": rig.secret, "Content-Type": "application/json"}
    counts, n = rig.receiver.counts, 0
    with capture_logs() as lines:
        for route, method in rig.taking_bodies():
            for n_bytes in (0, 5):
                await leave(rig.port, method, route.path.replace("*", "x"), headers, n_bytes, reset=reset)
                n += 1
        await until_true(lambda: counts.gone + sum(counts.answers_total()) >= 0, timeout_s=1, what="")
    assert counts.unforeseen == 0
    assert rig.intake.asked == []
    assert [line for line in lines if line["log_level"] == "error"] == []
