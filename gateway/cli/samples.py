"""The demo's traffic: an agent that calls models, sent by the real OpenTelemetry SDK, and
what other doors would send.

`SAMPLE_CALLS` is the truth that the demo compares what arrives with. Prompts are in the spans on
purpose: they must not arrive.
"""

import json
import time
import urllib.request
from dataclasses import dataclass

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Tracer

PROMPT = "What does our cloud cost? (a prompt, which must stay behind)"
TEAMS = ("checkout", "support", "research")


@dataclass(frozen=True, slots=True)
class SampleCall:
    """One call, with the usage that its provider bills."""

    provider: str
    request_model: str
    response_model: str
    input_tokens: int
    output_tokens: int
    cache_read: int = 0
    reasoning: int = 0
    cost: str | None = None


SAMPLE_CALLS = (
    SampleCall("openai", "gpt-4o-mini", "gpt-4o-mini-2024-07-18", 1200, 120, cache_read=300),
    SampleCall("openai", "gpt-4o-mini", "gpt-4o-mini-2024-07-18", 800, 64),
    SampleCall("openai", "o4-mini", "o4-mini-2025-04-16", 2100, 900, reasoning=640),
    SampleCall("anthropic", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929", 6201, 231, cache_read=4096),
    SampleCall("anthropic", "claude-haiku-4-5", "claude-haiku-4-5-20251001", 410, 88),
    SampleCall("gcp.gemini", "gemini-2.5-flash", "gemini-2.5-flash", 1800, 240, cache_read=640, reasoning=90),
)
GATEWAY_CALL = SampleCall("openai", "gpt-4o", "gpt-4o-2024-08-06", 640, 210, cost="0.0037")
"""Stated by an AI gateway's callback, with the cost that it charged."""


def send_with_sdk(intake_url: str, number: int = 0, *, metrics: bool = False) -> None:
    """Each team's agent makes every sample call; agent spans repeat the sums, as many frameworks
    do, and *metrics* repeat each call. Rounds of another *number* are other calls.
    """
    for team in TEAMS:
        resource = Resource.create({
            "service.name": f"{team}-assistant",
            "deployment.environment.name": "demo",
            "team.id": team,
        })  # fmt: skip
        provider = TracerProvider(resource=resource)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{intake_url}/v1/traces")))
        _agent_turn(provider.get_tracer("demo.assistant", "1.0"), f"{team}-{number}")
        provider.shutdown()
        if metrics:
            _measure(resource, intake_url)


def _measure(resource: Resource, intake_url: str) -> None:
    """The histogram of the conventions, which repeats the tokens of the calls."""
    exporter = OTLPMetricExporter(endpoint=f"{intake_url}/v1/metrics")
    provider = MeterProvider([PeriodicExportingMetricReader(exporter)], resource=resource)
    tokens = provider.get_meter("demo.assistant").create_histogram("gen_ai.client.token.usage", unit="{token}")
    for call in SAMPLE_CALLS:
        called = {"gen_ai.provider.name": call.provider, "gen_ai.request.model": call.request_model}
        tokens.record(call.input_tokens, {**called, "gen_ai.token.type": "input"})
        tokens.record(call.output_tokens, {**called, "gen_ai.token.type": "output"})
    provider.force_flush()
    provider.shutdown()


def _agent_turn(tracer: Tracer, turn: str) -> None:
    with tracer.start_as_current_span("invoke_agent assistant", kind=SpanKind.INTERNAL) as agent:
        agent.set_attributes({
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "assistant",
            "gen_ai.usage.input_tokens": sum(call.input_tokens for call in SAMPLE_CALLS),
            "gen_ai.usage.output_tokens": sum(call.output_tokens for call in SAMPLE_CALLS),
        })  # fmt: skip
        for i, call in enumerate(SAMPLE_CALLS):
            with tracer.start_as_current_span(f"chat {call.request_model}", kind=SpanKind.CLIENT) as span:
                span.set_attributes({
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": call.provider,
                    "gen_ai.request.model": call.request_model,
                    "gen_ai.response.model": call.response_model,
                    "gen_ai.response.id": f"demo-{turn}-{i}",
                    "gen_ai.response.finish_reasons": ["stop"],
                    "gen_ai.usage.input_tokens": call.input_tokens,
                    "gen_ai.usage.output_tokens": call.output_tokens,
                    "gen_ai.usage.cache_read.input_tokens": call.cache_read,
                    "gen_ai.usage.reasoning.output_tokens": call.reasoning,
                    "gen_ai.input.messages": json.dumps([{"role": "user", "content": PROMPT}]),
                })  # fmt: skip


def send_gateway_callback(intake_url: str) -> None:
    """What LiteLLM's `generic_api` callback posts: one object a call; and the same once
    more, as after a lost answer.
    """
    now_s = time.time()
    call = {
        "id": "demo-gateway-0",
        "litellm_call_id": f"demo-gateway-call-{now_s}",
        "call_type": "acompletion",
        "status": "success",
        "custom_llm_provider": GATEWAY_CALL.provider,
        "model": GATEWAY_CALL.request_model,
        "startTime": now_s - 0.9,
        "endTime": now_s,
        "prompt_tokens": GATEWAY_CALL.input_tokens,
        "completion_tokens": GATEWAY_CALL.output_tokens,
        "response_cost": float(GATEWAY_CALL.cost or 0),
        "metadata": {"user_api_key_team_id": "platform"},
        "messages": [{"role": "user", "content": PROMPT}],
        "response": {"model": GATEWAY_CALL.response_model},
    }
    for _ in range(2):
        post_json(f"{intake_url}/v1/sources/litellm", call)


def send_event(intake_url: str) -> None:
    event = {
        "title": "report.generated",
        "source": "billing-app",
        "filters": {"custom:Customer": ["acme"]},
        "metadata": {"event_id": "demo-event-1", "quantity": "1", "unit": "reports"},
    }
    post_json(f"{intake_url}/v1/events", event)


def send_heartbeat(intake_url: str) -> None:
    """Post one heartbeat of the demo's device."""
    beat = {
        "instance_id": "demo-instance",
        "sequence": 1,
        "status": "healthy",
        "kind": "workstation",
        "host": {"os": "linux", "arch": "x86_64"},
        "client": {"name": "claude_code", "version": "2.1.0"},
    }
    post_json(f"{intake_url}/v1/devices/demo-laptop/heartbeat", beat)


def post_json(url: str, body: object) -> None:
    """Raises URLError when the gateway does not take it."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310 the demo's own loopback address
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 as above
        response.read()
