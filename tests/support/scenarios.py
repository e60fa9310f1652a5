"""What really happened, and every way it is reported: calls and links of one situation
with the truth beside them.

Each builder takes the situation's number, from which service names, traces and times follow,
so that many can be mixed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.rules.call import Call
from tests.support.calls import call, link, stream_begin, stream_end

APART_MS = 60_000
"""Situations lie this far apart in the calls' own time."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    number: int
    calls: list[Call]
    truth: tuple[int, int, int]
    """(billed calls, input tokens, output tokens)."""
    links: list[bytes] = field(default_factory=list)
    conflicts: bool = False
    """Whether some record must carry the flag."""
    unbilled: int = 0
    """Records that are forwarded and no provider billed."""

    @property
    def items(self) -> list[Call | bytes]:
        """Calls and links."""
        return [*self.calls, *self.links]

    @property
    def services(self) -> set[str]:
        return {f"app-{self.number}", f"gateway-{self.number}"}


class _Reports:
    """Shorthand for one situation's reports: spans, traces and response ids of
    its own, times after its start.
    """

    def __init__(self, number: int) -> None:
        self.n = number

    def app(self, span: str, at: tuple[int, int] = (0, 1000), **rest: object) -> Call:
        return self._call(span, at, f"app-{self.n}", rest)

    def gateway(self, span: str, at: tuple[int, int] = (0, 1000), **rest: object) -> Call:
        return self._call(span, at, f"gateway-{self.n}", {"scope": "litellm", "trace": "gateway", **rest})

    def log(self, name: str, span: str, at: int, **rest: object) -> Call:
        """A log record that was emitted in *span*, when the call was over."""
        return self._call(
            name, (at, at), f"app-{self.n}", {"parent": span, "event": f"{name}-{self.n}", "log": True, **rest}
        )

    def link(self, span: str, parent: str = "") -> bytes:
        return link(f"t-{self.n}", span, parent)

    def stream(
        self, name: str, at: tuple[int, int, int], tokens: tuple[int | None, int | None], **rest: object
    ) -> list[Call]:
        """A stream that was asked for, open and read at *at*, reported in two root spans."""
        asked_at, open_at, read_at = at
        begin = {**rest, "trace": f"{name}-begin"}
        end = {"trace": f"{name}-end", "scope": rest.get("scope", "openai"), "tokens": tokens}
        return [
            self._call(f"{name}-begin", (asked_at, open_at), f"app-{self.n}", begin, stream_begin),
            self._call(f"{name}-end", (open_at, read_at), f"app-{self.n}", end, stream_end),
        ]

    def _call(
        self,
        span: str,
        at: tuple[int, int],
        service: str,
        rest: dict[str, object],
        build: Callable[..., Call] = call,
    ) -> Call:
        start = self.n * APART_MS
        values = dict(rest)
        values["trace"] = f"{values.get('trace', 't')}-{self.n}"
        if values.get("response"):
            values["response"] = f"{values['response']}-{self.n}"
        return build(span, at=(start + at[0], start + at[1]), service=service, **values)


def plain(number: int) -> Scenario:
    r = _Reports(number)
    calls = [r.app(f"s{i}", at=(i * 10, i * 10 + 500), tokens=(100, 20), response=f"r{i}") for i in range(3)]
    return Scenario("plain", number, calls, (3, 300, 60))


def agent_of_nested_calls(number: int) -> Scenario:
    """A framework's call repeats the sum of the calls below it, at several distances,
    through spans that are no calls.
    """
    r = _Reports(number)
    calls = [
        r.app("root", at=(0, 5000), tokens=(330, 66), scope="framework"),
        r.app("c1", at=(100, 900), tokens=(100, 20), parent="tool1"),
        r.app("c2", at=(1000, 2000), tokens=(110, 22), parent="root"),
        r.app("c3", at=(2100, 4000), tokens=(120, 24), parent="http"),
    ]
    links = [r.link("tool1", "root"), r.link("tool2", "root"), r.link("http", "tool2")]
    return Scenario("agent_of_nested_calls", number, calls, (3, 330, 66), links)


