"""A call that does not show whether its input holds the cached tokens is read as other calls of its
instrumentation proved it: its own key's calls first, then those of other keys while they agree.
"""

from collections.abc import AsyncIterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.common.contract.intake import Sender
from spool.errors import SpoolError
from spool.record import Lane
from spool.settling import Position
from tests.support.calls import span_id, trace_id
from tests.support.metrics import at_ns, attributes
from tests.support.metrics_rig import SETTLE_MS, MetricsRig

A, B, C = (Sender(key, "192.0.2.1") for key in ("key-a", "key-b", "key-c"))
OPEN = (200, 100)
"""Input and cache reads of a call that proves nothing."""
EXCLUDES = (20, 5000)
"""Its part is greater than its whole."""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[MetricsRig]:
    made = await MetricsRig(tmp_path / "data").open()
    yield made
    await made.close()


def call(
    name: str,
    counts: tuple[int, int],
    *,
    scope: str = "my.own.scope",
    version: str = "1.0",
    holds: bool = False,
    at: float = 1,
    **more: Any,
) -> bytes:
    """*holds*: the provider's own object shows that the input holds the cached tokens."""
    given, cached = counts
    values: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.usage.input_tokens": given,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": cached,
    }
    if holds:
        values["gen_ai.usage.raw"] = (
            f'{{"input_tokens": {given - cached}, "output_tokens": 10, "cache_read_input_tokens": {cached}}}'
        )
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add()
    spans.resource.attributes.extend(attributes({"service.name": "app"}))
    scope_spans = spans.scope_spans.add()
    scope_spans.scope.name, scope_spans.scope.version = scope, version
    scope_spans.spans.add(
        trace_id=trace_id(name),
        span_id=span_id(name),
        name="chat",
        start_time_unix_nano=at_ns(at),
        end_time_unix_nano=at_ns(at + 1),
        attributes=attributes(values | more),
    )
    return request.SerializeToString()


async def inputs(rig: MetricsRig) -> dict[str, tuple[int, bool]]:
    """Of what is forwarded now: trace id -> input, and whether what it holds is assumed."""
    await rig.settle(SETTLE_MS + 1)
    return {
        record["trace"]["trace_id"]: (record["usage"]["input_tokens"], "basis_assumed" in record["flags"])
        for record in await rig.records()
    }


def of(name: str) -> str:
    return trace_id(name).hex()


async def test_a_call_without_proof_is_read_as_a_later_and_an_earlier_call_proved(rig: MetricsRig) -> None:
    await rig.traces(call("before", OPEN), sender=A)
    await rig.traces(call("proof", EXCLUDES), sender=A)
    assert await inputs(rig) == {of("before"): (300, False), of("proof"): (5020, False)}
    await rig.traces(call("after", OPEN), sender=A)
    assert await inputs(rig) == {of("after"): (300, False)}


async def test_a_call_without_any_proof_is_taken_to_hold_the_cache(rig: MetricsRig) -> None:
    await rig.traces(call("alone", OPEN), sender=A)
    assert await inputs(rig) == {of("alone"): (200, True)}


async def test_the_learnt_reading_prices_the_call_again(rig: MetricsRig) -> None:
    await rig.traces(call("open", OPEN), sender=A)
    await rig.traces(call("stated", (300, 100), holds=True, version="9"), sender=A)
    await rig.traces(call("proof", EXCLUDES), sender=A)
    await rig.settle(SETTLE_MS + 1)
    cost = {record["trace"]["trace_id"]: record["cost"]["amount"] for record in await rig.records()}
    assert cost[of("open")] == cost[of("stated")]


async def test_a_proof_that_the_input_holds_the_cache_takes_the_flag_away(rig: MetricsRig) -> None:
    await rig.traces(call("proof", (5000, 100), holds=True), sender=A)
    await rig.traces(call("open", OPEN), sender=A)
    assert (await inputs(rig))[of("open")] == (200, False)


@pytest.mark.parametrize("others", [{"version": "2.0"}, {"gen_ai.provider.name": "aws.bedrock"}])
async def test_nothing_is_learnt_of_another_version_or_provider(rig: MetricsRig, others: dict[str, Any]) -> None:
    await rig.traces(call("proof", EXCLUDES, **others), sender=A)
    await rig.traces(call("open", OPEN), sender=A)
    assert (await inputs(rig))[of("open")] == (200, True)


@pytest.mark.parametrize("order", list(permutations(("a", "b", "open a", "open b", "open c"))))
async def test_no_key_changes_what_another_key_proved(rig: MetricsRig, order: tuple[str, ...]) -> None:
    sent = {
        "a": (call("a", EXCLUDES), A),
        "b": (call("b", (5000, 100), holds=True), B),
        "open a": (call("open a", OPEN), A),
        "open b": (call("open b", OPEN), B),
        "open c": (call("open c", OPEN), C),
    }
    for name in order:
        body, sender = sent[name]
        await rig.traces(body, sender=sender)
    found = await inputs(rig)
    assert found[of("open a")] == (300, False), "its own key proved that the input excludes the cache"
    assert found[of("open b")] == (200, False), "its own key proved that the input holds the cache"
    assert found[of("open c")] == (200, True), "the other keys contradict each other: nothing is shown"


