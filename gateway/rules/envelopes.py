"""Whether a JSON object is a provider's answer or a request to one, by its envelope. Pure.

Libraries write into one attribute the provider's whole answer or the model's text alone, which may
be JSON too. Names such as `id`, `model` and `usage` mean nothing there: an application's own data
has them.

1. An answer has its content and its usage, or its stated type, where the provider puts them
   (`_ANSWERS`).
2. The repr of a Python object is one where its class too is known as an answer's (`_CLASSES`).
3. LangChain's LLMResult has generations with a message or text; its message has `content` beside a
   `response_metadata` that states a model or usage.
4. A request has its messages, prompt or input beside its model.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

Document = Mapping[str, Any]

_USAGES = ("usage", "usage_metadata", "usageMetadata", "token_usage")
_CHOICE = frozenset({"message", "delta", "text"})
_COMPLETIONS = ("chat.completion", "text_completion")
_BILLED = ("billed_units", "tokens")
_CLASSES = re.compile(
    r"(?:\w+\.)*(?:Parsed)?(?:Beta)?(?:ChatCompletion|ChatCompletionResponse|ChatCompletionOutput|Completion|"
    r"ModelResponse|Message|Response|GenerateContentResponse|CreateEmbeddingResponse|EmbeddingResponse|"
    r"ChatResponse|V2ChatResponse|GenerateResponse|LLMResult|AIMessage|AIMessageChunk)\(",
    re.ASCII,
)
"""Classes of the SDKs of OpenAI, Anthropic, Google, Mistral, Groq, Cohere, Ollama and Hugging Face,
of LiteLLM and of LangChain."""
_LEADING_ID = re.compile(
    r'\s*\{\s*"id"\s*:\s*"(?:(?P<anthropic>msg_\w{1,252})"\s*,\s*"(?:container|content)"|(?P<id>[\w.:-]{1,256})"\s*,\s*"'
    r'(?:choices"\s*:\s*\[\s*\{|object"\s*:\s*"(?:chat\.completion|text_completion|response)'
    r'|type"\s*:\s*"message"|created_at"\s*:\s*\d{10}))',
    re.ASCII,
)
"""The beginning of an answer that is too long to be read: its id, and what follows it there."""


def is_answer(document: Document) -> bool:
    """Rule 1."""
    return any(fits(document) for fits in _ANSWERS)


def is_langchain_result(document: Document) -> bool:
    """Rule 3, of an LLMResult: a list of lists of generations, or one list of them."""
    found = document.get("generations")
    while isinstance(found, list) and found:
        found = found[0]
    return isinstance(found, dict) and (isinstance(found.get("message"), dict) or "generation_info" in found)


def is_langchain_message(document: Document) -> bool:
    """Rule 3, of one message."""
    metadata = document.get("response_metadata")
    return (
        "content" in document
        and isinstance(metadata, dict)
        and ("model_name" in metadata or "model" in metadata or _has_usage(metadata))
    )


def is_answers_repr(text: str) -> bool:
    """Rule 2, of the class alone."""
    return _CLASSES.match(text) is not None


def is_request(document: Document) -> bool:
    """Rule 4."""
    if not isinstance(document.get("model"), str):
        return False
    return any(isinstance(document.get(name), list) for name in ("messages", "contents", "input", "prompt")) or any(
        isinstance(document.get(name), str) for name in ("input", "prompt")
    )


def leading_id(text: str) -> str | None:
    """The id at the beginning of an answer of OpenAI's or Anthropic's; None for another text."""
    match = _LEADING_ID.match(text)
    return match["anthropic"] or match["id"] if match else None


def _has_usage(document: Document) -> bool:
    """Whether an object of usage states a number of tokens."""
    for name in _USAGES:
        usage = document.get(name)
        if isinstance(usage, dict) and any("token" in key.lower() and _is_count(usage.get(key)) for key in usage):
            return True
    return False


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _objects(value: object) -> bool:
    """Whether *value* is a list of objects that is not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _is_chat(document: Document) -> bool:
    choices = document.get("choices")
    if not isinstance(choices, list) or not all(isinstance(x, dict) and not _CHOICE.isdisjoint(x) for x in choices):
        return False
    stated = document.get("object")
    return (isinstance(stated, str) and stated.startswith(_COMPLETIONS)) or (bool(choices) and _has_usage(document))


def _is_response(document: Document) -> bool:
    return document.get("object") == "response" and isinstance(document.get("output"), list)


def _is_embedding(document: Document) -> bool:
    return document.get("object") == "list" and _objects(document.get("data")) and _has_usage(document)


def _is_anthropic(document: Document) -> bool:
    return document.get("type") == "message" and isinstance(document.get("content"), list) and _has_usage(document)


def _is_gemini(document: Document) -> bool:
    return _objects(document.get("candidates")) and _has_usage(document)


def _is_bedrock(document: Document) -> bool:
    output = document.get("output")
    return (
        isinstance(output, dict)
        and isinstance(output.get("message"), dict)
        and ("stopReason" in document or "metrics" in document)
        and _has_usage(document)
    )


def _is_cohere(document: Document) -> bool:
    beside = document.get("meta") if "generation_id" in document else document.get("usage")
    return (
        isinstance(beside, dict)
        and any(isinstance(beside.get(name), dict) for name in _BILLED)
        and ("generation_id" in document or isinstance(document.get("message"), dict))
    )


def _is_ollama(document: Document) -> bool:
    return (
        isinstance(document.get("done"), bool)
        and "created_at" in document
        and (isinstance(document.get("message"), dict) or isinstance(document.get("response"), str))
    )


def _is_langsmith(document: Document) -> bool:
    """What LangSmith documents for a model of one's own: usage beside its messages."""
    usage = document.get("usage_metadata")
    return (
        isinstance(usage, dict)
        and _is_count(usage.get("input_tokens"))
        and _is_count(usage.get("output_tokens"))
        and (_objects(document.get("messages")) or ("role" in document and "content" in document))
    )


_ANSWERS: tuple[Callable[[Document], bool], ...] = (
    _is_chat,
    _is_response,
    _is_anthropic,
    _is_gemini,
    _is_embedding,
    _is_bedrock,
    _is_cohere,
    _is_ollama,
    _is_langsmith,
)