def agents_above_agents(number: int) -> Scenario:
    r = _Reports(number)
    calls = [
        r.app("root", at=(0, 5000), tokens=(210, 42), scope="framework"),
        r.app("inner", at=(50, 4900), tokens=(210, 42), scope="framework", parent="step"),
        r.app("c1", at=(100, 900), tokens=(100, 20), parent="inner"),
        r.app("c2", at=(1000, 2000), tokens=(110, 22), parent="tool"),
    ]
    return Scenario(
        "agents_above_agents", number, calls, (2, 210, 42), [r.link("step", "root"), r.link("tool", "inner")]
    )


def sdk_and_instrumentation(number: int) -> Scenario:
    """Two scopes report three concurrent calls of equal usage, in traces of their own."""
    r = _Reports(number)
    sdk = [r.app(f"a{i}", at=(i * 7, 800 + i * 7), tokens=(50, 9), response=f"r{i}") for i in range(3)]
    other = [
        r.app(f"b{i}", at=(i * 7 - 5, 805 + i * 7), tokens=(50, 9), scope="langchain", trace=f"u{i}") for i in range(3)
    ]
    return Scenario("sdk_and_instrumentation", number, [*sdk, *other], (3, 150, 27))


def application_and_gateway(number: int) -> Scenario:
    """One response id, two clocks that differ by 400 ms; the
    application's stream stated no usage.
    """
    r = _Reports(number)
    calls = [
        r.app("a", at=(0, 900), tokens=(None, None), response="r"),
        r.gateway("g", at=(450, 1250), tokens=(70, 30), response="r", cost="0.02"),
    ]
    return Scenario("application_and_gateway", number, calls, (1, 70, 30))


def gateway_cache_hit(number: int) -> Scenario:
    """The gateway's cache repeats id and usage of a call later; both sides report both."""
    r = _Reports(number)
    calls = [
        r.app("a1", at=(0, 900), tokens=(70, 30), response="r"),
        r.gateway("g1", at=(10, 890), tokens=(70, 30), response="r"),
        r.app("a2", at=(20_000, 20_012), tokens=(70, 30), response="r"),
        r.gateway("g2", at=(20_002, 20_010), tokens=(70, 30), response="r", hit=True),
    ]
    return Scenario("gateway_cache_hit", number, calls, (1, 70, 30), unbilled=1)


def reused_ids(number: int) -> Scenario:
    """A local server gives every response one id."""
    r = _Reports(number)
    calls = [
        r.app("s0", at=(0, 500), tokens=(10, 5), response="chatcmpl-0"),
        r.app("s1", at=(5000, 5500), tokens=(40, 8), response="chatcmpl-0"),
        r.app("s2", at=(5600, 5900), tokens=(40, 8), response="chatcmpl-0"),
    ]
    return Scenario("reused_ids", number, calls, (3, 90, 21), conflicts=True)


def uncovered_ancestor(number: int) -> Scenario:
    """A gateway's call with nothing but a guardrail's call below it."""
    r = _Reports(number)
    calls = [
        r.app("root", at=(0, 3000), tokens=(1000, 200), model="gpt-4o"),
        r.app("guard", at=(10, 400), tokens=(50, 5), model="gpt-4o-mini", parent="root"),
    ]
    return Scenario("uncovered_ancestor", number, calls, (2, 1050, 205), conflicts=True)


def three_carriers(number: int) -> Scenario:
    """SDK span, a framework's span around it in another trace, and the gateway's log."""
    r = _Reports(number)
    calls = [
        r.app("sdk", at=(5, 1000), tokens=(80, 40), response="r"),
        r.app("frame", at=(0, 1010), tokens=(80, 40), scope="langchain", trace="u"),
        r.gateway("g", at=(300, 1290), tokens=(80, 40), response="r", cost="0.1"),
    ]
    return Scenario("three_carriers", number, calls, (1, 80, 40))


def parent_with_retries(number: int) -> Scenario:
    """A call of the client library above its two attempts, of which the first one failed."""
    r = _Reports(number)
    calls = [
        r.app("root", at=(0, 3000), tokens=(60, 12)),
        r.app("try1", at=(10, 900), tokens=(None, None), failed=True, parent="root"),
        r.app("try2", at=(1000, 2990), tokens=(60, 12), parent="root"),
    ]
    return Scenario("parent_with_retries", number, calls, (2, 60, 12))