async def test_a_key_without_proof_is_read_as_the_others_proved_until_one_contradicts(rig: MetricsRig) -> None:
    await rig.traces(call("a", EXCLUDES), sender=A)
    await rig.traces(call("first", OPEN), sender=C)
    assert (await inputs(rig))[of("first")] == (300, False)
    await rig.traces(call("b", (5000, 100), holds=True), sender=B)
    await rig.traces(call("second", OPEN), sender=C)
    assert (await inputs(rig))[of("second")] == (200, True)


@pytest.mark.parametrize("is_killed", [False, True])
async def test_the_few_proofs_of_a_key_count_among_the_many_of_another(
    rig: MetricsRig, tmp_path: Path, *, is_killed: bool
) -> None:
    for number in range(9):
        await rig.traces(call(f"a{number}", EXCLUDES), sender=A)
    await rig.traces(call("c", EXCLUDES), sender=C)
    await rig.traces(call("b", (5000, 100), holds=True), sender=B)
    await rig.traces(call("open c", OPEN), sender=C)
    survivor = await rig.killed(tmp_path / "killed") if is_killed else rig
    assert (await inputs(survivor))[of("open c")] == (300, False)
    if is_killed:
        await survivor.close()


async def test_proofs_of_one_key_that_contradict_each_other_show_nothing(rig: MetricsRig) -> None:
    await rig.traces(call("excludes", EXCLUDES), sender=A)
    await rig.traces(call("holds", (5000, 100), holds=True), sender=A)
    await rig.traces(call("open", OPEN), sender=A)
    assert (await inputs(rig))[of("open")] == (200, True)


async def test_numbers_that_contradict_each_other_prove_nothing(rig: MetricsRig) -> None:
    await rig.traces(call("impossible", EXCLUDES, **{"gen_ai.usage.total_tokens": 77}), sender=A)
    await rig.traces(call("open", OPEN), sender=A)
    assert (await inputs(rig))[of("open")] == (200, True)


@pytest.mark.parametrize("order", list(permutations(("own", "sdk", "open"))))
async def test_another_report_of_the_call_proves_it_for_the_instrumentation(
    rig: MetricsRig, order: tuple[str, ...]
) -> None:
    same = {"gen_ai.response.id": "msg_1"}
    sent = {
        "own": call("own", OPEN, **same),
        "sdk": call("sdk", (300, 100), holds=True, scope="com.example.sdk", at=1.01, **same),
        "open": call("open", (400, 50)),
    }
    for name in order:
        await rig.traces(sent[name], sender=A)
    found = await inputs(rig)
    assert found.pop(of("open")) == (450, False)
    assert list(found.values()) == [(300, False)]


async def test_proofs_that_cannot_be_read_back_are_read_again(rig: MetricsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.traces(call("proof", EXCLUDES), sender=A)
    await rig.traces(call("open", OPEN), sender=A)

    async def unreadable(*_: Any) -> list[bytes | None]:
        raise SpoolError("unreadable")

    rig.clock.now_ms += SETTLE_MS + 1
    with monkeypatch.context() as patch:
        patch.setattr(rig.spool, "read", unreadable)
        with pytest.raises(SpoolError):
            await rig.counting.settle_due(rig.spool.age_ms())
    assert (await inputs(rig))[of("open")] == (300, False)


async def test_calls_that_are_read_as_learnt_are_read_back_together(
    rig: MetricsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.traces(call("proof", EXCLUDES), sender=A)
    for number in range(50):
        await rig.traces(call(f"open{number}", OPEN), sender=A)
    reads, read = [], rig.spool.read

    async def counted(lane: Lane, positions: Sequence[Position]) -> list[bytes | None]:
        reads.append(len(positions))
        return await read(lane, positions)

    monkeypatch.setattr(rig.spool, "read", counted)
    assert {found for name, found in (await inputs(rig)).items() if name != of("proof")} == {(300, False)}
    assert reads == [1, 50]


async def test_what_has_gone_out_stays_and_a_kill_before_it_forgets_nothing(rig: MetricsRig, tmp_path: Path) -> None:
    await rig.traces(call("open", OPEN), sender=A)
    assert await inputs(rig) == {of("open"): (200, True)}
    await rig.traces(call("proof", EXCLUDES), sender=A)
    await rig.traces(call("next", OPEN), sender=A)
    survivor = await rig.killed(tmp_path / "killed")
    expected = {of("proof"): (5020, False), of("next"): (300, False)}
    assert await inputs(survivor) == expected
    await survivor.close()
    assert await inputs(rig) == expected
