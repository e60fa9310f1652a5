"""Whose call it is, stated on a span above it: in the same payload or another, in any order."""

from collections.abc import AsyncIterator, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.common.contract.intake import Sender
from gateway.counting.calls.inheritance import MAX_BEARERS, Inheritance
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.parsing.parse import ParseRules, Payload
from gateway.pipeline.parsing.parser import Parser
from gateway.rules.ancestors import MAX_DEPTH
from gateway.rules.context import Context, UserPolicy
from gateway.usage.pricing.prices import Prices
from tests.support.calls import EPOCH_MS, span_id, trace_id
from tests.support.metrics import attributes
from tests.support.spool_rig import Rig

AGENT = {"openinference.span.kind": "AGENT"}
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
}


class Span:
    """One span: its name, that of the span above it, and what it states."""

    def __init__(self, name: str, above: str = "", *, scope: str = "app", trace: str = "t", **stated: Any) -> None:
        self.name, self.above, self.scope, self.trace = name, above, scope, trace
        self.stated: Mapping[str, Any] = {key.replace("__", "."): value for key, value in stated.items()}


def call(name: str, above: str = "", **more: Any) -> Span:
    made = Span(name, above, **more)
    made.stated = {**CALL, **made.stated}
    return made


def agent(name: str, above: str = "", **more: Any) -> Span:
    made = Span(name, above, **{"scope": "openinference.instrumentation.agno", **more})
    made.stated = {**AGENT, **made.stated}
    return made


def body(*spans: Span, resource: Mapping[str, Any] | None = None) -> bytes:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.extend(attributes({"service.name": "app", **(resource or {})}))
    for span in spans:
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = span.scope
        scope_spans.spans.add(
            trace_id=trace_id(span.trace),
            span_id=span_id(span.name),
            parent_span_id=span_id(span.above) if span.above else b"",
            name=span.name,
            start_time_unix_nano=EPOCH_MS * 1_000_000,
            end_time_unix_nano=(EPOCH_MS + 500) * 1_000_000,
            attributes=attributes(span.stated),
        )
    return request.SerializeToString()


class Gateway:
    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.context = Context(0, "")

    async def send(self, *spans: Span, sender: Sender = Sender("k", "peer"), **rest: Any) -> None:  # noqa: B008 - immutable
        parser = Parser(ParseRules(Prices()))
        front = Front(
            self.rig.spool, Core(self.rig.spool, self.rig.counting), parser, now_ms=self.rig.clock, context=self.context
        )
        await front.put(Payload("traces", body(*spans, **rest), json=False), sender)

    async def attributions(self) -> list[dict[str, Any]]:
        """Of the calls that are forwarded now: what people they state."""
        await self.rig.settle()
        people = ("user", "session", "team", "project")
        return [
            {field: value for field, value in record["attribution"].items() if field in people}
            for record in await self.rig.records()
        ]

    async def attribution(self) -> dict[str, Any]:
        (found,) = await self.attributions()
        return found


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    rig = await Rig.opened(tmp_path / "data")
    yield Gateway(rig)
    await rig.close()


WHO = {"user__id": "u-1", "session__id": "s-1", "team__id": "blue"}
INHERITED = {"user": "u-1", "session": "s-1", "team": "blue"}
CHAIN = (call("c", "tool"), Span("tool", "step"), Span("step", "agent"), agent("agent", **WHO))


async def test_a_call_takes_them_from_the_agent_above_it(gateway: Gateway) -> None:
    await gateway.send(*CHAIN)
    assert await gateway.attribution() == INHERITED


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
async def test_in_requests_of_their_own_in_any_order(gateway: Gateway, order: tuple[int, ...]) -> None:
    for at in order:
        await gateway.send(CHAIN[at])
    assert await gateway.attribution() == INHERITED


async def test_spans_that_settled_still_lead_up(gateway: Gateway) -> None:
    await gateway.send(CHAIN[3], CHAIN[2])
    await gateway.send(CHAIN[1])
    for _ in range(3):
        await gateway.rig.settle()
    await gateway.send(CHAIN[0])
    assert await gateway.attribution() == INHERITED


async def test_the_nearest_wins_for_each_field(gateway: Gateway) -> None:
    spans = (
        call("c", "inner", team__id="own"),
        agent("inner", "outer", user__id="near"),
        agent("outer", user__id="far", session__id="far", team__id="far"),
    )
    expected = {"user": "near", "session": "far", "team": "own"}
    await gateway.send(*spans)
    assert await gateway.attribution() == expected
    for span in spans:
        span.trace = "other"
    for span in reversed(spans):
        await gateway.send(span)
    assert await gateway.attribution() == expected


async def test_a_span_of_the_application_states_them_too(gateway: Gateway) -> None:
    await gateway.send(call("c", "http"))
    await gateway.send(Span("http", enduser__id="u-1", project="a word that may mean anything", thread__id=7))
    assert await gateway.attribution() == {"user": "u-1"}


