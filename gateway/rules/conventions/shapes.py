"""Usage that is found by its shape, in a text of which nothing else is known: JSON, printed
objects, and either inside the other. Pure, bounded, never raising.

1. A word that providers or frameworks use for a count of tokens, followed by `:` or `=` and a whole
   number, is such a count, whatever quotes and escapes are around it. Counts that are close to each
   other are one object.
2. The text states one call if all its objects that have an input and an output state the same two.
   Several different ones may be a history, or several calls: nothing is taken.
3. One object proves itself by a total that adds up, or by a part of its wholes. Several that agree
   prove each other.
4. The model and the response's id are those next to the object, if they have the form of one.

Nothing else comes out of a text: counts, a model's name, an id.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gateway.common.operations import inside_text, is_wanted
from gateway.rules.conventions.native import FIELD_OF_WORD, agrees, take_answer, take_usage
from gateway.rules.extract import Extracted
from gateway.rules.model_names import is_snapshot
from gateway.rules.provider import model_provider
from gateway.rules.texts import MAX_JSON_BYTES, Answer, Json, object_in, text_in

_MARK: Final = "oken"
"""Every word of a count has it."""
_COUNT: Final = re.compile(
    r"(?<!\w)(\w{6,40})(?:\\{0,8}[\"'])?\s{0,4}[:=]\s{0,4}(?:\\{0,8}[\"'])?(\d{1,13})(?![\w.])", re.ASCII
)
_MODEL: Final = re.compile(
    r"(?<!\w)(?:model|model_name|modelName|model_version|modelVersion|model_id)(?:\\{0,8}[\"'])?\s{0,4}[:=]\s{0,4}"
    r"\\{0,8}[\"']([A-Za-z][\w.:/@-]{2,80})\\{0,8}[\"']",
    re.ASCII,
)
_ID: Final = re.compile(
    r"(?<!\w)id(?:\\{0,8}[\"'])?\s{0,4}[:=]\s{0,4}\\{0,8}[\"']((?:chatcmpl|cmpl|msg|resp|gen)[-_][\w-]{6,80})\\{0,8}[\"']",
    re.ASCII,
)
_NEXT_CHARS: Final = 600
"""Between two counts of one object, and from it to its model and id on either side."""
_BEFORE_CHARS: Final = 4_000
"""From the model and id to an object: the answer's content is between them."""
_MAX_OBJECTS: Final = 64
_WHOLES: Final = ("input", "output")


class Found(NamedTuple):
    """One object of usage: the words as they are in the text, and where it is."""

    counts: dict[str, int]
    """By word."""
    fields: dict[str, int]
    begin: int
    end: int


@inside_text
def usage_by_shape(text: str | None) -> Mapping[str, Json]:
    """The one call that *text* states, as an answer's object: `usage`, `model`, `id`. Empty where
    it states none, or several.
    """
    if text is None or len(text) > MAX_JSON_BYTES or _MARK not in text:
        return {}
    whole = [found for found in _objects(text) if all(name in found.fields for name in _WHOLES)]
    if len({tuple(found.fields[name] for name in _WHOLES) for found in whole}) != 1:
        return {}
    best = max(whole, key=lambda found: len(found.counts))
    if len(whole) == 1 and not _proves_itself(best.fields):
        return {}
    model, response_id = _named(text, best)
    return {"usage": _as_object(best.counts), "model": model, "id": response_id}


def answer_by_shape(text: str | None) -> Answer | None:
    """The same as an answer."""
    found = usage_by_shape(text)
    if not found:
        return None
    answer = Answer()
    answer.usage = object_in(found, "usage")
    answer.model, answer.response_id = text_in(found, "model"), text_in(found, "id")
    return answer


def take_stated(picked: Extracted, text: str | None, *, is_embedding: bool) -> None:
    """Take the usage that the answer in *text* states of a call whose attributes have neither input
    nor output; where they have a total, one that adds up to it.
    """
    counts = picked.counts
    if not is_wanted(counts, "input") or not is_wanted(counts, "output"):
        return
    found = _embedded(text) if is_embedding else answer_by_shape(text)
    if found is None:
        return
    stated, taken = counts.get("total"), Extracted()
    take_usage(taken, found.usage)
    own = taken.counts
    if "input" in counts or "output" in counts:  # an explanation: both places are noted
        for field in _WHOLES:
            if field in counts and field in own:
                counts.setdefault(field, own[field])
    elif stated is None or stated == own.get("total", own.get("input", 0) + own.get("output", 0)):
        take_usage(picked, found.usage)
        take_answer(picked, found)


