"""Which convention reads a span. Precedence:

1. The instrumentation scope's name, by `SCOPES` (exact) and `SCOPE_PREFIXES` (first that fits).
2. Else an attribute that only one convention writes, by `_MARKS`; the smallest number wins.
3. Else usage in a map or a JSON text under one name, and none under names of
   its own: the generic table.
4. Else any `gen_ai.` name that is not content: OpenTelemetry GenAI.
5. Else names that look like usage: the generic table.
6. Else an input and an output under one path, or a name that states the span's kind: the generic
   table, for any path.
7. Else a `gen_ai.` name of content (`gen_ai.prompt`): OpenTelemetry GenAI.
8. Else the span is no AI usage.
"""

from collections.abc import Collection
from typing import Final

from gateway.rules.conventions import gateways, generic, openllmetry
from gateway.rules.conventions.claude_code import CLAUDE_CODE
from gateway.rules.conventions.codex import CODEX
from gateway.rules.conventions.gen_ai import (
    ANTHROPIC_SDK,
    COPILOT,
    GEMINI_CLI,
    GEN_AI,
    GEN_AI_BOTOCORE,
    GEN_AI_INCLUSIVE,
    GOOSE,
    QWEN_CODE,
    SPRING_AI,
    STRANDS,
)
from gateway.rules.conventions.genkit import GENKIT
from gateway.rules.conventions.google_adk import GOOGLE_ADK
from gateway.rules.conventions.langfuse import LANGFUSE
from gateway.rules.conventions.langsmith import LANGSMITH
from gateway.rules.conventions.langtrace import LANGTRACE_GROQ, LANGTRACE_OLLAMA
from gateway.rules.conventions.litellm import LITELLM
from gateway.rules.conventions.logfire import LOGFIRE
from gateway.rules.conventions.logfire import SCOPES as LOGFIRE_SCOPES
from gateway.rules.conventions.mlflow import MLFLOW
from gateway.rules.conventions.openinference import (
    OPENINFERENCE,
    OPENINFERENCE_AGNO,
    OPENINFERENCE_ANTHROPIC,
    OPENINFERENCE_BEDROCK,
    OPENINFERENCE_BEDROCK_JS,
    OPENINFERENCE_CLAUDE_AGENT_SDK,
)
from gateway.rules.conventions.openlit import is_openlit, openlit
from gateway.rules.conventions.table import Convention
from gateway.rules.conventions.vercel_ai import VERCEL_AI
from gateway.rules.kinds import marks_kind

