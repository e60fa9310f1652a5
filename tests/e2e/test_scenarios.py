"""What happens in real life, sent to the running gateway over its socket: the service's
totals must be the truth, once.

Spans, metrics and logs are made and sent by the real OpenTelemetry SDK; those of coding
assistants are captured ones. Most tests share a gateway, in which each has services of its own,
so `Telling` compares outcomes before and after.

Scenarios of the callbacks that gateways post themselves (such as LiteLLM's `generic_api` and `otel`
at once) stand under `THROUGH A GATEWAY`.
"""

import json
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from tests.support.answer_loss import AnswerLoss
from tests.support.corpus import Payload, scenarios
from tests.support.gateway_process import EDGE_OUTCOMES, GatewayProcess, Status, broken_identities
from tests.support.sdk_application import Application, send_logs, send_metrics, send_spans

pytestmark = pytest.mark.slow

TOGETHER = {"settle": "3s", "metrics_settle": "3s"}
"""Time enough to report one thing in several requests, on a busy machine too."""
ALL_TOGETHER = {"settle": "12s", "metrics_settle": "12s"}
"""Time enough for the reports of all assistants."""
AT_ONCE = {"settle": "100ms", "metrics_settle": "100ms"}
"""For what comes late."""

MODEL = "gpt-4o-mini"
ANSWERED_BY = "gpt-4o-mini-2024-07-18"

Edge = dict[str, int]
"""Items by outcome, those of no item left out."""


class Usage(NamedTuple):
    """What the service bills, by its own names."""

    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    reasoning_output_tokens: int = 0


def billed(
    gateway: GatewayProcess, services: Sequence[str], group_by: str = "provider,model"
) -> dict[tuple[str, ...], Usage]:
    """What the service bills *services* together, by *group_by*."""
    found: dict[tuple[str, ...], Usage] = {}
    for row in gateway.summary(f"service_name,{group_by}")["summary"]:
        if row["service_name"] in services:
            group = tuple(row[name] for name in group_by.split(","))
            usage = Usage(*(row[name] for name in Usage._fields))
            found[group] = Usage(*map(sum, zip(found.get(group, Usage(0, 0, 0)), usage, strict=True)))
    return found


class Telling:
    """What one test reports to a gateway, and its outcomes."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self.gateway = gateway
        self._before = self.settled()

    @property
    def url(self) -> str:
        """Where to send."""
        return self.gateway.intake_url

    def settled(self) -> Status:
        """Wait until all that was sent is delivered; both identities hold then."""
        status = self.gateway.wait_until_delivered(at_least=0)
        assert broken_identities(status) == []
        return status

    def outcomes(self) -> Edge:
        """What became of the items sent since this began, when all is delivered."""
        return self._grown("edge", ("received", *EDGE_OUTCOMES))

    def reasons(self) -> Edge:
        """The same, by reason."""
        return self._grown("reasons", self.settled()["reasons"])

    def _grown(self, part: str, names: Sequence[str] | Mapping[str, int]) -> Edge:
        before, after = self._before[part], self.settled()[part]
        return {name: n for name in names if (n := after.get(name, 0) - before.get(name, 0))}


def running(folder: Path, counting: Mapping[str, object], **more: object) -> GatewayProcess:
    return GatewayProcess(folder, config={"counting": counting, **more})


END_OF_PROCESS: dict[str, Callable[[GatewayProcess], object]] = {
    "kill -9": GatewayProcess.kill,
    "SIGTERM": GatewayProcess.stop,
}


def ended_and_started(gateway: GatewayProcess, how: str) -> None:
    END_OF_PROCESS[how](gateway)
    gateway.restart()


@pytest.fixture(scope="module")
def shared_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shared gateway writes what it forwards."""
    return tmp_path_factory.mktemp("together") / "records.ndjson"


