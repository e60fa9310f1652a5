"""Spans that look like AI work and are no calls: where nothing else reports the calls, their sender
lacks an instrumentation. Pure, bounded.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from gateway.rules.call import AiSpans, Normalised
from gateway.rules.record import title

_SCOPES: Final = (
    "crewai", "autogen", "ag2", "agent_framework", "semantic_kernel", "Microsoft.SemanticKernel", "Microsoft.Agents",
    "langgraph", "langchain", "llama_index", "haystack", "smolagents", "strands", "openai-agents", "openai_agents", "dspy",
    "agno", "letta", "camel", "metagpt", "google.adk", "google_adk", "beeai", "mastra", "@mastra/", "genkit",
)  # fmt: skip
"""Beginnings of the scopes of agent frameworks whose own spans have no names of a convention."""
_NAME = re.compile(r"(gen_?ai|llm|crew|crewai|autogen|langchain|langgraph|llama_?index|agent)[._]", re.IGNORECASE)
_WITHOUT_MODEL = re.compile(r"tool|retriev|mcp|memory|vector|search|guardrail", re.IGNORECASE)
"""Steps that a service may well report without ever calling a model."""
_MAX_NAMES: Final = 8192
_MAX_NAME_CHARS: Final = 128
MAX_TRACES: Final = 16
"""Of one source and payload, as samples."""


_PLAIN: set[str] = set()
"""Names seen that look like nothing: most spans are known by one set operation."""


class _Looks(dict[str, bool]):
    """Attribute name -> whether it looks like AI; remembered within bounds."""

    def __missing__(self, name: str) -> bool:
        looks = _NAME.match(name) is not None
        if len(self) >= _MAX_NAMES:
            self.clear()
            _PLAIN.clear()
        if len(name) <= _MAX_NAME_CHARS:
            self[name] = looks
            if not looks:
                _PLAIN.add(name)
        return looks


_looks = _Looks()


def is_ai_scope(name: str) -> bool:
    return name.startswith(_SCOPES)


def look_like_ai(names: Collection[str]) -> bool:
    """Whether one of a span's attributes does, of a span that no convention reads."""
    return not _PLAIN.issuperset(names) and any(_looks[name] for name in names)


def needs_model(texts: Mapping[str, str]) -> bool:
    """Whether a step is one around calls of models, by its operation or kind."""
    return not any(_WITHOUT_MODEL.search(texts.get(field, "")) for field in ("operation", "kind", "step_kind"))


def note_ai_span(out: Normalised, service: str | None, scope: str, trace_id: bytes) -> None:
    """Count one span of *scope*; a scope that is no name is left unnamed."""
    key = service, title(scope) or ""
    found = out.ai_spans.get(key)
    if found is None:
        found = out.ai_spans[key] = AiSpans()
    found.n += 1
    if len(found.traces) < MAX_TRACES:
        found.traces.add(trace_id)


def packed(found: Normalised) -> list[tuple[str | None, str, int, list[bytes]]]:
    """In plain types: service, scope, spans, and traces of some of them."""
    return [(*source, spans.n, sorted(spans.traces)) for source, spans in found.ai_spans.items()]
