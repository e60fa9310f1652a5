"""A payload that is counted in pieces: others have their turn in between, and none of it settles
before all of it is counted.
"""

import asyncio
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.pipeline import core
from tests.support.calls import span_id, trace_id
from tests.support.metrics import LABELS, RESOURCE, at_ns, attributes
from tests.support.metrics_rig import ANYONE, SETTLE_MS, MetricsRig
from tests.support.spool_rig import totals

CALLS = 400


def reported_by_two(n: int) -> bytes:
    """*n* calls at one time, reported by one instrumentation after the other."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(attributes(RESOURCE))
    for name in ("openai", "agents"):
        scope = resource.scope_spans.add()
        scope.scope.name = name
        for number in range(n):
            scope.spans.add(
                trace_id=trace_id(f"t{number}"),
                span_id=span_id(f"{name}{number}"),
                name="chat gpt-4o",
                start_time_unix_nano=at_ns(0),
                end_time_unix_nano=at_ns(1),
                attributes=attributes({**LABELS, "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 5}),
            )
    return request.SerializeToString()


async def test_a_payload_in_pieces_is_settled_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "PIECE_CALLS", 20)
    rig = await MetricsRig(tmp_path).open()
    taking = asyncio.create_task(rig.intake.traces(reported_by_two(CALLS), json=False, sender=ANYONE))
    while not taking.done():
        rig.clock.now_ms += SETTLE_MS
        await rig.counting.settle_due(rig.spool.age_ms())
        await asyncio.sleep(0)
    assert (await taking).items == 2 * CALLS
    rig.clock.now_ms += SETTLE_MS
    await rig.counting.settle_due(rig.spool.age_ms())
    assert totals(await rig.records()) == (CALLS, 7 * CALLS, 5 * CALLS)
    await rig.close()