@pytest.fixture(scope="module")
def shared(shared_records: Path) -> Iterator[GatewayProcess]:
    archive = {"type": "file", "path": str(shared_records)}
    with running(shared_records.parent, TOGETHER, exporters={"archive": archive}) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with running(tmp_path_factory.mktemp("hasty"), AT_ONCE) as gateway:
        yield gateway


@pytest.fixture
def together(shared: GatewayProcess) -> Telling:
    """A gateway in which all that one test sends settles together."""
    return Telling(shared)


@pytest.fixture
def late(hasty: GatewayProcess) -> Telling:
    """A gateway that has forwarded a call a moment after it came."""
    return Telling(hasty)


def chat(input_tokens: int, output_tokens: int, response_id: str = "") -> dict[str, str | int | float]:
    """The attributes of a call's span or log, as the conventions of OpenTelemetry have them."""
    return ({"gen_ai.response.id": response_id} if response_id else {}) | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": ANSWERED_BY,
        "gen_ai.usage.input_tokens": input_tokens,
        "gen_ai.usage.output_tokens": output_tokens,
    }


def one_chat(service: str, tokens: tuple[int, int], response_id: str) -> list[ReadableSpan]:
    """An application that made one call."""
    application = Application(service)
    application.span("chat", chat(*tokens, response_id=response_id))
    return application.spans()


OPENAI = ("openai", ANSWERED_BY)
"""The group of the summary in which they are billed."""


# ---- AGENTS

CALLS_BELOW = ((100, 20), (210, 31), (320, 42))


def agent_run(service: str, *, in_steps: bool = True) -> list[ReadableSpan]:
    """An agent above a framework's chain above three calls, each above an HTTP request: the
    first two repeat the calls' sums.

    Each call may be in a step of its own. Children come first, as they end first.
    """
    application = Application(service)
    sums = chat(*map(sum, zip(*CALLS_BELOW, strict=True)))
    agent = application.span(
        "invoke_agent", sums | {"gen_ai.operation.name": "invoke_agent"}, at=(0, 5000), scope="agents"
    )
    chain = application.span("chain", sums, at=(10, 4990), parent=agent, scope="agents")
    for n, tokens in enumerate(CALLS_BELOW):
        start = 100 + 1500 * n
        above = chain
        if in_steps:
            above = application.span("step", {}, at=(start - 5, start + 1005), parent=chain, scope="agents")
        call = application.span("chat", chat(*tokens), at=(start, start + 1000), parent=above)
        application.span(
            "POST", {"http.request.method": "POST"}, at=(start + 1, start + 999), parent=call, scope="http"
        )
    return application.spans()[::-1]


def in_one_request(spans: list[ReadableSpan]) -> list[list[ReadableSpan]]:
    return [spans]


def one_by_one(spans: list[ReadableSpan]) -> list[list[ReadableSpan]]:
    return [[span] for span in spans]


def each_twice(spans: list[ReadableSpan]) -> list[list[ReadableSpan]]:
    """Each span is sent again after the next one."""
    return [[spans[0]], *([later, earlier] for earlier, later in pairwise(spans)), [spans[-1]]]


SPLITS = (in_one_request, one_by_one, each_twice)


@pytest.mark.parametrize("order", ["children first", "parents first"])
def test_calls_below_an_agent_and_a_chain_that_repeat_their_sums_are_billed_alone(
    together: Telling, order: str
) -> None:
    for split in SPLITS:
        spans = agent_run(f"{order}, {split.__name__}")
        for request in split(spans if order == "children first" else spans[::-1]):
            send_spans(together.url, request)

    assert together.outcomes() == {"received": 44, "kept": 9, "duplicate": 4, "suppressed": 7, "ignored": 24}
    assert together.reasons() == {"duplicate.same_span": 4, "suppressed.ancestor": 3, "suppressed.not_a_call": 4}
    for split in SPLITS:
        assert billed(together.gateway, [f"{order}, {split.__name__}"]) == {OPENAI: Usage(3, 630, 93)}, split


# ---- CODING ASSISTANTS

ASSISTANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "claude-code": {"logs": ("api_request_logs",), "metrics": ("token_metrics_delta",)},
    "codex": {"logs": ("chat_logs",), "traces": ("chat_traces",), "metrics": ("chat_metrics",)},
    "copilot-cli": {"traces": ("chat_traces",), "metrics": ("chat_metrics",)},
    "gemini-cli": {"logs": ("chat_logs",), "traces": ("chat_traces",), "metrics": ("chat_metrics",)},
    "qwen-code": {"logs": ("chat_logs_1", "chat_logs_2"), "traces": ("chat_traces",), "metrics": ("chat_metrics",)},
}
"""Product -> signal -> files of the corpus; all files of a product report one run."""

SERVICES = {name: name for name in ASSISTANTS} | {"codex": "codex_exec", "copilot-cli": "github-copilot"}
"""Product -> its `service.name`."""

Served = dict[tuple[str | None, ...], Usage]
"""Provider and model -> usage."""

SERVED: dict[str, Served] = {
    "claude-code": {("anthropic", "claude-sonnet-4-5-20250929"): Usage(1, 6201, 231, 4096, 2048)},
    "codex": {("openai", "gpt-5-codex"): Usage(1, 2100, 410, 1536, 0, 192)},
    "copilot-cli": {("openai", "gpt-5-mini"): Usage(1, 1200, 340, 1024, 0, 256)},
    "gemini-cli": {("gcp.gemini", "gemini-2.5-flash-001"): Usage(1, 1800, 240, 640, 0, 90)},
    "qwen-code": {("openai", "qwen3-coder-plus-2026-08-01"): Usage(2, 2400, 680, 2048, 0, 512)},
}
"""What each run used."""

TOLD_BY_ONE_SIGNAL: dict[tuple[str, str], Served] = {
    ("codex", "traces"): {("openai", None): Usage(1, 2100, 410, 1536, 0, 192)},
    ("gemini-cli", "traces"): {("gcp.gemini", "gemini-2.5-flash"): Usage(1, 1800, 150)},
    ("qwen-code", "metrics"): {(None, "qwen3-coder-plus-2026-08-01"): Usage(2, 2400, 680, 2048, 0, 512)},
}
"""Where that signal by itself does not state all."""


def captured(assistant: str, signal: str) -> Iterator[Payload]:
    """The payloads of a run, as they were captured."""
    by_name = {scenario.name: scenario for scenario in scenarios(signal)}
    for file in ASSISTANTS[assistant].get(signal, ()):
        yield from by_name[f"assistants/{assistant}/{file}"].payloads


def post(url: str, payload: Payload) -> None:
    """One request, acknowledged with nothing rejected."""
    media = "application/json" if payload.is_json else "application/x-protobuf"
    request = urllib.request.Request(f"{url}/v1/{payload.signal}", payload.body, {"Content-Type": media})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.read() in {b"", b"{}"}


ORDERS = [
    ("logs", "traces", "metrics"),
    ("metrics", "traces", "logs"),
    ("traces", "metrics", "logs"),
]


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Telling]:
    """A gateway of its own, which is sent all runs: first all reports of one
    signal, then those of the next.
    """
    with running(tmp_path_factory.mktemp("assistants"), ALL_TOGETHER) as gateway:
        telling = Telling(gateway)
        tell_of_assistants(gateway.intake_url, request.param)
        telling.settled()
        yield telling


def tell_of_assistants(url: str, order: Sequence[str], assistants: Collection[str] = ASSISTANTS) -> None:
    for signal in order:
        for assistant in assistants:
            for payload in captured(assistant, signal):
                post(url, payload)


def of_kind(kind: str, served: Served) -> Served:
    """As the summary by kind, provider and model has it; metrics do not
    state the number of calls.
    """
    return {
        (kind, *group): usage._replace(calls=0) if kind == "aggregate" else usage for group, usage in served.items()
    }