SCOPES: dict[str, Convention] = {
    "com.anthropic.sdk.python": ANTHROPIC_SDK,
    "opentelemetry.util.genai.handler": GEN_AI_INCLUSIVE,
    "opentelemetry.instrumentation.openai_v2": GEN_AI_INCLUSIVE,
    "opentelemetry.instrumentation.google_genai": GEN_AI_INCLUSIVE,
    "opentelemetry.instrumentation.openai_agents": GEN_AI_INCLUSIVE,
    "@opentelemetry/instrumentation-openai": GEN_AI_INCLUSIVE,
    "opentelemetry.instrumentation.botocore.bedrock-runtime": GEN_AI_BOTOCORE,
    "gcp.vertex.agent": GOOGLE_ADK,
    "strands.telemetry.tracer": STRANDS,
    "org.springframework.boot": SPRING_AI,
    "pydantic-ai": GEN_AI_INCLUSIVE,
    "openinference.instrumentation.anthropic": OPENINFERENCE_ANTHROPIC,
    "openinference.instrumentation.agno": OPENINFERENCE_AGNO,
    "openinference.instrumentation.bedrock": OPENINFERENCE_BEDROCK,
    "openinference.instrumentation.claude_agent_sdk": OPENINFERENCE_CLAUDE_AGENT_SDK,
    # OpenLLMetry's Python packages use the name space of OpenTelemetry's own
    "opentelemetry.instrumentation.openai.v0": openllmetry.OPENLLMETRY,
    "opentelemetry.instrumentation.openai.v1": openllmetry.OPENLLMETRY,
    "opentelemetry.instrumentation.anthropic": openllmetry.OPENLLMETRY,
    "opentelemetry.instrumentation.langchain": openllmetry.OPENLLMETRY,
    "opentelemetry.instrumentation.bedrock": openllmetry.OPENLLMETRY_NATIVE,
    "opentelemetry.instrumentation.cohere": openllmetry.OPENLLMETRY_UNSTATED,
    "opentelemetry.instrumentation.google_generativeai": openllmetry.OPENLLMETRY_NATIVE,
    "opentelemetry.instrumentation.groq": openllmetry.OPENLLMETRY,
    "opentelemetry.instrumentation.llamaindex": openllmetry.OPENLLMETRY_UNSTATED,
    "opentelemetry.instrumentation.mistralai": openllmetry.OPENLLMETRY,
    "opentelemetry.instrumentation.ollama": openllmetry.OPENLLMETRY,
    "opentelemetry.instrumentation.vertexai": openllmetry.OPENLLMETRY_NATIVE,
    "@traceloop/instrumentation-anthropic": openllmetry.OPENLLMETRY_JS_ANTHROPIC,
    "@traceloop/instrumentation-openai": openllmetry.OPENLLMETRY_JS_OPENAI,
    "ai": VERCEL_AI,
    "genkit-tracer": GENKIT,
    "litellm": LITELLM,
    "langsmith": LANGSMITH,
    "langfuse-sdk": LANGFUSE,
    "langtrace_python_sdk.instrumentation.groq.instrumentation": LANGTRACE_GROQ,
    "langtrace_python_sdk.instrumentation.ollama.instrumentation": LANGTRACE_OLLAMA,
    "mlflow.tracing.provider": MLFLOW,
    "bifrost": gateways.BIFROST,
    "cloudflare-ai-gateway": gateways.CLOUDFLARE,
    "agentgateway": gateways.AGENTGATEWAY,
    "envoyproxy/ai-gateway": gateways.ENVOY,
    "custom.genai.instrumentation": gateways.PORTKEY,
    "codex_exec": CODEX,
    "gemini-cli": GEMINI_CLI,
    "qwen-code": QWEN_CODE,
    "github.copilot": COPILOT,
    "copilot-chat": COPILOT,
    "goose": GOOSE,
    **dict.fromkeys(LOGFIRE_SCOPES, LOGFIRE),
}

SCOPE_PREFIXES: tuple[tuple[str, Convention], ...] = (
    ("openinference.instrumentation.", OPENINFERENCE),
    ("@arizeai/openinference-instrumentation-bedrock", OPENINFERENCE_BEDROCK_JS),
    ("@arizeai/openinference-", OPENINFERENCE),
    ("@traceloop/", openllmetry.OPENLLMETRY_JS),
    ("traceloop.", openllmetry.OPENLLMETRY_UNSTATED),
    ("langfuse", LANGFUSE),
    ("codex", CODEX),
    ("com.anthropic.claude_code", CLAUDE_CODE),
)

NOT_AI: Final = 99

