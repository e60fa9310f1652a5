"""A captured payload comes to the same records, byte for byte, wherever the spool is."""

from pathlib import Path

import pytest

from gateway.common.contract.intake import Sender
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.parsing.parse import ParseRules
from gateway.pipeline.parsing.parse import Payload as Taken
from gateway.pipeline.parsing.parser import Parser
from gateway.usage.pricing.prices import Prices
from tests.conformance.corpus.truths import LOGS, METRICS, TRACES
from tests.support.corpus import Scenario
from tests.support.metrics_rig import METRICS_SETTLE_MS
from tests.support.spool_homes import HOMES, spool_home_of
from tests.support.spool_rig import Clock, Rig, drained


async def records(name: str, scenario: Scenario, folder: Path) -> list[bytes]:
    """What is forwarded of the payloads, which come one by one, with a kill behind each."""
    clock = Clock()
    home = spool_home_of(name, folder / name, clock)
    rig = await Rig.opened(folder, clock, home=home)
    for payload in scenario.payloads:
        front = Front(rig.spool, Core(rig.spool, rig.counting), Parser(ParseRules(Prices())), now_ms=clock)
        await front.put(Taken(payload.signal, payload.body, payload.is_json), Sender(None, "peer"))
        home.kill()
        await rig.reopen()
        clock.now_ms += 10
    await rig.settle(after_ms=METRICS_SETTLE_MS)
    await rig.settle()
    found = await drained(rig.spool)
    await home.check()
    await rig.close()
    return found


@pytest.mark.parametrize("scenario", [*TRACES, *LOGS, *METRICS], ids=lambda x: f"{x.name}.{x.payloads[0].signal}")
async def test_a_captured_payload_comes_to_the_same_records_on_every_home(scenario: Scenario, tmp_path: Path) -> None:
    first, second = [await records(name, scenario, tmp_path) for name in HOMES]
    assert first == second
