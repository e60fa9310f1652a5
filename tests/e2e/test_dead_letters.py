"""Dead letters from end to end: an upstream that refuses some records, the commands over the
running gateway and on its files.
"""

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.bodies import Shape, Template
from tests.support.commands import Ended, run_command
from tests.support.gateway_process import GatewayProcess, Status, Upstream, broken_identities
from tests.support.kill_load import Load
from tests.support.refusing_service import RefusingService
from tests.support.upstream import running_upstream

KEY = "an-outbound-key-of-the-test"
SHAPE = Shape(spans=30, attributes=15)


class Rig(NamedTuple):
    gateway: GatewayProcess
    service: RefusingService

    async def send(self, requests: int) -> int:
        """Distinct requests, each acknowledged; how many calls they hold."""
        load = Load(Template(SHAPE), lambda: self.gateway.intake_url)
        for _ in range(requests):
            await load.send_one()
        return requests * SHAPE.spans

    async def until(self, delivered: int, dead_lettered: int) -> Status:
        def settled() -> Status | None:
            status = self.gateway.status()
            lane = status["lanes"]["ai_telemetry"]
            found = (lane["pending"], lane["delivered"], lane["dead_lettered"])
            return status if found == (0, delivered, dead_lettered) else None

        return await asyncio.to_thread(self.gateway.process.wait_until, settled, what=f"{delivered} delivered")

    async def command(self, *arguments: str, answer: str | None = None) -> Ended:
        return await asyncio.to_thread(run_command, self.gateway, "spool", *arguments, answer=answer)


def odd_code(record: dict[str, Any]) -> str | None:
    """A tenth of the records is refused for one reason, another for a second one."""
    return {0: "bad_model", 1: "bad_time"}.get(int(record["record_id"], 16) % 10)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    service = RefusingService(odd_code)
    async with running_upstream() as upstream:
        upstream.respond = service.respond
        gateway = GatewayProcess(tmp_path, upstream=Upstream(upstream.base_url, KEY))
        await asyncio.to_thread(gateway.start)
        try:
            yield Rig(gateway, service)
        finally:
            gateway.process.kill()


async def test_refused_records_are_listed_put_back_and_dropped_while_the_gateway_runs(rig: Rig) -> None:
    sent = await rig.send(4)
    refused = await asyncio.to_thread(
        rig.gateway.process.wait_until,
        lambda: dead_when_settled(rig.gateway, sent),
        what="all delivered or refused",
    )
    assert 0 < refused < sent
    status = await rig.until(sent - refused, refused)
    assert broken_identities(status) == []

    listed = await rig.command("dead-letters", "list", "--json", "--limit", "1000")
    assert listed.code == 0, listed.err
    letters = listed.json["dead_letters"]
    assert len(letters) == refused == listed.json["pagination"]["total_count"]
    assert {letter["reason"] for letter in letters} == {"bad_model", "bad_time"}
    assert not rig.service.taken.keys() & {letter["record_id"] for letter in letters}
    table = await rig.command("dead-letters", "list", "--reason", "bad_time", "--since", "1h")
    assert "refused: bad_time" in table.out
    assert "bad_model" not in table.out

    shown = await rig.command("dead-letters", "show", str(letters[0]["id"]))
    assert shown.json["record"]["record_id"] == letters[0]["record_id"]
    assert shown.json["message"] == f"refused: {letters[0]['reason']}"

    times = [letter["record_id"] for letter in letters if letter["reason"] == "bad_time"]
    dropped = await rig.command("dead-letters", "drop", "--reason", "bad_time", answer="n\n")
    assert dropped.code == 1
    assert f"Drop {len(times)} dead letters?" in dropped.err
    dropped = await rig.command("dead-letters", "drop", "--reason", "bad_time", "--yes", "--json")
    assert dropped.json == {"dropped": len(times), "missing": []}

    rig.service.refuses = lambda _: None
    replayed = await rig.command("dead-letters", "replay", "--json")
    assert replayed.json == {"replayed": {"ai_telemetry": refused - len(times)}, "skipped": 0, "missing": []}
    status = await rig.until(sent - len(times), len(times))
    assert broken_identities(status) == []
    assert len(rig.service.taken) == sent - len(times)
    assert not rig.service.taken.keys() & set(times)
    assert set(rig.service.arrivals.values()) == {1}
    told = f'dead_letter_ends_total{{end="dropped",lane="ai_telemetry"}} {float(len(times))}'
    await asyncio.to_thread(
        rig.gateway.process.wait_until,
        lambda: told in text_at(rig.gateway.admin_url + "/metrics") or None,
        what="told by /metrics",
    )