@pytest.mark.parametrize("assistant", ASSISTANTS)
@pytest.mark.parametrize("told", ORDERS, indirect=True, ids=" ".join)
def test_a_coding_assistant_is_billed_once_whichever_of_its_reports_comes_first(told: Telling, assistant: str) -> None:
    found = billed(told.gateway, [SERVICES[assistant]], "kind,provider,model")
    assert found == of_kind("call", SERVED[assistant])


@pytest.mark.parametrize("told", ORDERS, indirect=True, ids=" ".join)
def test_each_report_of_a_coding_assistant_has_its_outcome_in_every_order(told: Telling) -> None:
    assert told.outcomes() == {"received": 685, "kept": 6, "duplicate": 24, "suppressed": 24, "ignored": 631}
    assert told.reasons() == {
        "duplicate.folded": 19,  # points of one aggregate
        "duplicate.response_id": 2,
        "duplicate.twin": 3,  # two of them leave the reasoning out of the output
        "suppressed.calls_reported": 5,  # the aggregate of each product
        "suppressed.content_only": 1,
        "suppressed.not_a_call": 13,
        "suppressed.overlapping_type": 1,
        "suppressed.repeated_metric": 4,
    }


@pytest.mark.parametrize("first", ["logs", "traces"])
def test_reports_of_a_call_that_was_forwarded_before_a_restart_are_not_billed(tmp_path: Path, first: str) -> None:
    assistants = [name for name, files in ASSISTANTS.items() if first in files]
    later = [signal for signal in ("logs", "traces", "metrics") if signal != first]
    expected = {name: of_kind("call", TOLD_BY_ONE_SIGNAL.get((name, first), SERVED[name])) for name in assistants}
    with running(tmp_path, AT_ONCE) as gateway:
        tell_of_assistants(gateway.intake_url, [first], assistants)
        Telling(gateway).settled()
        ended_and_started(gateway, "kill -9")
        tell_of_assistants(gateway.intake_url, later, assistants)
        status = Telling(gateway).settled()
        assert {name: billed(gateway, [SERVICES[name]], "kind,provider,model") for name in expected} == expected
    assert status["edge"]["kept"] == 5
    assert status["reasons"]["suppressed.calls_reported"] == len(assistants)


@pytest.mark.parametrize("signal", ["logs", "traces", "metrics"])
def test_each_signal_of_a_coding_assistant_counts_where_it_comes_alone(tmp_path: Path, signal: str) -> None:
    kind = "aggregate" if signal == "metrics" else "call"
    expected = {
        name: of_kind(kind, TOLD_BY_ONE_SIGNAL.get((name, signal), SERVED[name]))
        for name in ASSISTANTS
        if signal in ASSISTANTS[name]
    }
    with running(tmp_path, {"settle": "500ms", "metrics_settle": "500ms"}) as gateway:
        tell_of_assistants(gateway.intake_url, [signal])
        Telling(gateway).settled()
        assert {name: billed(gateway, [SERVICES[name]], "kind,provider,model") for name in expected} == expected


