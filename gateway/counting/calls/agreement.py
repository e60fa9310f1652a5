"""When two reports may be of one call: usage, time, model.

Pure; every tolerance stands here with its reason.
"""

from gateway.counting.calls.digest import FAILED, HIT, CallDigest
from gateway.rules.call import LOG, REPEAT, UNFINISHED
from gateway.rules.fingerprint import scope_fingerprint

SAME_RESPONSE_SLACK_MS = 1_000
"""Two hosts report one response: their clocks may differ by this much. Ids that local
servers reuse are further apart."""
NESTED_SLACK_MS = 50
"""Co-instrumented spans are reported by one process, so by one clock; callbacks run a little
after the call."""

OUTPUT_DEVIATIONS: dict[int, int] = {
    # OpenLLMetry adds the output count of `message_start` to the final one when it reads an
    # Anthropic stream.
    scope_fingerprint("opentelemetry.instrumentation.anthropic"): 8,
}
"""Scope -> how far its output count may lie above what the provider served."""

MAX_OUTPUT_DEVIATION = 8
"""Of any scope where the inputs are equal: LangChain for JavaScript adds the output of
`message_start` too, and every instrumentation passes that on."""
DEVIATION_SHARE = 16
"""The smaller output is at least so many times the deviation: of answers of a few tokens nothing
can be said."""


def deviation(a: CallDigest, b: CallDigest) -> int:
    return max(OUTPUT_DEVIATIONS.get(a.scope, 0), OUTPUT_DEVIATIONS.get(b.scope, 0))


def same_usage(a: CallDigest, b: CallDigest) -> bool:
    """Whether the whole counts agree where both state them.

    Inputs agree too where one is the other without exactly the cache parts that either states: one
    instrumentation passes on the input of a provider that counts its cache apart.
    """
    if a.input_tokens != b.input_tokens and a.input_tokens >= 0 and b.input_tokens >= 0 and not lacks_cache(a, b):
        return False
    if a.output_tokens == b.output_tokens or a.output_tokens < 0 or b.output_tokens < 0:
        return True
    apart = abs(a.output_tokens - b.output_tokens)
    return deviates(a, b) or (
        apart == max(a.reasoning, b.reasoning) and (a.reasoning in {-1, 0, apart}) and (b.reasoning in {-1, 0, apart})
    )


def deviates(a: CallDigest, b: CallDigest) -> bool:
    """Whether the outputs, which differ, do so only because one library adds to what was served."""
    apart = abs(a.output_tokens - b.output_tokens)
    return apart <= deviation(a, b) or (
        a.input_tokens == b.input_tokens > 0
        and apart <= MAX_OUTPUT_DEVIATION
        and apart * DEVIATION_SHARE <= min(a.output_tokens, b.output_tokens)
    )


def lacks_cache(a: CallDigest, b: CallDigest) -> bool:
    """Whether the inputs differ by exactly the cache parts that either states, equal where both
    state one.
    """
    together = 0
    for mine, theirs in ((a.cache_read, b.cache_read), (a.cache_creation, b.cache_creation)):
        if mine != theirs and mine > 0 and theirs > 0:
            return False
        together += max(mine, theirs, 0)
    return abs(a.input_tokens - b.input_tokens) == together > 0


def cached(fact: CallDigest) -> int:
    """The cache parts that a report states, together."""
    return max(fact.cache_read, 0) + max(fact.cache_creation, 0)


def states_usage(fact: CallDigest) -> bool:
    return fact.input_tokens >= 0 or fact.output_tokens >= 0


def same_model(a: CallDigest, b: CallDigest) -> bool:
    """Whether some name of one is some name of the other, or one names none."""
    mine = {a.request_model, a.response_model} - {0}
    theirs = {b.request_model, b.response_model} - {0}
    return not mine or not theirs or not mine.isdisjoint(theirs)


def overlaps(a: CallDigest, b: CallDigest, slack_ms: int) -> bool:
    return a.start_ms <= b.end_ms + slack_ms and b.start_ms <= a.end_ms + slack_ms


