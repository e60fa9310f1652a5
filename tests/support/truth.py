"""What a gateway delivered beside what the provider served: every call once, with its models and
its counts.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.support.mock_llm import Served

Field = Literal["model", "provider", "input_tokens", "output_tokens", "cache_read", "cache_creation", "reasoning"]
Calls = Callable[[Served], bool]


class Call(NamedTuple):
    """One call on either side; None is unknown. A part that is unknown stands as 0."""

    provider: str | None
    model: str | None
    """That answered, else that was asked for."""
    status: str
    input_tokens: int | None
    output_tokens: int | None
    cache_read: int | None
    cache_creation: int | None
    reasoning: int | None


def any_call(call: Served) -> bool:
    return True


def no_call(call: Served) -> bool:
    return False


def of_responses(call: Served) -> bool:
    """Of OpenAI's Responses API."""
    return (call["response_id"] or "").startswith("resp_")


def of_openai(call: Served) -> bool:
    return call["provider"] == "openai"


def of_openai_at_once(call: Served) -> bool:
    """Not streamed."""
    return of_openai(call) and not call["stream"]


def of_openai_stream(call: Served) -> bool:
    return of_openai(call) and call["stream"]


def of_chat_stream(call: Served) -> bool:
    """Of OpenAI's chat completions."""
    return call["stream"] and (call["response_id"] or "").startswith("chatcmpl-")


def of_messages_or_chat(call: Served) -> bool:
    """Of every API but OpenAI's responses."""
    return not of_responses(call)


def of_anthropic(call: Served) -> bool:
    return call["provider"] == "anthropic"


def without_attribution(records: Iterable[Mapping[str, Any]], who: Mapping[str, str]) -> list[str]:
    """A line for each record whose attribution is not *who*."""
    found = [{field: record["attribution"].get(field) for field in who} for record in records]
    return [f"attributed to: {each}" for each in found if each != who]


def of_served(served: Served, unstated: Mapping[Field, Calls]) -> Call:
    """*unstated*: what the sender does not report -> of which calls."""
    call = Call(
        served["provider"],
        served["response_model"] or served["request_model"],
        "ok" if served["status"] == 200 else "error",
        served["input_tokens"],
        served["output_tokens"],
        served["cache_read_tokens"] or 0,
        served["cache_creation_tokens"] or 0,
        served["reasoning_tokens"] or 0,
    )
    missing = {field: None for field, applies in unstated.items() if applies(served)}
    if "model" in missing:
        missing["model"] = served["request_model"]  # type: ignore[assignment]
    return call._replace(**{field: 0 if field in _PARTS else value for field, value in missing.items()})


_PARTS = ("cache_read", "cache_creation", "reasoning")


def of_record(record: Mapping[str, Any]) -> Call:
    """An `inference/1` record."""
    usage = record["usage"]
    output_tokens = usage.get("output_tokens")
    if record.get("operation") == "embeddings":
        output_tokens = output_tokens or None  # there is none: a sender may say 0
    return Call(
        record.get("provider"),
        record.get("response_model") or record.get("request_model"),
        record["status"],
        usage.get("input_tokens"),
        output_tokens,
        usage.get("cache_read_input_tokens") or 0,
        usage.get("cache_creation_input_tokens") or 0,
        usage.get("reasoning_output_tokens") or 0,
    )


def differences(
    served: Iterable[Served], records: Sequence[Mapping[str, Any]], unstated: Mapping[Field, Calls]
) -> list[str]:
    """A line for each call that was served and not counted, or counted and not served."""
    expected = Counter(of_served(call, unstated) for call in served)
    counted = Counter(of_record(record) for record in records if record["kind"] == "call")
    if "provider" in unstated:  # it names itself
        counted = Counter(call._replace(provider=None) for call in counted.elements())
    others = [f"an aggregate: {record['source']}" for record in records if record["kind"] != "call"]
    return [
        *(f"not counted: {call}" for call in (expected - counted).elements()),
        *(f"not served:  {call}" for call in (counted - expected).elements()),
        *others,
    ]


def records_in(file: Path) -> list[dict[str, Any]]:
    """The records of a file exporter; none where it wrote none."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
