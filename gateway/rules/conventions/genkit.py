"""Genkit (`genkit-tracer`, `genkit:type`): all of a call stands in the JSON of `genkit:output`.

1. Actions of the subtypes model and embedder are calls; flows, tools and the `generate` around a
   model are steps, though their output repeats its usage.
2. The provider's answer is `raw` or `custom` in the output: usage, id and model are taken of it
   first, then of Genkit's own `usage`, whose numbers are the provider's: Anthropic's input leaves
   the cache out, Google's output the thoughts.
3. `genkit:name` is the plugin and the model that is asked for.
"""

from gateway.read.view import Span
from gateway.rules.conventions.basis import native_input, native_output
from gateway.rules.conventions.native import add_parts, add_wholes, take_answer, take_usage
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted
from gateway.rules.operation import Outcome
from gateway.rules.provider import named_provider
from gateway.rules.texts import answer_in, json_object, object_in, text_in

_CALLS = {"model": "chat", "embedder": "embeddings"}

NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("genkit:metadata:subtype",),
    "node": ("genkit:type",),
    "model": ("genkit:name",),
    "level": ("genkit:state",),
    "raw_answer": ("genkit:output",),
}


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Rule 1."""
    texts = picked.texts
    return "call" if texts.get("node") == "action" and texts.get("kind") in _CALLS else "not_a_call"


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rules 2 and 3."""
    texts = picked.texts
    texts.setdefault("operation", _CALLS.get(texts.get("kind", ""), "chat"))
    output = json_object(texts.pop("raw_answer", None))
    answer = answer_in(object_in(output, "raw", "custom"))
    take_usage(picked, answer.usage)
    usage = object_in(output, "usage")
    add_wholes(picked, usage)
    add_parts(picked, usage)
    finish_reason = text_in(output, "finishReason")
    if finish_reason is not None:
        texts.setdefault("finish_reason", finish_reason[:MAX_TEXT_CHARS])
    if failed:
        answer.model = None
    take_answer(picked, answer)
    _place_model(texts)


def _place_model(texts: dict[str, str]) -> None:
    """Rule 3."""
    name = texts.pop("model", None)
    if name is None:
        return
    plugin, slash, model = name.partition("/")
    if slash and named_provider(plugin) is not None:
        texts.setdefault("provider", plugin)
        name = model
    texts.setdefault("request_model", name)


GENKIT = Convention(
    "genkit", own=NAMES, outcome=outcome, basis=native_input, output_basis=native_output, read_texts=read_texts
)
