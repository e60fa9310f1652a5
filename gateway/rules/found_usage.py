"""Calls that a span of an unknown scope states in its events or in a text, where its attributes
have no names of any convention. Pure, bounded.

1. Attributes of an event are read by the generic table: `response.raw.usage.prompt_tokens`. An
   event with input and output makes the span a call. Of several with the same input, as a stream
   reports them, the one with the most output counts.
2. Attributes that are a provider's answer piece by piece (`response.raw.id`, `.model`, `.choices`)
   state its id and the model that answered, with usage or without.
3. A text under a name that speaks of an answer is read by its shape
   (`conventions/shapes.py`), on spans that speak of nothing else than AI.
4. Monocle's entities state provider and model: `entity.1.type = inference.openai`,
   `entity.2.type = model.llm.gpt-4o`. A failed inference is a call.
5. A failed span is one too where an event that is named for a model's call states its model.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final

from gateway.read.view import Attributes, Event, HasAttributesAndEvents
from gateway.rules.conventions.generic import GENERIC
from gateway.rules.conventions.native import FIELD_OF_WORD, add_parts, take_answer, take_usage
from gateway.rules.conventions.shapes import answer_by_shape
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted, pick

FOUND: Final = Convention("shape", own={}, is_generic=True)
"""What is read here; its calls carry `unknown_convention`."""

_INTERESTS: Final = GENERIC.interests()
_MAX_EVENTS: Final = 64
_MAX_TEXTS: Final = 8
_ANSWER: Final = re.compile(
    r"(?:^|[._-])(?:outputs?|output[_-]?data|output[_-]?value|responses?|results?|completions?|repl(?:y|ies)|answers?|"
    r"generations?|usage)$",
    re.IGNORECASE,
)
_OTHER: Final = (
    "http.",
    "url.",
    "db.",
    "rpc.",
    "messaging.",
    "faas.",
    "aws.s3.",
    "graphql.",
    "net.",
    "server.",
    "tool.",
)
"""Beginnings of names on spans of other work, whose texts may be anything."""
_CALLED: Final = re.compile(r"llm|chat|completion|inference|generat", re.IGNORECASE)
_ENTITY: Final = re.compile(r"entity\.\d{1,2}\.type")
_PIECES: Final = (".id", ".model")
_CONTENTS: Final = (".choices", ".content", ".candidates", ".output", ".message")
_MODEL_NAMES: Final = frozenset({"model", "model_name", "modelname", "model_id", "modelid"})
_MAX_NAMES: Final = 1_024


@lru_cache(maxsize=512)
def texts_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Rule 3: which of *names* may hold an answer, of a span's attributes; none on spans of other
    work.
    """
    if len(names) > _MAX_NAMES or any(name.startswith(_OTHER) for name in names):
        return ()
    return tuple(name for name in names if _ANSWER.search(name) is not None)[:_MAX_TEXTS]


@lru_cache(maxsize=512)
def entities_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Rule 4: the names that state what an entity is."""
    return tuple(name for name in names if _ENTITY.fullmatch(name) is not None)


def find_usage(span: HasAttributesAndEvents, names: tuple[str, ...], *, failed: bool) -> Extracted | None:
    """The call that *span* states, by the rules of this module; None where it states none."""
    picked = Extracted()
    is_call = _read_events(picked, span, failed=failed)
    if not is_call:
        is_call = any(_take_text(picked, span.attributes[name].string_value) for name in texts_of(names))
    entities = entities_of(names)
    if entities:
        is_inference = _read_entities(picked, span.attributes, entities)
        is_call = is_call or (failed and is_inference)
    return picked if is_call else None


def _read_events(picked: Extracted, span: HasAttributesAndEvents, *, failed: bool) -> bool:
    """Rules 1, 2 and 5."""
    is_call = False
    for event in _first_events(span):
        attributes = event.attributes
        names = tuple(attributes)
        if len(names) > _MAX_NAMES:
            continue
        found = pick(attributes, names, _INTERESTS)
        is_answer = _read_answer(found, attributes, names)
        has_usage = "input" in found.counts and "output" in found.counts
        if has_usage:
            add_parts(found, {name: attributes[name].int_value for name in names if name in FIELD_OF_WORD})
        is_named = _CALLED.search(event.name) is not None
        if is_named or is_answer or has_usage:
            _read_model(found, attributes, names)
            picked.complete(found)
        if has_usage and is_further(found.counts, picked.counts):
            picked.counts.update(found.counts)
        is_call = is_call or has_usage or is_answer or (failed and is_named and "request_model" in found.texts)
    return is_call


def is_further(counts: Mapping[str, int], before: Mapping[str, int]) -> bool:
    """Whether *counts*, input and output of an event, are the first, or those of a stream that has
    come further than *before*: of the same input, with more output.
    """
    if "input" not in before:
        return True
    return counts["input"] == before["input"] and counts["output"] > before.get("output", 0)


def _first_events(span: HasAttributesAndEvents) -> Iterator[Event]:
    for number, event in enumerate(span.events):
        if number == _MAX_EVENTS:
            return
        yield event


def _read_answer(found: Extracted, attributes: Attributes, names: Collection[str]) -> bool:
    """Rule 2: whether a prefix of *names* is a provider's answer; what it states of itself."""
    for name in names:
        if not name.endswith(".model"):
            continue
        prefix = name.removesuffix(".model")
        if all(prefix + piece in names for piece in _PIECES) and any(prefix + piece in names for piece in _CONTENTS):
            found.texts["response_model"] = attributes[name].string_value[:MAX_TEXT_CHARS]
            found.texts["response_id"] = attributes[prefix + ".id"].string_value[:MAX_TEXT_CHARS]
            return True
    return False


def _read_model(found: Extracted, attributes: Attributes, names: Collection[str]) -> None:
    """The model that a request's settings name."""
    if "request_model" in found.texts or "response_model" in found.texts:
        return
    for name in names:
        if name.rpartition(".")[2].lower() in _MODEL_NAMES and attributes[name].string_value:
            found.texts["request_model"] = attributes[name].string_value[:MAX_TEXT_CHARS]
            return


def _take_text(picked: Extracted, text: str) -> bool:
    """Rule 3."""
    answer = answer_by_shape(text)
    if answer is None:
        return False
    take_usage(picked, answer.usage)
    if answer.model is not None:
        picked.texts["model"], answer.model = answer.model, None
    take_answer(picked, answer)
    return True


def _read_entities(picked: Extracted, attributes: Attributes, entities: Collection[str]) -> bool:
    """Rule 4: whether one of *entities* is an inference."""
    is_inference = False
    for name in entities:
        kind, _, rest = attributes[name].string_value[:MAX_TEXT_CHARS].partition(".")
        if kind == "inference":
            is_inference = True
            picked.texts.setdefault("provider", rest)
        elif kind == "model":
            picked.texts.setdefault("request_model", rest.partition(".")[2])
    return is_inference
