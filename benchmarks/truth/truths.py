"""What was served in each scenario of the corpus, and how right the totals are that a product shows
of it. Pure, but for the reading of the corpus.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from statistics import median
from typing import Any, Final, Literal, NamedTuple

from genai_prices import Usage, calc_price
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.corpus import Payload, Scenario

Requests = Mapping[str, tuple[ExportTraceServiceRequest, ...]]
"""Scenario -> its requests, in the order in which they were sent."""
Verdict = Literal["exact", "too high", "too low", "nothing"]
COST_TOLERANCE: Final = 0.02
INPUT_NAMES: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "ai.usage.tokens",
)
OUTPUT_NAMES: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)
_RESPONSE_ID: Final = ("response.id", "response_id")
_EXCLUSIVE: Final = ("anthropic", "aws.bedrock")
"""Providers whose own input leaves out the cache."""
_PRICED_AS: Final = {"aws.bedrock": "aws", "azure.ai.openai": "azure", "gcp.gemini": "google"}
"""Provider -> its id in genai-prices, where that is another one."""


class Totals(NamedTuple):
    """Sums over all calls of one scenario."""

    input_tokens: int
    output_tokens: int
    cost: float | None = None
    """USD; None where no cost is known or shown."""

    @property
    def tokens(self) -> tuple[int, int]:
        return self.input_tokens, self.output_tokens


class Truth(NamedTuple):
    """What was served in one scenario."""

    canonical: Totals
    """The input with the cache, the output with the reasoning; the list price of that."""
    native: Totals
    """As the provider itself counts: Anthropic's input without the cache. No cost."""


class LeftOut(NamedTuple):
    """A scenario that says nothing about totals."""

    reason: str


class Summary(NamedTuple):
    """A product over all scenarios that it was given."""

    scenarios: int
    verdicts: Mapping[Verdict, int]
    native: int
    """Of the exact ones, those that are the provider's native numbers and not the canonical."""
    overcount: float | None
    """Median of shown over served tokens where they are too high; None where they never are."""
    costs: int
    """Scenarios whose cost is shown within `COST_TOLERANCE`."""
    known_costs: int


def truth_of(meta: Mapping[str, Any]) -> Truth | LeftOut:
    """Of a scenario's meta file; the rules are those of the corpus READMEs."""
    calls = [call for call in meta["expected"] if call.get("input_tokens") or call.get("output_tokens")]
    upstream = meta.get("upstream_truth") or {}
    if not calls or upstream.get("calls") == 0:
        return LeftOut("the provider served no usage")
    is_partial = not meta.get("sum_only") and any(_is_missing(call, meta) for call in calls)
    if meta.get("deviations") or upstream or is_partial:
        return LeftOut("its traces do not hold what was served")
    canonical = [Totals(call["input_tokens"] or 0, call["output_tokens"] or 0, _cost(call)) for call in calls]
    costs = [each.cost for each in canonical if each.cost is not None]
    cost = sum(costs) if len(costs) == len(calls) else None
    return Truth(_sum(canonical)._replace(cost=cost), _sum(_native(call) for call in calls))


def _is_missing(call: Mapping[str, Any], meta: Mapping[str, Any]) -> bool:
    marks = [*(call.get("not_in_payload") or ()), *(meta.get("not_in_payload") or ())]
    return call.get("n_records") == 0 or any(mark in {"input_tokens", "output_tokens"} for mark in marks)


def _native(call: Mapping[str, Any]) -> Totals:
    cached = (call.get("cache_read_input_tokens") or 0) + (call.get("cache_creation_input_tokens") or 0)
    excluded = cached if call["provider"] in _EXCLUSIVE else 0
    inputs = call.get("input_tokens_native") or (call["input_tokens"] or 0) - excluded
    return Totals(inputs, call.get("output_tokens_native") or call["output_tokens"] or 0)


def _cost(call: Mapping[str, Any]) -> float | None:
    """As the sender's meta file has it, else the list price of what was served."""
    if call.get("cost_usd"):
        return float(call["cost_usd"])
    kept_1h = ((call.get("served_usage") or {}).get("cache_creation") or {}).get("ephemeral_1h_input_tokens")
    usage = Usage(
        input_tokens=call["input_tokens"] or 0,
        output_tokens=call["output_tokens"] or 0,
        cache_read_tokens=call.get("cache_read_input_tokens") or 0,
        cache_write_tokens=call.get("cache_creation_input_tokens") or 0,
        cache_write_1h_tokens=kept_1h or 0,
    )
    provider, model = call["provider"], call["response_model"] or call["request_model"]
    try:
        price: Decimal = calc_price(usage, model, provider_id=_PRICED_AS.get(provider, provider)).total_price
    except LookupError:
        return None
    return float(price)