@inside_text
def _embedding_by_shape(text: str | None) -> Mapping[str, Json]:
    """The one usage without an output that *text* states: of embeddings, proved by its total."""
    if text is None or len(text) > MAX_JSON_BYTES or _MARK not in text:
        return {}
    found = [x for x in _objects(text) if x.fields.get("input") and x.fields.get("input") == x.fields.get("total")]
    if len({x.fields["input"] for x in found}) != 1 or any("output" in x.fields for x in found):
        return {}
    return {"usage": _as_object(found[0].counts), "model": _named(text, found[0])[0]}


def _embedded(text: str | None) -> Answer | None:
    found = _embedding_by_shape(text)
    if not found:
        return None
    answer = Answer()
    answer.usage, answer.model = object_in(found, "usage"), text_in(found, "model")
    return answer


def agreeing_answer(picked: Extracted, text: str | None) -> Answer | None:
    """What *text* states of the call whose wholes *picked* has; None where it states none, or one
    with other wholes. A model is only taken with the date of its version.
    """
    answer = None if "input" not in picked.counts else answer_by_shape(text)
    if answer is None or not agrees(picked, answer.usage):
        return None
    if answer.model is not None and not is_snapshot(answer.model):
        answer.model = None
    return answer


def answers_by_shape(text: str) -> Iterator[tuple[int, int, str | None, str | None]]:
    """Input, output, model and id of each object of usage in *text*: a history, a step's state."""
    if len(text) > MAX_JSON_BYTES or _MARK not in text:
        return
    for found in _objects(text):
        if all(name in found.fields for name in _WHOLES):
            model, response_id = _named(text, found)
            yield found.fields["input"], found.fields["output"], model, response_id


def _named(text: str, found: Found) -> tuple[str | None, str | None]:
    """Rule 4."""
    begin, end = max(0, found.begin - _BEFORE_CHARS), found.end + _NEXT_CHARS
    ids = ((at.start(), at[1]) for at in _ID.finditer(text, begin, end))
    return _nearest(_models(text, begin, end), found.begin), _nearest(ids, found.begin)


def _objects(text: str) -> Iterator[Found]:
    """Rule 1."""
    found: Found | None = None
    made = 0
    for match in _COUNT.finditer(text):
        field = FIELD_OF_WORD.get(match[1])
        if field is None:
            continue
        is_new = found is None or match.start() - found.end > _NEXT_CHARS or match[1] in found.counts
        if found is None or is_new or (field in _WHOLES and field in found.fields):
            if found is not None:
                yield found
                made += 1
            if made >= _MAX_OBJECTS:
                return
            found = Found({}, {}, match.start(), match.end())
        count = int(match[2])
        found.counts[match[1]] = count
        found.fields.setdefault(field, count)
        found = found._replace(end=match.end())
    if found is not None:
        yield found


def _proves_itself(fields: Mapping[str, int]) -> bool:
    """Rule 3, of one object."""
    given, output, total = fields["input"], fields["output"], fields.get("total")
    parts = sum(count for name, count in fields.items() if name not in {"input", "output", "total"})
    if total is not None:
        return given + output <= total <= given + output + parts
    return any(name not in _WHOLES for name in fields)


def _as_object(counts: Mapping[str, int]) -> dict[str, Json]:
    """The object as its provider nests it: the parts of cache writes in one of their own."""
    written: dict[str, Json] = {word: count for word, count in counts.items() if word.startswith("ephemeral_")}
    flat: dict[str, Json] = {word: count for word, count in counts.items() if word not in written}
    return {**flat, "cache_creation": written} if written else flat


def _models(text: str, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """Names next to an object that can only be a model's."""
    for match in _MODEL.finditer(text, begin, end):
        name = match[1]
        if is_snapshot(name) or model_provider(name) is not None:
            yield match.start(), name


def _nearest(found: Iterator[tuple[int, str]], at: int) -> str | None:
    return min(found, key=lambda x: abs(x[0] - at), default=(0, None))[1]