@pytest.mark.parametrize("together", [True, False])
async def test_the_json_text_of_an_agents_metadata_is_read(gateway: Gateway, *, together: bool) -> None:
    spans = (call("c", "a"), agent("a", metadata='{"userId": "u-1", "thread_id": "s-1", "note": "SECRET"}'))
    for part in [spans] if together else [[span] for span in spans]:
        await gateway.send(*part)
    assert await gateway.attribution() == {"user": "u-1", "session": "s-1"}


async def test_what_the_resource_states_stays(gateway: Gateway) -> None:
    for part in (CHAIN[:1], CHAIN[1:]):
        await gateway.send(*part, resource={"team.id": "red"})
    assert await gateway.attribution() == INHERITED | {"team": "red"}


async def test_a_call_of_two_instrumentations_inherits_by_either(gateway: Gateway) -> None:
    twice = call("other", scope="sdk", trace="own root")
    await gateway.send(twice)
    await gateway.send(CHAIN[0])
    await gateway.send(*CHAIN[1:])
    assert await gateway.attribution() == INHERITED
    assert gateway.rig.spool.edge()["duplicate"] == 1


@pytest.mark.parametrize("together", [True, False])
async def test_what_a_key_fixes_is_not_inherited(gateway: Gateway, *, together: bool) -> None:
    fixed = Sender("k", "peer", fixes=(("team", "green"), ("user", "unknown")))
    for part in [CHAIN] if together else [[span] for span in CHAIN]:
        await gateway.send(*part, sender=fixed)
    assert await gateway.attribution() == {"team": "green", "session": "s-1"}


@pytest.mark.parametrize("together", [True, False])
async def test_users_go_by_the_operators_policy(gateway: Gateway, *, together: bool) -> None:
    policy = UserPolicy("hash", b"secret")
    gateway.context = Context(0, "", users=policy)
    for part in [CHAIN] if together else [[span] for span in CHAIN]:
        await gateway.send(*part)
    assert await gateway.attribution() == INHERITED | {"user": policy.apply("u-1")}


async def test_a_placeholder_above_is_absent(gateway: Gateway) -> None:
    await gateway.send(call("c", "inner"), agent("inner", "outer", user__id="default_user_id"))
    await gateway.send(agent("outer", user__id="u-1"))
    assert await gateway.attribution() == {"user": "u-1"}


async def test_what_comes_after_the_settle_time_changes_nothing(gateway: Gateway) -> None:
    await gateway.send(*CHAIN[:3])
    await gateway.rig.settle()
    await gateway.send(CHAIN[3])
    assert await gateway.attributions() == [{}]


async def test_a_restart_forgets_attribution_and_no_call(gateway: Gateway) -> None:
    await gateway.send(*CHAIN[1:])
    await gateway.rig.reopen()
    await gateway.send(CHAIN[0])
    assert await gateway.attributions() == [{}]


async def test_reading_the_ledger_again_forgets_nothing(gateway: Gateway) -> None:
    await gateway.send(*CHAIN[1:])
    await gateway.rig.counting.rebuild()
    await gateway.send(CHAIN[0])
    assert await gateway.attribution() == INHERITED


@pytest.mark.parametrize("together", [True, False])
async def test_the_way_up_is_bounded(gateway: Gateway, *, together: bool) -> None:
    def chain(n: int, trace: str) -> list[Span]:
        steps = [Span(f"{trace}{i}", f"{trace}{i + 1}", trace=trace) for i in range(n)]
        top = agent(f"{trace}{n}", trace=trace, user__id="u-1")
        return [call(f"{trace}c", f"{trace}0", trace=trace), *steps, top]

    for n, trace in ((MAX_DEPTH - 1, "near"), (MAX_DEPTH, "far")):
        spans = chain(n, trace)
        for part in [spans] if together else [spans[:1], spans[1:]]:
            await gateway.send(*part)
    assert await gateway.attributions() == [{"user": "u-1"}, {}]


async def test_spans_that_are_above_each_other_in_a_ring_end(gateway: Gateway) -> None:
    await gateway.send(call("c", "a"), Span("a", "b"), Span("b", "a"), agent("x", user__id="u-1"))
    await gateway.send(call("c2", "a2", trace="2"))
    await gateway.send(Span("a2", "b2", trace="2"), Span("b2", "a2", trace="2"))
    assert await gateway.attributions() == [{}, {}]


def test_of_spans_that_state_something_the_latest_are_remembered() -> None:
    inheritance = Inheritance(1000)
    inheritance.bear((key, {"user": str(key)}) for key in range(1, MAX_BEARERS + 2))
    assert MAX_BEARERS * 0.85 < len(inheritance) <= MAX_BEARERS
    assert inheritance.stated_above(MAX_BEARERS + 1, lambda _: 0) == {"user": str(MAX_BEARERS + 1)}
    assert inheritance.stated_above(1, lambda _: 0) == {}
