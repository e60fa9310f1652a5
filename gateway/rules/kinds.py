"""What a span states of its own kind, under names of a library's own: `acme.span.type = llm`.
Pure.

1. A name that ends like `span_type`, `span.kind` or `observation.type` states the kind. The names
   `span.kind`, `span.type` and `otel.…` do not: they state a direction, or a protocol.
2. The words of a call of a model are those of `_CALLS`. The words of a step are those of
   `gateway.rules.operation`. Any other word (`span`, `default`, `function`) decides nothing.
"""

import re
from functools import lru_cache
from typing import Final

from gateway.rules.operation import Outcome, operation

KIND: Final = "stated_kind"
"""Field of the kind's word."""

_NAME: Final = re.compile(r"(?:^|[._])(?:span|observation|event|run)[._]?(?:kind|type)$", re.ASCII | re.IGNORECASE)
_MARK: Final = re.compile(r"(?:^|[._])(?:span|observation)[._]?(?:kind|type)$", re.ASCII | re.IGNORECASE)
_OTHERS: Final = frozenset({"span.kind", "span.type", "event.type", "event.kind", "event_type", "run.type", "run_type"})
_OTHER_PLACES: Final = ("otel.", "db.", "http.", "messaging.", "cloudevents.", "faas.", "elastic", "dd.", "_dd.")
_LLM: Final = frozenset({"llm", "llm_call", "chat_model", "generation", "embedding", "embeddings"})
_CALLS: Final = _LLM | {"model", "chat", "completion", "inference"}
"""Of these `_LLM` mean nothing else."""
_EMBEDDINGS: Final = frozenset({"embedding", "embeddings"})
_NOTHING: Final = frozenset({"span", "event", "search", "cache"})
_MAX_NAME_CHARS: Final = 128


def states_kind(name: str) -> bool:
    """Rule 1."""
    return (
        len(name) <= _MAX_NAME_CHARS
        and name.lower() not in _OTHERS
        and not name.startswith(_OTHER_PLACES)
        and _NAME.search(name) is not None
    )


def marks_kind(name: str) -> bool:
    """Whether the name alone makes a span worth reading: events have types of many meanings."""
    return states_kind(name) and _MARK.search(name) is not None


@lru_cache(maxsize=1024)
def by_kind(sent: str) -> Outcome:
    """Rule 2; of an enumeration's member (`Kind.TOOL`) the last word counts."""
    word = _word(sent)
    if word in _CALLS:
        return "call"
    return "undecided" if word in _NOTHING or operation(word).outcome != "not_a_call" else "not_a_call"


def are_embeddings(sent: str) -> bool:
    """Whether the word is that of a call for embeddings."""
    return _word(sent) in _EMBEDDINGS


def is_llm(sent: str) -> bool:
    """Whether the word means a call of a language or embedding model, and nothing else."""
    return _word(sent) in _LLM


def _word(sent: str) -> str:
    return sent.strip().rpartition(".")[2].lower()
