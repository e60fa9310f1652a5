"""Numbers and names inside text attributes: JSON, or the repr of a Python value. Pure,
bounded, and never raising.

Some senders put usage or the provider's raw answer into one text. It is read here, the few
mapped values are taken, and the text itself goes no further.
"""

import re
from collections.abc import Mapping
from typing import cast

import orjson

from gateway.common.operations import chosen, inside_text, like
from gateway.read import python_repr
from gateway.read.loose_json import loads
from gateway.rules import envelopes

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

MAX_JSON_BYTES = 256 * 1024
"""Of a longer raw answer only an id that leads it is read."""
MAX_REPR_CHARS = 16 * 1024
"""Of a longer dict's repr no JSON is made first: that copies it."""

_MAX_DIGITS = 13
_MAX_COUNT = 1 << 40
"""As in `gateway.rules.extract`: a count of tokens beyond this is no count."""

_PYTHON_WORD = re.compile(r"\b(None|True|False)\b")
_JSON_WORD = {"None": "null", "True": "true", "False": "false"}
_OBJECT_REPR = re.compile(r"[A-Za-z_][\w.]{0,80}\(\w{1,80}=", re.ASCII)
"""How the repr of an object with named fields begins."""
_LEADING_ID = re.compile(r'\s*\{\s*"id"\s*:\s*"([\w.:-]{1,256})"', re.ASCII)
_BEGINS_OBJECT = re.compile(rb"[ \t-\r]*\{|[\w.]*\(", re.ASCII)
_BEGIN_BYTES = 32
_NOTHING: Mapping[str, Json] = {}


def may_hold_object(text: bytes) -> bool:
    """Whether a rule may find an object in *text*, JSON or printed, or counts of tokens. The native
    reader asks the same, and leaves spans with such a text to the rules.
    """
    return b"{" in text[:_BEGIN_BYTES] or _BEGINS_OBJECT.match(text) is not None or b"oken" in text


@inside_text
def json_object(text: str | None) -> Mapping[str, Json]:
    """The JSON object in *text*; empty when it is none."""
    if not text or len(text) > MAX_JSON_BYTES or "{" not in text[:8]:
        return _NOTHING
    try:
        value = loads(text)
    except orjson.JSONDecodeError:
        return _NOTHING
    return value if isinstance(value, dict) else _NOTHING


@inside_text
def repr_object(text: str | None) -> Mapping[str, Json]:
    """The JSON object, Python dict or Python object in *text*; empty when it is none.

    A dict's repr that holds no quotes inside its words reads as JSON after three replacements, 20
    times faster than as Python.
    """
    if not text or len(text) > MAX_JSON_BYTES:
        return _NOTHING
    if text[0] != "{":
        return _literal(text) if _OBJECT_REPR.match(text) else _NOTHING
    if len(text) > MAX_REPR_CHARS:
        return json_object(text) or _literal(text)
    if '"' in text:
        found = json_object(text)
        return found or _literal(text)
    return json_object(_PYTHON_WORD.sub(_json_word, text.replace("'", '"'))) or _literal(text)


def _json_word(match: re.Match[str]) -> str:
    return _JSON_WORD[match.group()]


def _literal(text: str) -> Mapping[str, Json]:
    try:
        value = python_repr.loads(text)
    except ValueError:
        return _NOTHING
    return value if isinstance(value, dict) else _NOTHING


def text_in(value: Mapping[str, Json], *keys: str) -> str | None:
    """The first non-empty text under *keys*."""
    for key in keys:
        found = value.get(key)
        if isinstance(found, str) and found:
            return found if type(found) is str else chosen(found, *map(value.get, keys))
    return None


def count_in(value: Mapping[str, Json], *keys: str) -> int | None:
    """The first whole number from 0 to _MAX_COUNT under *keys*,
    also where it is written as a text.
    """
    for key in keys:
        found = value.get(key)
        if (isinstance(found, float) and found.is_integer()) or (
            isinstance(found, str) and len(found) <= _MAX_DIGITS and found.isdecimal()
        ):
            found = like(int(found), found)
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= _MAX_COUNT:
            return found if type(found) is int else chosen(found, *map(value.get, keys))
    return None


def object_in(value: Mapping[str, Json], *keys: str) -> Mapping[str, Json]:
    """The first object under *keys*; empty when there is none."""
    for key in keys:
        found = value.get(key)
        if isinstance(found, dict) and found:
            return found
    return _NOTHING


