"""What an operation's name means: a call of a model, or a step around calls. One table,
and a rule for new names.

1. A name of `_CALLS` is a call; its well-known value (OpenTelemetry GenAI) stands beside it.
2. A name of `_STEPS`, or that speaks of an agent, a tool, a task …, is a step: it never bills,
   whatever usage it repeats.
3. A name that is a client's method (`openai.responses.create`) is that call.
4. Any other name decides nothing: what else the item carries does.
"""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

Outcome = Literal["call", "not_a_call", "undecided"]

_CALLS = {
    "chat": "chat",
    "chat.completion": "chat",
    "chat.completions": "chat",
    "chat_completion": "chat",
    "chat_completions": "chat",
    "chat_model": "chat",
    "tool_selection": "chat",  # Mastra before 1: a generation that may call tools
    "responses": "chat",
    "response": "chat",
    "create_response": "chat",
    "anthropic_messages": "chat",
    "messages": "chat",
    "converse": "chat",
    "converse_stream": "chat",
    "llm": "chat",
    "llm_call": "chat",
    "llm_request": "chat",
    "llm.call": "chat",
    "generation": "chat",
    "generate": "chat",
    "inference": "chat",
    "invoke_model": "chat",
    "realtime": "chat",
    # Azure AI Agents
    "start_thread_run": "chat",
    "get_thread_run": "chat",
    "process_thread_run": "chat",
    "submit_tool_outputs": "chat",
    # LiteLLM's own call types; its asynchronous ones begin with an a
    "completion": "chat",
    "acompletion": "chat",
    "aresponses": "chat",
    "aanthropic_messages": "chat",
    "generate_content": "generate_content",
    "generate_content_stream": "generate_content",
    "agenerate_content": "generate_content",
    "agenerate_content_stream": "generate_content",
    "text_completion": "text_completion",
    "text_completions": "text_completion",
    "text.completions": "text_completion",
    "atext_completion": "text_completion",
    "embeddings": "embeddings",
    "embedding": "embeddings",
    "aembedding": "embeddings",
    "embed": "embeddings",
    "embed_content": "embeddings",
    "image_generation": "image_generation",
    "aimage_generation": "image_generation",
    "generate_image": "image_generation",
    "image_edit": "image_generation",
    "aimage_edit": "image_generation",
    "transcription": "transcription",
    "atranscription": "transcription",
    "transcribe": "transcription",
    "speech": "speech",
    "aspeech": "speech",
    "text_to_speech": "speech",
    "rerank": "rerank",
    "arerank": "rerank",
    "moderation": "moderation",
    "amoderation": "moderation",
    "video_generation": "video_generation",
}

_STEPS = frozenset(
    {
        "chain",
        "parser",
        "prompt",
        "plan",
        "planning",
        "retrieval",
        "retriever",
        "search",
        "framework",
        "handoff",
        "guardrail",
        "evaluate",
        "evaluation",
        "evaluator",
        "fetch_response",
        "get_response",
        "cancel_response",
        "count_tokens",
        "cache",
        "span",
        "event",
    }
)
_STEP_WORD = re.compile(
    r"agent|tool|task|workflow|chain|retriev|graph|crew|pipeline|memory|guardrail|handoff|session|thread_create|create_thread|(?:^|[._ ])(?:step|chunk)s?$"
)


_METHOD = re.compile(
    r"[a-z][\w-]*\.(chat\.completions|responses|messages|embeddings)\.(?:create|parse|stream)", re.ASCII
)
"""A client's method: `openai.responses.create`."""


class Operation(NamedTuple):
    name: str
    """The well-known value; the sent one in lower case where it is not known."""
    outcome: Outcome


@lru_cache(maxsize=1024)
def operation(sent: str) -> Operation:
    """What *sent* means."""
    name = sent.strip().lower()
    if name in _CALLS:
        return Operation(_CALLS[name], "call")
    if name in _STEPS or _STEP_WORD.search(name):
        return Operation(name, "not_a_call")
    method = _METHOD.fullmatch(name)
    called = None if method is None else _CALLS.get(method[1])
    return Operation(name, "undecided") if called is None else Operation(called, "call")


def step_word(sent: str) -> str:
    """The word of this table that makes *sent* a step; "" where none does."""
    name = sent.strip().lower()
    if name in _CALLS:
        return ""
    match = _STEP_WORD.search(name)
    return name if name in _STEPS else match.group() if match else ""


def is_listed(name: str) -> bool:
    """Whether this table lists *name*, letter by letter."""
    return name in _CALLS or name in _STEPS