def fallback_to_another_model(number: int) -> Scenario:
    r = _Reports(number)
    calls = [
        r.gateway("g1", at=(0, 500), tokens=(None, None), failed=True, model="gpt-4o"),
        r.gateway("g2", at=(510, 1500), tokens=(60, 12), model="claude-sonnet-4-5", response="r"),
    ]
    return Scenario("fallback_to_another_model", number, calls, (2, 60, 12))


def overcounted_stream(number: int) -> Scenario:
    """An instrumentation that is known to state a few output tokens too many."""
    r = _Reports(number)
    calls = [
        r.app("a", at=(0, 900), tokens=(70, 33), response="r", scope="opentelemetry.instrumentation.anthropic"),
        r.gateway("g", at=(100, 1000), tokens=(70, 30), response="r"),
    ]
    return Scenario("overcounted_stream", number, calls, (1, 70, 30))


def covered_by_a_gateway(number: int) -> Scenario:
    """The application's framework call stands above the gateway's two spans in one trace."""
    r = _Reports(number)
    calls = [
        r.app("root", at=(0, 3000), tokens=(150, 30), scope="framework", response_model="gpt-4o-2024-08-06"),
        r.gateway("g1", at=(200, 900), tokens=(100, 20), trace="t", parent="http"),
        r.gateway("g2", at=(1000, 2500), tokens=(50, 10), trace="t", parent="http"),
    ]
    return Scenario("covered_by_a_gateway", number, calls, (2, 150, 30), [r.link("http", "root")])


def logs_in_their_spans(number: int) -> Scenario:
    """A library states each call by a span and by a log in it; what only one of them
    knows completes the other.
    """
    r = _Reports(number)
    calls = [
        report
        for i in range(3)
        for report in (
            r.app(f"s{i}", at=(i * 10, i * 10 + 500), tokens=(100, 20), reasoning=5),
            r.log(f"l{i}", f"s{i}", at=i * 10 + 500, tokens=(100, 20), cache_read=40),
        )
    ]
    return Scenario("logs_in_their_spans", number, calls, (3, 300, 60))


def logs_in_an_outer_span(number: int) -> Scenario:
    """Two logs and nothing else, in the span of the application's own work."""
    r = _Reports(number)
    calls = [r.log(f"l{i}", "work", at=500 + i, tokens=(100, 20)) for i in range(2)]
    return Scenario("logs_in_an_outer_span", number, calls, (2, 200, 40), [r.link("work", "root")])


def logs_below_a_sum(number: int) -> Scenario:
    """The span around two logs is a call by its name, and sums them up."""
    r = _Reports(number)
    calls = [r.log(f"l{i}", "agent", at=500 + i, tokens=(100 + i, 20)) for i in range(2)]
    calls.append(r.app("agent", at=(0, 900), tokens=(201, 40)))
    return Scenario("logs_below_a_sum", number, calls, (2, 201, 40))


def log_and_co_instrumented_below(number: int) -> Scenario:
    """An instrumentation's span with its log, and the SDK's own span below it."""
    r = _Reports(number)
    calls = [
        r.app("outer", at=(0, 1000), tokens=(80, 40), scope="framework"),
        r.log("l", "outer", at=990, tokens=(80, 40), scope="framework"),
        r.app("inner", at=(10, 980), tokens=(80, 40), parent="outer", response="r"),
    ]
    return Scenario("log_and_co_instrumented_below", number, calls, (1, 80, 40))


def failures_in_log_and_span(number: int) -> Scenario:
    r = _Reports(number)
    nothing = {"tokens": (None, None), "failed": True}
    calls = [
        r.app("first", at=(0, 400), **nothing),
        r.log("l1", "first", at=400, **nothing),
        r.app("second", at=(600, 1500), tokens=(60, 12)),
        r.log("l2", "second", at=1500, tokens=(60, 12)),
    ]
    return Scenario("failures_in_log_and_span", number, calls, (2, 60, 12))


