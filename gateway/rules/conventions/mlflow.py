"""MLflow tracing: `mlflow.spanType`, values in JSON quotes, usage as JSON text; or GenAI names
where that is switched on.

1. Types CHAT_MODEL, LLM and EMBEDDING are calls; every other type is a step. Without a
   type the GenAI rule holds.
2. `mlflow.chat.tokenUsage` is inclusive; reasoning, response id and finish
   reason are in `mlflow.spanOutputs`, and so is the usage of embeddings.
3. The request's model is `model`; `mlflow.llm.model` and, with GenAI names,
   `gen_ai.request.model` may hold the response's.
"""

from gateway.common.operations import is_wanted
from gateway.read.view import Span
from gateway.rules.conventions.native import add_parts, add_wholes, believed_answer, take_answer
from gateway.rules.conventions.shapes import take_stated
from gateway.rules.conventions.table import Convention, by_operation, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.operation import Outcome
from gateway.rules.texts import json_object, requested_model, unquoted

_CALLS = frozenset({"CHAT_MODEL", "LLM", "EMBEDDING"})

NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("mlflow.spanType",),
    "provider": ("gen_ai.provider.name", "mlflow.llm.provider", "gen_ai.system"),
    "model": ("mlflow.llm.model",),
    "request_model": ("model", "gen_ai.request.model"),
    "raw_usage": ("mlflow.chat.tokenUsage",),
    "raw_cost": ("mlflow.llm.cost",),
    "raw_answer": ("mlflow.spanOutputs",),
    "raw_input": ("mlflow.spanInputs",),
    "stream": ("gen_ai.request.stream", "stream"),
    "user": ("user.id", "mlflow.trace.user", "user"),
    "session": ("session.id", "mlflow.trace.session"),
}


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Rule 1."""
    kind = picked.texts.get("kind")
    if kind is None:
        return by_operation(picked, span, failed=failed)
    return "call" if unquoted(kind).upper() in _CALLS else "not_a_call"


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rules 2 and 3."""
    texts = picked.texts
    for values in (texts, picked.who):
        for field, quoted in values.items():
            if not field.startswith("raw_"):
                values[field] = unquoted(quoted)
    usage = json_object(texts.pop("raw_usage", None))
    add_wholes(picked, usage)
    add_parts(picked, usage)
    text = texts.pop("raw_answer", None)
    take_answer(picked, believed_answer(picked, text, failed=failed))
    if not failed:
        take_stated(picked, text, is_embedding=texts.get("kind", "").upper() == "EMBEDDING")
    sent_input = texts.pop("raw_input", None)
    if is_wanted(texts, "request_model"):
        requested = requested_model(sent_input)
        if requested is not None:
            texts.setdefault("request_model", requested[:256])
    cost = json_object(texts.pop("raw_cost", None)).get("total_cost")
    if isinstance(cost, int | float) and not isinstance(cost, bool):
        picked.numbers.setdefault("cost", float(cost))
    if texts.get("kind", "").upper() == "EMBEDDING":
        texts.setdefault("operation", "embeddings")


MLFLOW = Convention("mlflow", own=NAMES, outcome=outcome, basis=inclusive, read_texts=read_texts)
