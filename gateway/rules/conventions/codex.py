"""Codex: its span `handle_responses` carries the usage of one call, without model;
`session_task.turn` repeats the turn.
"""

from gateway.read.view import Span
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.operation import Outcome

_TURN = "codex.turn.token_usage."


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Only a span with usage of its own is a call; the turn is a step; the
    hundreds around them are neither.
    """
    if "turn_input" in picked.counts:
        return "not_a_call"
    return "call" if "input" in picked.counts or "output" in picked.counts else "undecided"


CODEX = Convention(
    "codex",
    own={
        "reasoning": ("codex.usage.reasoning_output_tokens", "gen_ai.usage.reasoning.output_tokens"),
        "turn_input": (_TURN + "input_tokens",),
        "session": ("conversation.id", "session.id"),
    },
    outcome=outcome,
    basis=inclusive,
    default_provider="openai",
)