def unquoted(text: str) -> str:
    """*text* without the JSON quotes that some senders leave around it."""
    if len(text) >= 2 and text[0] == text[-1] == '"':  # noqa: PLR2004 - both quotes
        try:
            value = orjson.loads(str(text))
        except orjson.JSONDecodeError:
            return text
        return like(value, text) if isinstance(value, str) else text
    return text


class Answer:
    """What a provider's raw answer states about itself; texts are identifiers, never content."""

    __slots__ = ("finish_reason", "model", "response_id", "service_tier", "usage")

    def __init__(self) -> None:
        self.response_id: str | None = None
        self.model: str | None = None
        self.finish_reason: str | None = None
        self.service_tier: str | None = None
        self.usage: Mapping[str, Json] = _NOTHING


def raw_answer(text: str | None) -> Answer:
    """Read a provider's or LangChain's answer in JSON, of a field that holds nothing else: a
    response's body, a library's own object. All None where it is something else.
    """
    answer = Answer()
    if text is not None and len(text) > MAX_JSON_BYTES:
        match = _LEADING_ID.match(text)
        answer.response_id = match.group(1) if match else None
        return answer
    return answer_in(json_object(text) or (repr_object(text) if text and _OBJECT_REPR.match(text) else _NOTHING))


def answer_in(document: Mapping[str, Json]) -> Answer:
    """The same for an answer that is no text but a JSON object already."""
    answer = Answer()
    for part in (_raw(document), document, *_langchain_parts(document)):
        _take(answer, part)
    return answer


def answer_or_text(text: str | None) -> Answer:
    """The answer in a *text* that may as well be what the model wrote: all None unless it has the
    envelope of one (`gateway.rules.envelopes`).
    """
    answer = Answer()
    if text is None:
        return answer
    if len(text) > MAX_JSON_BYTES:
        answer.response_id = envelopes.leading_id(text)
        return answer
    document = json_object(text) or _answers_repr(text)
    raw = document.get("raw")
    inner = raw if isinstance(raw, dict) else _answers_repr(raw) if isinstance(raw, str) else _NOTHING
    for part in (inner, document):
        if envelopes.is_answer(part):
            _take(answer, part)
    if envelopes.is_langchain_result(document) or envelopes.is_langchain_message(document):
        for part in _langchain_parts(document):
            _take(answer, part)
    return answer


def _answers_repr(text: str) -> Mapping[str, Json]:
    return repr_object(text) if envelopes.is_answers_repr(text) else _NOTHING


def requested_model(text: str | None) -> str | None:
    """The model of the request in a *text* that may as well be a prompt."""
    document = json_object(text)
    return text_in(document, "model") if envelopes.is_request(document) else None


def _raw(document: Mapping[str, Json]) -> Mapping[str, Json]:
    """The provider's own answer inside a library's, an object or the repr of one (smolagents)."""
    raw = document.get("raw")
    if isinstance(raw, dict):
        return raw
    return repr_object(raw) if isinstance(raw, str) else _NOTHING


def _take(answer: Answer, part: Mapping[str, Json]) -> None:
    response_id = text_in(part, "id")
    if answer.response_id is None and response_id is not None and _is_answer(part):
        answer.response_id = response_id
    if answer.model is None:
        answer.model = text_in(part, "model_name", "model", "modelVersion")
    if answer.finish_reason is None:
        answer.finish_reason = text_in(part, "finish_reason", "stop_reason")
    if answer.service_tier is None:
        answer.service_tier = text_in(part, "service_tier")
    if not answer.usage:
        answer.usage = object_in(part, "usage", "token_usage", "usage_metadata", "usageMetadata")


def _is_answer(part: Mapping[str, Json]) -> bool:
    """Whether the object's id is a response's: a message or a tool call has one too."""
    return any(key in part for key in ("model", "model_name", "usage", "choices", "object"))


def _langchain_parts(document: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    """`llm_output` and the message's `response_metadata` of a LangChain
    LLMResult, or of one message.
    """
    parts = [object_in(document, "llm_output"), object_in(document, "response_metadata")]
    generation = document.get("generations")
    while isinstance(generation, list) and generation:
        generation = generation[0]
    if isinstance(generation, dict):
        message = object_in(generation, "message")
        kwargs = object_in(message, "kwargs", "data") or message
        parts += [
            object_in(kwargs, "response_metadata"),
            object_in(generation, "generation_info"),
            kwargs_usage(kwargs),
        ]
    return [part for part in parts if part]


def kwargs_usage(kwargs: Mapping[str, Json]) -> Mapping[str, Json]:
    """Only the usage of a LangChain message: its id is LangChain's own."""
    usage = object_in(kwargs, "usage_metadata")
    return {"usage_metadata": cast("Json", usage)} if usage else _NOTHING