def dead_when_settled(gateway: GatewayProcess, sent: int) -> int | None:
    lane = gateway.status()["lanes"]["ai_telemetry"]
    ended: int = lane["delivered"] + lane["dead_lettered"]
    dead: int = lane["dead_lettered"]
    return dead if ended == sent else None


def text_at(url: str) -> str:
    with urllib.request.urlopen(url) as response:
        text: str = response.read().decode()
    return text


async def test_the_same_commands_work_on_the_files_when_no_gateway_runs(rig: Rig) -> None:
    rig.service.refuses = lambda _: "bad_model"
    sent = await rig.send(1)
    await rig.until(0, sent)
    assert await asyncio.to_thread(rig.gateway.stop) == 0
    listed = await rig.command("dead-letters", "list", "--json")
    assert listed.code == 0, listed.err
    first = listed.json["dead_letters"][0]
    assert (await rig.command("dead-letters", "drop", "--yes", str(first["id"]))).code == 0
    gone = await rig.command("dead-letters", "show", str(first["id"]))
    assert gone.code == 1
    assert "no dead letter has this id" in gone.err
    assert (await rig.command("dead-letters", "replay", "--json")).json["replayed"] == {"ai_telemetry": sent - 1}
    rig.service.refuses = lambda _: None
    await asyncio.to_thread(rig.gateway.restart)
    status = await rig.until(sent - 1, 1)
    assert broken_identities(status) == []
    assert len(rig.service.taken) == sent - 1


async def test_delivered_records_sent_again_change_no_count_at_either_end(tmp_path: Path) -> None:
    """Over the embedded service, which knows records by their ids."""
    template = Template(SHAPE)
    gateway = GatewayProcess(tmp_path)
    await asyncio.to_thread(gateway.start)
    try:
        rig = Rig(gateway, RefusingService(lambda _: None))
        sent = await rig.send(3)
        before = await rig.until(sent, 0)
        totals = await asyncio.to_thread(gateway.summary)
        assert totals["totals"]["calls"] == sent
        assert totals["totals"]["input_tokens"] == 3 * template.input_tokens
        counted = await rig.command("replay", "--since", "1h", "--dry-run")
        assert counted.out == f"ai_telemetry: {sent} delivered records would be sent again\n"
        replayed = await rig.command("replay", "--since", "1h", "--json")
        assert replayed.json == {"replayed": {"ai_telemetry": sent}}

        def sent_again() -> Any:
            resends: Any = gateway.status().get("resends", {})
            lane = resends.get("ai_telemetry")
            return lane if lane and lane["sent_again"].get("delivered") == sent else None

        lane = await asyncio.to_thread(gateway.process.wait_until, sent_again, what="sent again")
        assert lane["waiting"] == 0
        assert await asyncio.to_thread(gateway.summary) == totals
        after = await rig.until(sent, 0)
        assert counts_of(after) == counts_of(before)
        assert broken_identities(after) == []
        bad = await rig.command("replay", "--since", "1h", "--lane", "devices")
        assert bad.code == 1
        assert "devices" in bad.err
    finally:
        gateway.process.kill()


def counts_of(status: Status) -> dict[str, Any]:
    """Of the lane of AI telemetry, without what moves with each send."""
    of_sends = {"oldest_pending_age_s", "last_success_at", "last_send_s", "send_p95_s"}
    return {name: value for name, value in status["lanes"]["ai_telemetry"].items() if name not in of_sends}