_MARKS: tuple[tuple[str, Convention], ...] = (
    ("openinference.span.kind", OPENINFERENCE),
    ("ai.operationId", VERCEL_AI),
    ("genkit:type", GENKIT),
    ("langfuse.observation.type", LANGFUSE),
    ("langfuse.observation.usage_details", LANGFUSE),
    ("langsmith.span.kind", LANGSMITH),
    ("mlflow.spanType", MLFLOW),
    ("litellm.call_id", LITELLM),
    ("openrouter.provider_slug", gateways.OPENROUTER),
    ("trace.metadata.openrouter.provider_slug", gateways.OPENROUTER),
    ("trace.metadata.openrouter.provider_name", gateways.OPENROUTER),
    ("trace.metadata.openrouter.entity_id", gateways.OPENROUTER),
    ("vercel.ai_gateway.request.id", gateways.VERCEL),
    ("vercel.ai_gateway.generation.id", gateways.VERCEL),
    ("vercel.ai_gateway.provider", gateways.VERCEL),
    ("vercel.ai_gateway.attempt.id", gateways.VERCEL),
    ("vercel.ai_gateway.attempt.number", gateways.VERCEL),
    ("vercel.ai_gateway.model_attempt.index", gateways.VERCEL),
    ("gen_ai.model.provider", gateways.CLOUDFLARE),
    ("traceloop.span.kind", openllmetry.OPENLLMETRY_UNSTATED),
    ("llm.request.type", openllmetry.OPENLLMETRY_UNSTATED),
)
_NESTED: Final = len(_MARKS)
_GEN_AI: Final = _NESTED + 1
_GENERIC: Final = _GEN_AI + 1
_KIND: Final = _GENERIC + 1
_CONTENT: Final = _KIND + 1
_PAIR: Final = _CONTENT + 1
MARKED: tuple[Convention, ...] = (
    *(convention for _, convention in _MARKS),
    generic.GENERIC,
    GEN_AI,
    generic.GENERIC,
    generic.ANYWHERE,
    GEN_AI,
    generic.ANYWHERE,
)
_CONTENTS: Final = (
    "gen_ai.prompt", "gen_ai.completion", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
)  # fmt: skip
"""Names that any library writes content under, whatever names it has for the rest."""
_OWN_NAMES = ("gen_ai.usage.", "llm.usage.", "llm.token_count.")
_MAX_NAMES = 8192
_MAX_NAME_CHARS = 128
_PLAIN: set[str] = set()
"""Names seen that are no marks: most spans of other libraries are
distinguished by one set operation."""


def _mark(name: str) -> int:
    """What an unknown name is a mark of."""
    if name.startswith("gen_ai."):
        return _CONTENT if name in _CONTENTS else _GEN_AI
    if generic.is_usage(name) or name.startswith(("llm.token_count.", "llm.usage.")):
        return _GENERIC
    if marks_kind(name):
        return _KIND
    return NOT_AI if generic.pair_of(name) is None else _PAIR


class _Marks(dict[str, int]):
    """Attribute name -> what it is a mark of, NOT_AI for most; decided once a name,
    remembered within bounds.
    """

    def __missing__(self, name: str) -> int:
        mark = _KNOWN_MARKS.get(name, _mark(name))
        if len(self) >= _MAX_NAMES:
            self.clear()
            self.update(_KNOWN_MARKS)
            _PLAIN.clear()
        if len(name) <= _MAX_NAME_CHARS:
            self[name] = mark
            if mark == NOT_AI:
                _PLAIN.add(name)
        return mark


_KNOWN_MARKS = {name: number for number, (name, _) in enumerate(_MARKS)} | dict.fromkeys(generic.NESTED, _NESTED)
_marks = _Marks(_KNOWN_MARKS)


def by_scope(name: str) -> Convention | None:
    """Precedence 1; None where the scope's name is of no convention."""
    convention = SCOPES.get(name)
    if convention is not None:
        return convention
    for prefix, named in SCOPE_PREFIXES:
        if name.startswith(prefix):
            return named
    return openlit(name) if is_openlit(name) else None


def by_names(names: tuple[str, ...]) -> Convention | None:
    """Precedence 2 to 8, from a span's attribute names; None for a span that is no AI usage."""
    if _PLAIN.issuperset(names):
        return None
    found = min(map(_marks.__getitem__, names), default=NOT_AI)
    if found == _NESTED:
        found = _marks[mark_of(names)]
    if _GENERIC < found < NOT_AI and generic.are_paired(names):
        return generic.ANYWHERE
    if found == _PAIR:
        return None
    return None if found == NOT_AI else MARKED[found]


def speak_of_ai(names: Collection[str]) -> bool:
    """Whether a log's names are of usage or content of AI. What a span's names may state by their
    kind, or by an input and an output under any path, is the business of an application in a log.
    """
    return not _PLAIN.issuperset(names) and any(
        mark <= _GENERIC or mark == _CONTENT for mark in map(_marks.__getitem__, names)
    )


def mark_of(names: tuple[str, ...]) -> str:
    """The name that `by_names` goes by; there must be one."""
    first = min(names, key=_marks.__getitem__)
    if _marks[first] == _NESTED and any(name.startswith(_OWN_NAMES) for name in names):
        return min((name for name in names if _marks[name] != _NESTED), key=_marks.__getitem__)
    return first
