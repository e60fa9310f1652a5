"""A lane that its upstream's answers hold, as an operator meets it: `/v2/status`, `/readyz`, the
page, the log, `doctor`, and the command that lets it go on.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from benchmarks.bodies import Shape, Template
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess, Upstream, broken_identities
from tests.support.kill_load import Load
from tests.support.upstream import Reply, Respond, Seen
from tests.support.upstream import Upstream as UpstreamServer
from tests.support.upstream_thread import upstream_in_thread

SHAPE = Shape(spans=40, attributes=15)


def to_records(answer: Callable[[int], Reply]) -> Respond:
    """*answer* of how many records came; anything else is taken."""

    def respond(seen: Seen) -> Reply:
        if "ai-telemetry" not in seen.path:
            return Reply(200, {"Content-Type": "application/json"}, b"{}")
        return answer(len(orjson.loads(seen.body)["records"]))

    return respond


def lane_of(gateway: GatewayProcess) -> dict[str, Any]:
    return gateway.status()["lanes"]["ai_telemetry"]


def until_held(gateway: GatewayProcess) -> dict[str, Any]:
    def held() -> dict[str, Any] | None:
        lane = lane_of(gateway)
        return lane if lane["state"] == "held" else None

    return gateway.process.wait_until(held, timeout_s=60, what="a held lane")


def send(gateway: GatewayProcess, requests: int) -> int:
    """Distinct requests, each acknowledged; how many calls they hold."""
    load = Load(Template(SHAPE), lambda: gateway.intake_url)
    for _ in range(requests):
        asyncio.run(load.send_one())
    return requests * SHAPE.spans


@contextmanager
def gateway_beside(respond: Respond, folder: Path) -> Iterator[tuple[UpstreamServer, GatewayProcess]]:
    """An upstream, and a gateway that sends to it."""
    with (
        upstream_in_thread(respond) as far,
        GatewayProcess(folder, upstream=Upstream(far.base_url, "a-key-of-the-test")) as gateway,
    ):
        yield far, gateway


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(202, body=b'{"accepted":0}'), "it names 0 accepted and 0 rejected of"),
        (Reply(200, {"Content-Type": "text/plain"}, b"<html>Log in"), "it is a web page"),
    ],
)
def test_answers_that_are_not_understood_are_shown_wherever_an_operator_looks(
    tmp_path: Path, reply: Reply, reason: str
) -> None:
    with gateway_beside(to_records(lambda _: reply), tmp_path) as (far, gateway):
        sent = send(gateway, 1)
        lane = until_held(gateway)
        assert (lane["delivered"], lane["dead_lettered"], lane["pending"]) == (0, 0, sent)
        token = {"Authorization": (gateway.data_dir / "admin-token").read_text().strip()}
        ready = httpx.get(f"{gateway.admin_url}/readyz").text
        page = httpx.get(f"{gateway.admin_url}/", headers=token).text
        doctor = run_command(gateway, "doctor")
        for text in (lane["reason"], ready, page, doctor.out):
            assert reason in text
        assert ready.startswith("ready, degraded: lane ai_telemetry is held")
        assert "spool set-aside ai_telemetry" in doctor.out
        gateway.process.wait_until(
            lambda: re.search("lane state changed.*held", gateway.log.read_text()), timeout_s=30, what="its line"
        )
        first, second = [seen for seen in far.seen if b"record_id" in seen.body][:2]
        assert (first.body, first.headers["Idempotency-Key"]) == (second.body, second.headers["Idempotency-Key"])
        far.respond = to_records(lambda _: Reply(202))
        gateway.stop()
        gateway.restart()
        delivered = gateway.wait_until_delivered()["lanes"]["ai_telemetry"]
        assert (delivered["delivered"], delivered["dead_lettered"]) == (sent, 0)
        assert httpx.get(f"{gateway.admin_url}/readyz").text == "ready\n"
        assert broken_identities(gateway.status()) == []


def test_a_lane_that_refusals_hold_goes_on_at_an_operators_word(tmp_path: Path) -> None:
    refuses = Reply(422, body=b'{"error":{"type":"schema","message":"inference/2 is needed"}}')
    with gateway_beside(to_records(lambda _: refuses), tmp_path) as (_, gateway):
        assert run_command(gateway, "spool", "set-aside", "ai_telemetry").code == 1
        assert "there is no lane odd" in run_command(gateway, "spool", "set-aside", "odd").err
        sent = send(gateway, 3)
        lane = until_held(gateway)
        assert lane["reason"].startswith("the upstream refuses every record: schema: inference/2")
        assert 0 < lane["dead_lettered"] < 20
        assert "spool set-aside ai_telemetry" in run_command(gateway, "doctor").out
        set_aside = lane_of(gateway)["dead_lettered"]  # the last refusal is on disk a moment after the lane is held
        gateway.kill()
        gateway.restart()
        assert until_held(gateway)["dead_lettered"] == set_aside < 20, "the brake outlasts a kill"
        done = run_command(gateway, "spool", "set-aside", "ai_telemetry", "--json")
        assert (done.code, done.json["lane"]) == (0, "ai_telemetry")
        status = gateway.wait_until_delivered()
        assert status["lanes"]["ai_telemetry"]["dead_lettered"] == sent
        assert broken_identities(status) == []
        gateway.stop()
        assert "no gateway runs" in run_command(gateway, "spool", "set-aside", "ai_telemetry").err