def ways_of_a_product(number: int) -> Scenario:
    """Logs know more than spans, and share no id with them; a session that only spans
    report counts all the same.
    """
    r = _Reports(number)
    calls = [
        report
        for i in range(2)
        for report in (
            r.log(f"l{i}", "", at=500 + i, tokens=(100, 30), product="p", session="one", rank=1),
            r.app(f"s{i}", at=(i, 500 + i), tokens=(100, 20), product="p", session="one", rank=3),
        )
    ]
    calls.append(r.app("alone", at=(5, 800), tokens=(7, 3), product="p", session="two", rank=3))
    return Scenario("ways_of_a_product", number, calls, (3, 207, 63))


def ways_without_a_session(number: int) -> Scenario:
    """The spans state no session, so they stand for all sessions of their sender."""
    r = _Reports(number)
    calls = [
        r.log("l", "", at=500, tokens=(100, 30), product="p", session="one", rank=1),
        r.app("s", at=(0, 490), tokens=(100, 30), model=None, product="p", rank=2),
    ]
    return Scenario("ways_without_a_session", number, calls, (1, 100, 30))


def raw_answer_below_its_call(number: int) -> Scenario:
    """A gateway's span; one below it that repeats it with the provider's id; one that reports
    another call made inside it.
    """
    r = _Reports(number)
    calls = [
        r.gateway("g", at=(0, 900), tokens=(70, 30), response="own", cost="0.02"),
        r.gateway("raw", at=(0, 900), tokens=(70, 30), response="provider's", parent="g", repeats=True),
        r.gateway("next", at=(400, 800), tokens=(11, 3), response="next", parent="g", repeats=True),
        r.gateway("alone", at=(2000, 2900), tokens=(50, 10), response="other", parent="http", repeats=True),
    ]
    return Scenario("raw_answer_below_its_call", number, calls, (3, 131, 43))


def told_again(number: int) -> Scenario:
    """Spans are sent before their usage is known and again when it is; a
    framework's call stands above them.
    """
    r = _Reports(number)
    calls = [
        r.app("root", at=(0, 3000), tokens=(200, 40), scope="framework"),
        r.app("a", at=(100, 100), tokens=(None, None), parent="tool"),
        r.app("a", at=(100, 900), tokens=(100, None), parent="tool"),
        r.app("a", at=(100, 1000), tokens=(100, 20), parent="tool", response="r"),
        r.gateway("g", at=(100, 1000), tokens=(100, 20), response="r", cost="0.01"),
        r.app("b", at=(1100, 1200), tokens=(100, 1), parent="root"),
        r.app("b", at=(1100, 1900), tokens=(100, 20), parent="root", reasoning=5),
    ]
    return Scenario("told_again", number, calls, (2, 200, 40), [r.link("tool", "root")])


def repeats_below_a_call_without_an_id(number: int) -> Scenario:
    """LiteLLM's raw spans below an application's span, on which the first call is written
    without its response's id.
    """
    r = _Reports(number)
    calls = [
        r.app("above", at=(0, 3000), tokens=(120, 30), scope="web"),
        r.app("r1", at=(100, 900), tokens=(120, 30), parent="above", response="c1", scope="litellm", repeats=True),
        r.app("r2", at=(1000, 2000), tokens=(300, 70), parent="above", response="c2", scope="litellm", repeats=True),
    ]
    return Scenario("repeats_below_a_call_without_an_id", number, calls, (2, 420, 100))


def several_logs_of_one_call(number: int) -> Scenario:
    """A library logs one call three times, in the span that reports it too."""
    r = _Reports(number)
    calls = [r.app("s", at=(0, 900), tokens=(100, 20))]
    calls += [r.log(f"l{i}", "s", at=100 + i, tokens=(100, 20)) for i in range(3)]
    return Scenario("several_logs_of_one_call", number, calls, (1, 100, 20))


def logs_of_several_responses(number: int) -> Scenario:
    """Equal calls, each with a log, inside a span on which the first one is written."""
    r = _Reports(number)
    calls = [r.app("s", at=(0, 900), tokens=(100, 20))]
    calls += [r.log(f"l{i}", "s", at=100 + i, tokens=(100, 20), response=f"x{i}") for i in range(3)]
    return Scenario("logs_of_several_responses", number, calls, (3, 300, 60))


