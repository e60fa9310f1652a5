"""The numbered order of reports: where one product reports a call in several ways that
share no id, which way counts.

Each product's ways stand in order of what they state: the best one that was seen of a sender's
session is counted, the others are suppressed; alone, each counts. The counting is
`gateway.counting.calls.order`'s, here are the table and the names. A way is the name of a log
event, or `SPAN` for the product's spans. Metrics come after all of them: they report no single
call, and are suppressed wherever calls were reported (`gateway.counting.metrics.sources`).
"""

from functools import lru_cache
from typing import NamedTuple

from gateway.rules.call import RANK_SHIFT
from gateway.rules.fingerprint import fingerprint

SPAN = "span"
DETAILS = "gen_ai.client.inference.operation.details"

ORDER: dict[str, tuple[str, ...]] = {
    "claude_code": ("claude_code.api_request", SPAN),  # the log has cost, user and request id
    "codex": ("codex.sse_event", SPAN),  # the span has neither model nor session
    "gemini_cli": ("gemini_cli.api_response", DETAILS, SPAN),  # only the first states cache and thoughts
    "qwen_code": ("qwen-code.api_response", DETAILS, SPAN),
    "copilot": (SPAN, DETAILS),  # the span has the cache
    "cline": ("task.conversation_turn", "task.tokens", SPAN),  # the turn has provider, cache and cost, if it has tokens
}
"""Product (the convention's name) -> its ways of reporting a call, the one to count first."""

_SAME_WAY = {
    "claude_code.api_error": "claude_code.api_request",
    "gemini_cli.api_error": "gemini_cli.api_response",
    "qwen-code.api_error": "qwen-code.api_response",
}
"""Failures are reported by an event of their own, in the same way as the answers."""


class Precedence(NamedTuple):
    """Where a report stands in its product's order; all zero for a product that has none."""

    group: int
    """63-bit fingerprint of the product and the sender."""
    session: int
    """32-bit fingerprint of the session; 0 where this report states none."""
    marks: int
    """The rank, in place for `Call.marks`."""


NOWHERE = Precedence(0, 0, 0)


def rank_of(product: str, way: str) -> int:
    """1 for the way that is counted first; 0 where *product* has
    no order or *way* no place in it.
    """
    ways = ORDER.get(product, ())
    name = _SAME_WAY.get(way, way)
    return ways.index(name) + 1 if name in ways else 0


def place(product: str, rank: int, sender: int, session: str | None) -> Precedence:
    """The place of one report; *sender* is the `Origin`'s, *session*
    as the report itself states it.
    """
    if not rank:
        return NOWHERE
    return Precedence(_group(product, sender), session_fingerprint(session), rank << RANK_SHIFT)


@lru_cache(maxsize=4096)
def _group(product: str, sender: int) -> int:
    return fingerprint("reports", product, str(sender))


def session_fingerprint(session: str | None) -> int:
    """32 bits, not 0; 0 for no session."""
    return (fingerprint("session", session) & 0xFFFF_FFFF) or 1 if session else 0
