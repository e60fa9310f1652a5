"""Both readers beside each other."""

from collections.abc import Mapping
from typing import Any

from gateway.common.contract.errors import BadPayload, TooLarge
from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.pipeline.parsing.parse import Parsed, ParseRules, Payload, parse
from gateway.pipeline.parsing.reader import ShapeReader
from gateway.rules.ai_spans import MAX_TRACES
from gateway.rules.context import Context, Machines, UserPolicy
from gateway.usage.pricing.prices import Prices
from spool.clock import rfc3339_ms

NOW_MS = 1_790_000_000_000
PATIENCE_NS = 10**15
"""More time for lessons than a test has."""


def context_at(now_ms: int = NOW_MS, **fields: Any) -> Context:
    return Context(now_ms, rfc3339_ms(now_ms), **{"key": "team-a", "peer": "127.0.0.1", **fields})


LABELLED = context_at(key_fixes={"team": "blue", "user": "ann"}, own_device="d" * 32)
HASHED = context_at(users=UserPolicy("hash", b"s" * 32), machines=Machines(b"m" * 32), counted_as="k1")


class Readers:
    """One native reader, and Python's, each with prices of its own."""

    def __init__(self, *, lessons_ns: int = PATIENCE_NS) -> None:
        self.rules = ParseRules(Prices())
        self.native_rules = ParseRules(Prices())
        self.native = ShapeReader(self.native_rules, lessons_ns=lessons_ns)

    def compare(self, body: bytes, context: Context) -> bool:
        """Fail where they differ; whether the native reader read all or part of it."""
        payload = Payload("traces", body, json=False)
        try:
            true: Parsed | None = parse(payload, context, self.rules)
        except (BadPayload, TooLarge):
            true = None
        found = self.native.parse(payload, context)
        if found is None:
            if true is not None:
                parse(payload, context, self.native_rules)
            assert self.native_rules.prices.unpriced == self.rules.prices.unpriced
            return False
        assert true is not None, "the native reader takes what Python refuses"
        assert found._replace(calls=None) == true._replace(calls=None)
        assert found.calls is not None
        assert true.calls is not None
        assert compared(found.calls) == compared(true.calls)
        assert self.native_rules.prices.unpriced == self.rules.prices.unpriced
        return True


def compared(calls: ParsedPayload) -> Mapping[str, Any]:
    """All fields; the sums without their order, and of many traces their number: which ones are the
    samples states nothing.
    """
    sums: dict[tuple[Any, ...], int] = {}
    for *key, tokens in calls.used:
        sums[tuple(key)] = sums.get(tuple(key), 0) + tokens
    return {
        **calls._asdict(),
        "used": sums,
        "reported": {service: counts for service, *counts in calls.reported},
        "ai_spans": {x[:3]: len(x[3]) if len(x[3]) == MAX_TRACES else x[3] for x in calls.ai_spans},
    }
