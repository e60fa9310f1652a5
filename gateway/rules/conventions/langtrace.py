"""Langtrace for Python (`langtrace_python_sdk.instrumentation.<library>.instrumentation`): GenAI
names. Of streams some of its instrumentations count the tokens themselves:

1. Groq's always: the words of the answer's chunks. The usage that Groq states is not read.
2. Ollama's, where its client returns objects: then the input is 0 beside a counted output.

Those of OpenAI, LiteLLM and Vertex AI count where the stream states no usage. Nothing on the span
shows it.
"""

from gateway.rules.conventions.table import Convention
from gateway.rules.extract import Extracted


def _groq(picked: Extracted, _provider: str | None) -> bool:
    """Rule 1."""
    return bool(picked.numbers.get("stream"))


def _ollama(picked: Extracted, _provider: str | None) -> bool:
    """Rule 2."""
    return bool(picked.numbers.get("stream")) and not picked.counts.get("input")


LANGTRACE_GROQ = Convention("gen_ai", own={}, estimates=_groq)
LANGTRACE_OLLAMA = Convention("gen_ai", own={}, estimates=_ollama)
