"""What is remembered of resources and of sets of names never changes what a span
becomes, and stays bounded.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.read.otlp_protobuf import decode_traces
from gateway.rules import attribution
from gateway.rules.attribution import origin, resource_origin
from gateway.rules.context import Context, UserPolicy
from gateway.rules.traces import normalise_traces
from tests.unit.rules.spans import CONTEXT, END_NS, START_NS, TRACE_ID, key_values, record_of, request

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 100}
RESOURCE = {"service.name": "checkout-bot", "user.id": "u-1", "team": "from-resource"}
CONTEXTS = {
    "plain": CONTEXT,
    "another key": CONTEXT._replace(key="other-key"),
    "no key": CONTEXT._replace(key=None),
    "device": CONTEXT._replace(device_id="device-1"),
    "hashed users": CONTEXT._replace(users=UserPolicy("hash", b"secret")),
    "users hashed otherwise": CONTEXT._replace(users=UserPolicy("hash", b"another secret")),
    "dropped users": CONTEXT._replace(users=UserPolicy("drop")),
    "fixed team": CONTEXT._replace(key_fixes={"team": "fixed"}),
    "another fixed team": CONTEXT._replace(key_fixes={"team": "fixed too"}),
    "another peer": CONTEXT._replace(peer="192.0.2.7"),
}


def resource_of(attributes: Mapping[str, Any]) -> Any:
    return decode_traces(request(CHAT, resource=attributes).SerializeToString()).request.resource_spans[0].resource


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS.keys())
def test_a_resource_seen_under_every_other_context_is_read_under_this_one(context: Context) -> None:
    for other in CONTEXTS.values():
        resource_origin(resource_of(RESOURCE), other)
    resource = resource_of(RESOURCE)
    assert resource_origin(resource, context) == origin(resource.attributes, context)


def test_a_resource_that_comes_again_is_not_read_again() -> None:
    first = resource_origin(resource_of(RESOURCE), CONTEXT)
    assert resource_origin(resource_of(RESOURCE), CONTEXT) is first


def test_one_changed_value_makes_another_resource() -> None:
    first = resource_origin(resource_of(RESOURCE), CONTEXT)
    second = resource_origin(resource_of(RESOURCE | {"team": "another"}), CONTEXT)
    assert (first.attribution["team"], second.attribution["team"]) == ("from-resource", "another")


def test_more_resources_than_are_remembered_are_all_read_right() -> None:
    names = [f"service-{number}" for number in range(attribution.MAX_ORIGINS + 10)]
    made = [resource_origin(resource_of({"service.name": name}), CONTEXT).attribution["service_name"] for name in names]
    assert made == names
    assert len(attribution._origins) <= attribution.MAX_ORIGINS


def test_a_huge_resource_is_read_but_not_remembered() -> None:
    huge = RESOURCE | {"process.command_line": "x" * attribution.MAX_RESOURCE_BYTES}
    first, second = (resource_origin(resource_of(huge), CONTEXT) for _ in range(2))
    assert first == second
    assert first is not second


def test_what_one_record_says_of_its_user_stays_its_own() -> None:
    one = record_of(CHAT | {"user.id": "u-2", "gen_ai.agent.name": "a"}, resource=RESOURCE)
    two = record_of(CHAT, resource=RESOURCE)
    assert (one["attribution"]["user"], two["attribution"]["user"]) == ("u-2", "u-1")
    assert one["attribution"]["labels"] == {"agent": "a"}
    assert "labels" not in two["attribution"]


@pytest.mark.parametrize("scope", ["some.scope", "opentelemetry.instrumentation.openai_v2"])
def test_spans_of_one_scope_are_each_read_by_their_own_names(scope: str) -> None:
    """A span's names choose its reader and its plan, whatever span stands before it."""
    kinds: list[dict[str, Any]] = [
        {"http.request.method": "POST"},
        CHAT,
        {},
        CHAT | {"gen_ai.usage.output_tokens": 7},
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 9},
    ]
    order = [0, 1, 1, 3, 1, 0, 2, 3, 4, 1, 4, 2, 2, 3]
    message = request({}, scope=scope)
    spans = message.resource_spans[0].scope_spans[0].spans
    del spans[:]
    for number, kind in enumerate(order):
        spans.add(
            trace_id=TRACE_ID,
            span_id=(number + 1).to_bytes(8, "big"),
            name="chat",
            start_time_unix_nano=START_NS,
            end_time_unix_nano=END_NS,
            attributes=key_values(kinds[kind]),
        )
    out = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT)
    assert out.items == len(order)
    assert out.ignored == order.count(0) + order.count(2)
    assert out.suppressed == {"not_a_call": order.count(4)}
    told = [(call.span_id[-1] - 1, call.record["usage"].get("output_tokens")) for call in out.calls]
    assert told == [(number, 7 if kind == 3 else None) for number, kind in enumerate(order) if kind in {1, 3}]