def nested(a: CallDigest, b: CallDigest) -> bool:
    """Whether one interval lies inside the other."""
    s = NESTED_SLACK_MS
    return (a.start_ms <= b.start_ms + s and b.end_ms <= a.end_ms + s) or (
        b.start_ms <= a.start_ms + s and a.end_ms <= b.end_ms + s
    )


def response_slack_ms(a: CallDigest, b: CallDigest) -> int:
    """How far apart two reports of one response may lie: one process has one clock, one library
    reports a call at its time.
    """
    if a.source != b.source:
        return SAME_RESPONSE_SLACK_MS
    return NESTED_SLACK_MS if a.scope != b.scope else 0


def is_same_response(a: CallDigest, b: CallDigest) -> bool:
    """Rule 3b: equal response id (the caller knows), overlapping time, agreeing usage.

    A hit of a gateway's cache repeats the id and the usage of the call that filled it; it is the
    same call only as what another scope reports at that very time.
    """
    if (a.marks ^ b.marks) & HIT:
        return a.scope != b.scope and overlaps(a, b, NESTED_SLACK_MS) and same_usage(a, b)
    return overlaps(a, b, response_slack_ms(a, b)) and same_usage(a, b)


def is_same_request(a: CallDigest, b: CallDigest) -> bool:
    """Rule 3b for reports that share a request id, a gateway's own or the provider's, where no two
    response ids contradict it.

    One scope that uses it twice reports two attempts.
    """
    return (
        a.request == b.request != 0
        and a.scope != b.scope
        and not (a.response and b.response and a.response != b.response)
        and not (a.marks ^ b.marks) & (HIT | FAILED)
        and overlaps(a, b, SAME_RESPONSE_SLACK_MS)
        and same_usage(a, b)
    )


def is_repeat(fact: CallDigest, around: CallDigest) -> bool:
    """Whether a span that is known to repeat its parent does: LiteLLM writes only the first
    call inside a span on it.

    It gives some responses ids of its own, so another id alone proves nothing.
    """
    return not fact.response or not around.response or fact.response == around.response or same_usage(fact, around)


def accounts_for(fact: CallDigest, call: CallDigest) -> bool:
    """Whether a report without an operation and a duration only states again what *call* used,
    which the same scope reported and which ended just before.
    """
    return (
        fact.scope == call.scope
        and fact.source == call.source
        and not call.marks & REPEAT
        and fact.output_tokens == call.output_tokens
        and (fact.input_tokens == call.input_tokens or lacks_cache(fact, call))
        and call.start_ms - NESTED_SLACK_MS <= fact.start_ms <= call.end_ms + NESTED_SLACK_MS
        and same_model(fact, call)
    )


def is_co_instrumented(a: CallDigest, b: CallDigest) -> bool:
    """Rule 3c: one source, two scopes, one interval inside the other, same model, usage
    that agrees or none on both, or on one that is silent of it (`is_silent_beside`).

    A report that only reports a beginning states no usage yet, which proves nothing.
    """
    return (
        a.source == b.source
        and a.scope != b.scope
        and (a.place == b.place or not a.place or not b.place)
        and not (a.response and b.response)
        and not (a.marks ^ b.marks) & FAILED
        and not (a.marks | b.marks) & UNFINISHED
        and (states_usage(a) == states_usage(b) or is_silent_beside(a, b))
        and nested(a, b)
        and same_model(a, b)
        and same_usage(a, b)
    )


def is_silent_beside(a: CallDigest, b: CallDigest) -> bool:
    """Whether only one of two spans that went well states usage, and both name a model: an
    instrumentation that does not know an interface of the client passes no usage on, as of a stream
    that is opened in another way.
    """
    return (
        states_usage(a) != states_usage(b)
        and not (a.marks | b.marks) & (FAILED | HIT | LOG | REPEAT)
        and not a.group
        and not b.group
        and (a.request_model or a.response_model) != 0
        and (b.request_model or b.response_model) != 0
    )