@pytest.mark.parametrize("order", [("logs", "metrics"), ("metrics", "logs")], ids=" ".join)
def test_a_service_that_is_billed_by_its_metrics_is_so_whatever_comes_first(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    preferred = TOGETHER | {"prefer": [{"service": "claude-code", "prefer": "metrics"}]}
    with running(tmp_path, preferred) as gateway:
        telling = Telling(gateway)
        tell_of_assistants(gateway.intake_url, order, ["claude-code", "gemini-cli"])
        reasons = telling.reasons()
        assert billed(gateway, ["claude-code"], "kind,provider,model") == of_kind("aggregate", SERVED["claude-code"])
        assert billed(gateway, ["gemini-cli"], "kind,provider,model") == of_kind("call", SERVED["gemini-cli"])
        costs = {group["provider"]: group["cost"] for group in gateway.summary("provider")["summary"]}
        assert costs["anthropic"] == "0.0125448", "as the metric said"
    assert reasons["suppressed.metrics_preferred"] == 1
    assert reasons["suppressed.calls_reported"] == 1


# ---- THROUGH A GATEWAY


def of_litellm(
    tokens: tuple[int, int], response_id: str, cost: float, **more: str | float
) -> dict[str, str | int | float]:
    """The attributes of LiteLLM's `otel` callback, for a key of team-alpha."""
    return {
        "gen_ai.operation.name": "acompletion",
        "gen_ai.system": "openai",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": "fast-chat",
        "gen_ai.response.id": response_id,
        "gen_ai.usage.input_tokens": tokens[0],
        "gen_ai.usage.output_tokens": tokens[1],
        "gen_ai.cost.total_cost": cost,
        "litellm.model_group": "fast-chat",
        "litellm.provider.model": MODEL,
        "litellm.call_id": f"call-of-{response_id}",
        "metadata.user_api_key_team_id": "team-alpha",
        "metadata.usage_object": "{'prompt_tokens_details': {'cached_tokens': 64}}",
        **more,
    }


def through_a_gateway(service: str, *, propagated: bool) -> tuple[list[ReadableSpan], list[ReadableSpan]]:
    """One call as its application reports it, and as LiteLLM does, in the application's
    trace or in one of its own.
    """
    application, litellm = Application(service), Application(f"{service}-litellm")
    call = application.span("chat", chat(1200, 340, response_id=service))
    post = application.span("POST", {"http.request.method": "POST"}, at=(2, 998), parent=call, scope="http")
    received = litellm.span(
        "Received Proxy Server Request", {}, at=(10, 990), parent=post if propagated else None, scope="litellm"
    )
    values = of_litellm((1200, 340), service, 0.00075)
    litellm.span("litellm_request", values, at=(50, 980), parent=received, scope="litellm")
    return application.spans(), litellm.spans()


CONTEXTS = ("propagated", "lost")
"""Of the application's trace, on its way through the gateway."""


@pytest.mark.parametrize("first", ["application", "litellm"])
def test_a_call_through_litellm_is_one_record_with_what_both_know(
    together: Telling, shared_records: Path, first: str
) -> None:
    services = [f"shop-{context}-{first}" for context in CONTEXTS]
    for service, context in zip(services, CONTEXTS, strict=True):
        requests = through_a_gateway(service, propagated=context == "propagated")
        for spans in requests[:: 1 if first == "application" else -1]:
            send_spans(together.url, spans)

    assert together.outcomes() == {"received": 8, "kept": 2, "duplicate": 2, "ignored": 4}
    together.gateway.wait_until_delivered("archive")
    written = [json.loads(line) for line in shared_records.read_text().splitlines()]
    for service in services:
        assert billed(together.gateway, [service, f"{service}-litellm"]) == {OPENAI: Usage(1, 1200, 340, 64)}
        (record,) = [record for record in written if record["response_id"] == service]
        assert (record["cost"]["amount"], record["cost"]["source"]) == ("0.00075", "reported")
        assert record["attribution"]["team"] == "team-alpha"
        assert record["flags"] == []


CLAUDE = "claude-sonnet-4-5-20250929"


def of_anthropic_through_litellm(
    service: str, *, propagated: bool
) -> tuple[list[ReadableSpan], list[ReadableSpan], list[ReadableSpan]]:
    """Spans of one call: the application's, LiteLLM's, and
    LiteLLM's of the raw answer below that.

    The application got the provider's response id. LiteLLM made one of its own; only the raw
    answer has the provider's.
    """
    application, litellm = Application(service), Application(f"{service}-litellm")
    asked = {"gen_ai.provider.name": "anthropic", "gen_ai.request.model": CLAUDE, "gen_ai.response.model": CLAUDE}
    call = application.span("chat", chat(6201, 231, f"msg_{service}") | asked)
    values = of_litellm((6201, 231), f"chatcmpl-{service}", 0.0125) | {
        "gen_ai.system": "anthropic",
        "gen_ai.request.model": CLAUDE,
        "litellm.provider.model": f"anthropic/{CLAUDE}",
        "metadata.usage_object": "{}",
    }
    usage = {
        "input_tokens": 57,
        "cache_creation_input_tokens": 2048,
        "cache_read_input_tokens": 4096,
        "output_tokens": 231,
    }
    raw = {"llm.anthropic.id": f"msg_{service}", "llm.anthropic.model": CLAUDE, "llm.anthropic.usage": str(usage)}
    above = litellm.span("litellm_request", values, at=(50, 980), parent=call if propagated else None, scope="litellm")
    of_litellm_itself = litellm.spans()
    litellm.span("raw_gen_ai_request", raw, at=(50, 980), parent=above, scope="litellm")
    return application.spans(), of_litellm_itself, litellm.spans()


@pytest.mark.parametrize("split", ["application first", "litellm first", "one by one"])
def test_a_call_to_which_litellm_gave_an_id_of_its_own_is_found_by_the_providers(together: Telling, split: str) -> None:
    services = [f"claude-{context}-{split.replace(' ', '-')}" for context in CONTEXTS]
    for service, context in zip(services, CONTEXTS, strict=True):
        application, litellm, raw = of_anthropic_through_litellm(service, propagated=context == "propagated")
        requests = {
            "application first": [application, litellm + raw],
            "litellm first": [litellm + raw, application],
            "one by one": [raw, application, litellm],
        }
        for spans in requests[split]:
            send_spans(together.url, spans)

    assert together.outcomes() == {"received": 6, "kept": 2, "duplicate": 4}
    served = {("anthropic", CLAUDE): Usage(1, 6201, 231, 4096, 2048)}
    for service in services:
        assert billed(together.gateway, [service, f"{service}-litellm"]) == served


@pytest.mark.parametrize(
    ("order", "model"), [(1, MODEL), (-1, "gpt-4.1-mini")], ids=["the same model", "success first, of another model"]
)
def test_a_failed_attempt_and_its_fallback_are_two_calls_with_one_usage(
    together: Telling, order: int, model: str
) -> None:
    service = f"fallback-{order}-{model}"
    litellm = Application(service)
    values = of_litellm((500, 60), service, 0.001) | {"litellm.call_id": "one-for-both"}
    answered = {"gen_ai.request.model": model, "gen_ai.response.model": model, "litellm.provider.model": model}
    told_of_answers = ("gen_ai.usage", "gen_ai.cost", "gen_ai.response", "metadata.usage_object")
    failed = {name: value for name, value in values.items() if not name.startswith(told_of_answers)}
    failed |= {"error.type": "RateLimitError", "error.code": "429", "gen_ai.response.id": "one-for-both"}
    request = litellm.span("Received Proxy Server Request", {}, at=(0, 2000), scope="litellm")
    litellm.span("litellm_request", failed, at=(10, 600), parent=request, scope="litellm", error=True)
    litellm.span("litellm_request", values | answered, at=(650, 1900), parent=request, scope="litellm")
    for span in litellm.spans()[::order]:
        send_spans(together.url, [span])

    assert together.outcomes() == {"received": 3, "kept": 2, "ignored": 1}
    rows = [row for row in together.gateway.summary("service_name,model")["summary"] if row["service_name"] == service]
    assert sum(row["calls_without_usage"] for row in rows) == 1
    found = billed(together.gateway, [service], "provider,model")
    if model == MODEL:
        assert found == {("openai", MODEL): Usage(2, 500, 60, 64)}
    else:
        assert found == {("openai", MODEL): Usage(1, 0, 0), ("openai", model): Usage(1, 500, 60, 64)}


# ---- LOST ANSWERS


@pytest.mark.parametrize("how", ["cut", "kill -9"])
def test_what_is_sent_again_after_a_lost_answer_is_counted_once(tmp_path: Path, how: str) -> None:
    """The answer is there, so the commit was: then the sender's connection is cut, maybe after
    the gateway's end and restart.
    """
    with running(tmp_path, TOGETHER) as gateway, AnswerLoss(lambda: gateway.intake_url) as way:
        happens = (lambda: None) if how == "cut" else partial(ended_and_started, gateway, how)
        spans, measured = one_chat("spans", (100, 10), "chatcmpl-lost"), Application("metrics")
        logs = Application("logs").details(chat(200, 20, "chatcmpl-logged"))
        points = measured.used(400, 40, labels())
        sending = (
            partial(send_spans, way.url, spans),
            partial(send_logs, way.url, logs),
            partial(send_metrics, way.url, points),
        )
        for send in sending:
            way.lose_next(happens)
            send()
        assert way.answered == [200] * 6, "each was sent twice"
        settled = gateway.wait_until_delivered(at_least=3)
        expected = {("spans",): Usage(1, 100, 10), ("logs",): Usage(1, 200, 20), ("metrics",): Usage(1, 400, 40)}
        assert billed(gateway, ["spans", "logs", "metrics"], "service_name") == expected
        assert settled["edge"]["kept"] == 3
        assert broken_identities(settled) == []

        ended_and_started(gateway, "SIGTERM")
        for send in sending:  # what was delivered long ago, and is known after a restart too
            send()
        again = gateway.wait_until_delivered(at_least=3)
        assert billed(gateway, ["spans", "logs", "metrics"], "service_name") == expected
        assert again["edge"]["kept"] == 3
        assert again["edge"]["received"] == settled["edge"]["received"] + 4
        assert broken_identities(again) == []


# ---- METRICS


def labels() -> dict[str, str | int | float]:
    """Of the points of one model, as the conventions of OpenTelemetry have them."""
    return {name: value for name, value in chat(0, 0).items() if not name.startswith("gen_ai.usage")}


@pytest.mark.parametrize("how", END_OF_PROCESS)
def test_cumulative_metrics_count_once_over_restarts_repeats_and_losses(tmp_path: Path, how: str) -> None:
    service = "only metrics"
    with running(tmp_path, AT_ONCE) as gateway:
        first_run = Application(service)
        first = first_run.used(100, 10, labels())
        for _ in range(2):  # an SDK repeats an export whose answer did not come
            send_metrics(gateway.intake_url, first)
        first_run.used(200, 20, labels())  # this export is lost for good: the next one states it too
        ended_and_started(gateway, how)
        later = first_run.used(400, 40, labels())
        send_metrics(gateway.intake_url, later)
        send_metrics(gateway.intake_url, first)  # what was held up on its way

        second_run = Application(service)  # the sender restarts: its counters begin again, lower than they were
        send_metrics(gateway.intake_url, second_run.used(30, 3, labels()))
        ended_and_started(gateway, how)
        send_metrics(gateway.intake_url, second_run.used(50, 5, labels()))
        send_metrics(gateway.intake_url, later)  # of the process that is gone
        status = gateway.wait_until_delivered()
        totals = gateway.summary("kind")["summary"]
    assert broken_identities(status) == []
    assert status["edge"]["received"] == 2 * 7
    assert [(row["kind"], row["calls"], row["input_tokens"], row["output_tokens"]) for row in totals] == [
        ("aggregate", 5, 700 + 80, 70 + 8)
    ]


def test_services_that_send_metrics_only_are_billed_by_them_each_for_itself(together: Telling) -> None:
    left, right, telling_all = (
        Application("metrics left"),
        Application("metrics right"),
        Application("metrics and spans"),
    )
    for n, used in enumerate([(100, 10), (50, 5)]):
        send_metrics(together.url, left.used(*used, labels()))
        send_metrics(together.url, right.used(2 * used[0], 2 * used[1], labels()))
        send_metrics(together.url, telling_all.used(*used, labels()))
        telling_all.span("chat", chat(*used), at=(2000 * n, 2000 * n + 1000))
    send_spans(together.url, telling_all.spans())

    assert together.outcomes() == {"received": 14, "kept": 6, "duplicate": 6, "suppressed": 2}
    assert together.reasons() == {"duplicate.folded": 6, "suppressed.calls_reported": 2}
    assert billed(together.gateway, ["metrics and spans"], "kind,provider,model") == {
        ("call", *OPENAI): Usage(2, 150, 15)
    }
    for service, usage in (("metrics left", Usage(2, 150, 15)), ("metrics right", Usage(2, 300, 30))):
        assert billed(together.gateway, [service], "kind,provider,model") == {("aggregate", *OPENAI): usage}


def test_a_service_that_starts_to_send_spans_is_billed_by_its_metrics_until_then(late: Telling) -> None:
    application = Application("grown up")
    send_metrics(late.url, application.used(100, 10, labels()))
    late.settled()
    for n, used in enumerate([(30, 3), (7, 1)]):
        application.span("chat", chat(*used), at=(2000 * n, 2000 * n + 1000))
        send_spans(late.url, application.spans())
        send_metrics(late.url, application.used(*used, labels()))
        late.settled()

    assert late.reasons() == {"duplicate.folded": 3, "suppressed.calls_reported": 2}
    assert billed(late.gateway, ["grown up"], "kind,provider,model") == {
        ("aggregate", *OPENAI): Usage(1, 100, 10),
        ("call", *OPENAI): Usage(2, 37, 4),
    }


# ---- LATE EVIDENCE


def test_an_agent_and_a_chain_that_come_after_their_calls_were_forwarded_are_not_billed(late: Telling) -> None:
    *below, chain, agent = agent_run("late parents")
    for spans in (below, [chain], [agent]):
        send_spans(late.url, spans)
        late.settled()

    assert late.outcomes() == {"received": 11, "kept": 3, "suppressed": 2, "ignored": 6}
    assert late.reasons() == {"suppressed.ancestor": 1, "suppressed.not_a_call": 1}
    assert billed(late.gateway, ["late parents"]) == {OPENAI: Usage(3, 630, 93)}


def test_calls_that_come_after_the_call_above_them_was_forwarded_are_not_billed(late: Telling) -> None:
    *below, chain, agent = agent_run("late children", in_steps=False)
    for spans in ([agent, chain], below[:2], below[2:]):
        send_spans(late.url, spans)
        late.settled()

    assert late.outcomes() == {"received": 8, "kept": 1, "suppressed": 4, "ignored": 3}
    assert late.reasons() == {"suppressed.parent_forwarded": 3, "suppressed.not_a_call": 1}
    assert billed(late.gateway, ["late children"]) == {OPENAI: Usage(1, 630, 93)}


@pytest.mark.parametrize("first", ["application", "litellm"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_the_other_reports_of_a_call_with_two_response_ids_are_not_billed_when_they_are_late(
    late: Telling, context: str, first: str
) -> None:
    service = f"late-claude-{context}-{first}"
    application, litellm, raw = of_anthropic_through_litellm(service, propagated=context == "propagated")
    requests = [application, litellm + raw]
    for spans in requests[:: 1 if first == "application" else -1]:
        send_spans(late.url, spans)
        late.settled()

    outcomes = late.outcomes()
    assert (outcomes["received"], outcomes["kept"]) == (3, 1)
    (usage,) = billed(late.gateway, [service, f"{service}-litellm"]).values()
    assert usage[:3] == (1, 6201, 231)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("first", ["application", "litellm"])
def test_the_second_report_of_a_call_that_was_forwarded_is_not_billed(late: Telling, first: str, context: str) -> None:
    service = f"late-{context}-{first}"
    requests = through_a_gateway(service, propagated=context == "propagated")
    for spans in requests[:: 1 if first == "application" else -1]:
        send_spans(late.url, spans)
        late.settled()

    assert late.outcomes() == {"received": 4, "kept": 1, "duplicate": 1, "ignored": 2}
    (usage,) = billed(late.gateway, [service, f"{service}-litellm"]).values()
    assert usage[:3] == (1, 1200, 340)