def told_again_with_a_request_id(number: int) -> Scenario:
    """Only the later reports of either side know the id that they share."""
    r = _Reports(number)
    request = f"q-{number}"
    calls = [
        r.app("a", at=(0, 10), tokens=(None, None)),
        r.app("a", tokens=(60, 6), request=request),
        r.gateway("g", at=(5, 990), tokens=(60, 6), request=request),
        r.gateway("g", at=(5, 990), tokens=(60, 6), request=request, response="r"),
    ]
    return Scenario("told_again_with_a_request_id", number, calls, (1, 60, 6))


def agent_above_calls_through_a_gateway(number: int) -> Scenario:
    r = _Reports(number)
    calls = [r.app("root", at=(0, 5000), tokens=(300, 60), scope="framework")]
    for i in range(3):
        at = 100 + i * 1500
        calls += [
            r.app(f"c{i}", at=(at, at + 1100), tokens=(100, 20), parent="root", response=f"r{i}"),
            r.gateway(f"g{i}", at=(at + 50, at + 1050), tokens=(100, 20), response=f"r{i}", cost="0.1"),
        ]
    return Scenario("agent_above_calls_through_a_gateway", number, calls, (3, 300, 60))


def streams_in_two_spans(number: int) -> Scenario:
    """Equal streams that overlap, one without usage, beside a call of the same library."""
    r = _Reports(number)
    calls = [r.app("plain", at=(0, 400), tokens=(11, 3), response="r")]
    for i in range(3):
        calls += r.stream(f"x{i}", (i * 20, 300 + i * 20, 2000 - i * 50), (100, 20))
    calls += r.stream("unknown", (100, 500, 900), (None, None))
    return Scenario("streams_in_two_spans", number, calls, (5, 311, 63))


def streams_beside_another_instrumentation(number: int) -> Scenario:
    """A second instrumentation reports each stream whole, in a trace of its own."""
    r = _Reports(number)
    calls: list[Call] = []
    for i in range(3):
        calls += r.stream(f"x{i}", (i * 20, 300 + i * 20, 2000 + i * 10), (100, 20), scope="logfire.openai")
        calls.append(
            r.app(
                f"w{i}", at=(i * 20 + 1, 2001 + i * 10), tokens=(100, 20), trace=f"w{i}", response=f"r{i}", scope="sdk"
            )
        )
    return Scenario("streams_beside_another_instrumentation", number, calls, (3, 300, 60))


def stream_above_the_sdks_own_span(number: int) -> Scenario:
    """The client's own span of a stream stands below the span that opened it."""
    r = _Reports(number)
    calls = r.stream("x", (0, 300, 2000), (100, 20), scope="logfire.anthropic")
    own = {"trace": "x-begin", "parent": "x-begin", "scope": "com.anthropic.sdk.python"}
    calls.append(r.app("own", at=(10, 1990), tokens=(100, 20), response="r", **own))
    return Scenario("stream_above_the_sdks_own_span", number, calls, (1, 100, 20))


ALL: tuple[Callable[[int], Scenario], ...] = (
    plain,
    agent_of_nested_calls,
    agents_above_agents,
    sdk_and_instrumentation,
    application_and_gateway,
    gateway_cache_hit,
    reused_ids,
    uncovered_ancestor,
    three_carriers,
    parent_with_retries,
    fallback_to_another_model,
    overcounted_stream,
    covered_by_a_gateway,
    logs_in_their_spans,
    logs_in_an_outer_span,
    logs_below_a_sum,
    log_and_co_instrumented_below,
    failures_in_log_and_span,
    ways_of_a_product,
    ways_without_a_session,
    raw_answer_below_its_call,
    told_again,
    repeats_below_a_call_without_an_id,
    several_logs_of_one_call,
    logs_of_several_responses,
    told_again_with_a_request_id,
    agent_above_calls_through_a_gateway,
    streams_in_two_spans,
    streams_beside_another_instrumentation,
    stream_above_the_sdks_own_span,
)
