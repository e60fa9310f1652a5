"""Google's Agent Development Kit (`gcp.vertex.agent`), versions 1 and 2.

1. `call_llm` is a call where it states a response: usage, or an answer in
   `gcp.vertex.agent.llm_response`. It names no operation.
2. Version 1 gives Gemini's own numbers: the output leaves the thoughts out. The object in
   `llm_response` proves it; from 2 on the output holds them.
3. Before 1.5 no attribute has usage: all of it is in `llm_response`.
"""

from gateway.read.view import Span
from gateway.rules.conventions.native import take_answer, take_usage
from gateway.rules.conventions.table import Convention, by_operation, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.operation import Outcome
from gateway.rules.texts import raw_answer

_CALL = "call_llm"


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Rule 1."""
    decided = by_operation(picked, span, failed=failed)
    if decided != "undecided" or span.name != _CALL:
        return decided
    return "call" if raw_answer(picked.texts.get("raw_answer")).usage else "undecided"


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rules 2 and 3."""
    answer = raw_answer(picked.texts.pop("raw_answer", None))
    if failed:
        answer.model = None
    take_usage(picked, answer.usage)
    take_answer(picked, answer)


GOOGLE_ADK = Convention(
    "gen_ai",
    own={"raw_answer": ("gcp.vertex.agent.llm_response",)},
    outcome=outcome,
    basis=inclusive,
    read_texts=read_texts,
)
