"""A provider's own answer inside a gateway's log entry: ids and counts are taken from it,
then it is dropped. Pure.

1. It may be an object, or JSON in a text; a sentence in its place
   ("body too large") has no usage.
2. Its usage is the provider's own word, by the provider's own convention: OpenAI's prompt holds the
   cache; Anthropic's and Bedrock's input leaves cache reads and writes out; Gemini's candidates
   leave the thoughts out, and its prompt what its tools read (where its total states it).
3. Gateways that translate Anthropic's answer to OpenAI's form differ in what they call
   the prompt. Where their total is the sum of prompt, completion and cache parts, the
   prompt leaves the cache out.
4. Wholes are taken only where no other field had them; what the caller trusts less than the
   provider it fills in afterwards.
"""

from collections.abc import Mapping

from gateway.rules.conventions.native import add_wholes, take_answer
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted
from gateway.rules.texts import Answer, Json, answer_in, json_object, object_in, raw_answer, text_in

_NOTHING: Mapping[str, Json] = {}


def object_of(value: Json) -> Mapping[str, Json]:
    """The object that *value* is or holds as JSON text; empty for anything else."""
    if isinstance(value, dict):
        return value
    return json_object(value) if isinstance(value, str) else _NOTHING


def answer_of(body: Json) -> Answer:
    """What the answer *body* states about itself."""
    answer = answer_in(body) if isinstance(body, dict) else raw_answer(body if isinstance(body, str) else None)
    if answer.finish_reason is None:
        answer.finish_reason = _finish_reason(object_of(body))
    return answer


def take_body(picked: Extracted, body: Json) -> None:
    """Rules 2 to 4: ids, wholes and parts of the provider's answer *body* into *picked*."""
    answer = answer_of(body)
    take_answer(picked, answer)
    add_wholes(picked, answer.usage)


def error_in(body: Json) -> str | None:
    """The class or code of the error that the answer is; None when it is none.
    Its message is left alone.
    """
    error = object_in(object_of(body), "error")
    return (text_in(error, "type", "code", "status") or "error") if error else None


def _finish_reason(document: Mapping[str, Json]) -> str | None:
    choices = document.get("choices") or document.get("candidates")
    first = choices[0] if isinstance(choices, list) and choices else None
    found = text_in(first, "finish_reason", "finishReason") if isinstance(first, dict) else None
    return found[:MAX_TEXT_CHARS] if found else None