def _sum(each: Iterable[Totals]) -> Totals:
    summed = tuple(each)
    return Totals(sum(one.input_tokens for one in summed), sum(one.output_tokens for one in summed))


def verdict(truth: Truth, shown: Totals) -> Verdict:
    """Exact: both sums are those served, or both are the provider's native ones."""
    if shown.tokens in {truth.canonical.tokens, truth.native.tokens}:
        return "exact"
    if not any(shown.tokens):
        return "nothing"
    is_higher = any(a > b for a, b in zip(shown.tokens, truth.canonical.tokens, strict=True))
    return "too high" if is_higher else "too low"


def is_cost_right(truth: Truth, shown: Totals) -> bool:
    """False also where the truth is not known."""
    cost = truth.canonical.cost
    return cost is not None and shown.cost is not None and abs(shown.cost - cost) <= cost * COST_TOLERANCE


def summary(pairs: Iterable[tuple[Truth, Totals]]) -> Summary:
    """Over the scenarios of one product, each with what was served and what is shown."""
    judged = [(truth, shown, verdict(truth, shown)) for truth, shown in pairs]
    over = [sum(shown.tokens) / sum(truth.canonical.tokens) for truth, shown, how in judged if how == "too high"]
    return Summary(
        scenarios=len(judged),
        verdicts={
            each: sum(how == each for _, _, how in judged) for each in ("exact", "too high", "too low", "nothing")
        },
        native=sum(how == "exact" and shown.tokens != truth.canonical.tokens for truth, shown, how in judged),
        overcount=median(over) if over else None,
        costs=sum(is_cost_right(truth, shown) for truth, shown, _ in judged),
        known_costs=sum(truth.canonical.cost is not None for truth, _, _ in judged),
    )


def requests_of(scenario: Scenario) -> tuple[ExportTraceServiceRequest, ...]:
    """Its trace payloads in order; JSON as the same protobuf message."""
    return tuple(_request(payload) for payload in scenario.payloads)


def rounds(requests: Requests) -> list[Requests]:
    """The same scenarios so that no two of a round share a trace id or a response id: composed
    payloads have the example ids of OTLP, and one call of LiteLLM was captured by two callbacks.
    """
    made: list[tuple[dict[str, tuple[ExportTraceServiceRequest, ...]], set[bytes | str]]] = []
    for name, bodies in requests.items():
        ids = {each for span in _spans(bodies) for each in _ids(span)}
        fitting = next((each for each in made if each[1].isdisjoint(ids)), None)
        if fitting is None:
            made.append(fitting := ({}, set()))
        fitting[0][name] = bodies
        fitting[1].update(ids)
    return [scenarios for scenarios, _ in made]


def _ids(span: Span) -> list[bytes | str]:
    responses = [each.value.string_value for each in span.attributes if each.key.endswith(_RESPONSE_ID)]
    return [span.trace_id, *responses]


def _request(payload: Payload) -> ExportTraceServiceRequest:
    if not payload.is_json:
        return ExportTraceServiceRequest.FromString(payload.body)
    document = json.loads(payload.body, object_hook=_with_base64_ids)
    return ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=True)


def _with_base64_ids(parsed: dict[str, Any]) -> dict[str, Any]:
    """OTLP/JSON has ids in hex, the JSON form of protobuf has bytes in base64."""
    for name in ("traceId", "spanId", "parentSpanId"):
        if isinstance(parsed.get(name), str):
            parsed[name] = base64.b64encode(bytes.fromhex(parsed[name])).decode()
    return parsed


def plain_sum(requests: Iterable[ExportTraceServiceRequest]) -> Totals:
    """What a query over a span store gives: of each span the first common name that it has, of all
    spans the sum.
    """
    spans = _spans(requests)
    return Totals(sum(_first(span, INPUT_NAMES) for span in spans), sum(_first(span, OUTPUT_NAMES) for span in spans))


def _spans(requests: Iterable[ExportTraceServiceRequest]) -> list[Span]:
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _first(span: Span, names: Iterable[str]) -> int:
    found = {each.key: each.value.int_value or int(each.value.double_value) for each in span.attributes}
    return next((found[name] for name in names if name in found), 0)
