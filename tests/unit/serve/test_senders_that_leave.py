"""A sender that leaves before its body is whole: no unforeseen error, and nothing is taken."""

from http import HTTPStatus

import aiohttp
import pytest
from structlog.testing import capture_logs

from tests.support.leaving import leave
from tests.support.polling import until_true
from tests.unit.serve.test_revocation import Rig, rig

__all__ = ["rig"]


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
async def test_leaving_is_no_unforeseen_error_on_any_route(rig: Rig, *, reset: bool) -> None:
    headers = {"Authorization": rig.secret, "Content-Type": "application/json"}
    with capture_logs() as lines:
        for route, method in rig.taking_bodies():
            for n_bytes in (0, 5):
                await leave(rig.port, method, route.path.replace("*", "x"), headers, n_bytes, reset=reset)
        async with aiohttp.request("GET", f"http://127.0.0.1:{rig.port}/") as answer:
            assert answer.status == HTTPStatus.NOT_FOUND, "all who left came before"
        await until_true(lambda: rig.connections() == 0, what="the receiver notices that all left")
    assert rig.receiver.counts.gone > 0
    assert rig.receiver.counts.unforeseen == 0
    assert rig.intake.asked == []
    assert [line for line in lines if line["log_level"] == "error"] == []
