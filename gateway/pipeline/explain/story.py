"""An explanation: of each item its outcome and the reason, of each record which name gave each
field; and how it is printed.

Names are attribute names that a table knows, values are those of the record. Nothing else of a
payload is in here. Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import orjson

from gateway.rules.call import Call
from gateway.rules.extract import Extracted
from gateway.rules.operation import is_listed
from gateway.rules.points import Point
from gateway.rules.provenance import Provenance
from spool.record import FIELDS, Record


class Field(NamedTuple):
    """One field of a record."""

    value: Any
    """As the record has it."""
    provenance: Provenance
    note: str = ""


class WholeSum(NamedTuple):
    """How `usage.input_tokens` or `usage.output_tokens` was made."""

    basis: str
    """`inclusive`, `exclusive` or `unstated`."""
    why: str
    sum: str
    """Such as `57 + 4096 + 2048`: input, cache reads, cache writes; of an output it and its
    reasoning."""


@dataclass(slots=True)
class Explanation:
    """One item: what became of it, and why."""

    payload: int
    """Number of the payload, from 0."""
    position: str
    item: Literal["span", "log record", "data point", "event", "entry", "sum", "report"]
    name: str | None = None
    """Of the span, event or metric, where a table knows it; span names may hold anything."""
    outcome: str = ""
    """`kept`, `duplicate`, `suppressed`, `rejected` or `ignored`."""
    reason: str | None = None
    """As in `/v2/status`, such as `co-instrumented span`; None for kept and ignored."""
    because: str = ""
    of: list[str] = field(default_factory=list)
    """Ids of the records that stand for it."""
    convention: str | None = None
    chosen_by: str | None = None
    record_id: str | None = None
    """Of the record that this item became; None unless it is kept."""
    record_id_from: str | None = None
    input: WholeSum | None = None
    output: WholeSum | None = None
    """None where the output states no reasoning."""
    fields: dict[str, Field] = field(default_factory=dict)
    """Of a kept item: the record's fields by path (`usage.input_tokens`)."""

    def end(self, outcome: str, reason: str | None, because: str) -> None:
        self.outcome, self.reason, self.because = outcome, reason, because

    def read_as(self, convention: str, chosen_by: str) -> None:
        self.convention, self.chosen_by = convention, chosen_by


def as_object(explanation: Explanation) -> dict[str, Any]:
    """One explanation as the object that `--explain --json` prints."""
    return {
        "position": explanation.position,
        "item": explanation.item,
        "name": explanation.name,
        "fate": explanation.outcome,
        "reason": explanation.reason,
        "because": explanation.because,
        "of": explanation.of,
        "convention": explanation.convention,
        "chosen_by": explanation.chosen_by,
        "record_id": explanation.record_id,
        "record_id_from": explanation.record_id_from,
        "input": None if explanation.input is None else explanation.input._asdict(),
        "output": None if explanation.output is None else explanation.output._asdict(),
        "fields": {
            path: {
                "value": x.value,
                "from": x.provenance.by,
                "attributes": list(x.provenance.attributes),
                "passed_over": list(x.provenance.passed_over),
                "note": x.note or None,
            }
            for path, x in explanation.fields.items()
        },
    }


def leaves(record: dict[str, Any]) -> dict[str, Any]:
    """The record's fields by path, less those without a value, those that every record
    has, and the time of receipt.
    """
    found: dict[str, Any] = {}
    for name, value in record.items():
        if name in _SAME_FOR_ALL or value is None:
            continue
        if name in _OPENED:
            for part, inner in value.items():
                if isinstance(inner, dict):
                    found.update({f"{name}.{part}.{key}": x for key, x in inner.items()})
                elif inner is not None:
                    found[f"{name}.{part}"] = inner
        else:
            found[name] = value
    return found


_SAME_FOR_ALL = frozenset({"schema", "kind", "received_at", "record_id"})
_OPENED = frozenset(field.name for field in FIELDS if field.form == "part") - {"cost"}


# ---- items as the normaliser sees them

_NAMES = frozenset(
    {
        "litellm_request", "litellm_proxy_request", "raw_gen_ai_request", "llm_call", "handle_responses",
        "session_task.turn", "claude_code.llm_request", "claude_code.interaction", "claude_code.tool",
        "openai.chat", "anthropic.chat", "openai.response", "openai.embeddings", "cohere.chat", "bedrock.converse",
        "bedrock.completion", "ChatCompletion", "Response", "Messages", "LLMClient", "generate_content",
        "ChatOpenAI.chat", "ChatAnthropic.chat", "ChatOpenAI", "ChatAnthropic", "Completions", "AsyncMessages",
        "ai.generateText", "ai.generateText.doGenerate", "ai.streamText", "ai.streamText.doStream",
        "ai.generateObject", "ai.generateObject.doGenerate", "ai.streamObject", "ai.streamObject.doStream",
        "ai.embed", "ai.embed.doEmbed", "ai.embedMany", "ai.embedMany.doEmbed", "ai.toolCall",
    }
)  # fmt: skip
"""Span names that libraries write; any other may hold a user's words."""

_STEPS = frozenset({"execute_tool", "invoke_agent", "create_agent", "invoke_workflow"})

NOTHING_PICKED = Extracted()
_NOTHING_TOLD: Mapping[str, Provenance] = MappingProxyType({})


class Single(NamedTuple):
    """What one item came to by itself; a call's or a point's outcome
    is decided later, among others.
    """

    explanation: Explanation
    call: Call | None = None
    identity: bytes = b""
    """Of a call, as the ledger knows it."""
    point: Point | None = None
    picked: Extracted = NOTHING_PICKED
    """Of a point."""
    origins: Mapping[str, Provenance] = _NOTHING_TOLD
    """Of what is picked."""
    resource: Mapping[str, Provenance] = _NOTHING_TOLD
    """Of a point: where its resource's attribution came from."""


def span_name(name: str, record: Record | None) -> str | None:
    """*name* if it is a library's, or an operation that is known with the record's
    model behind it; else None.
    """
    if name in _NAMES:
        return name
    word, space, rest = name.partition(" ")
    if word not in _STEPS and not is_listed(word):
        return None
    models = () if record is None else (record["request_model"], record["response_model"])
    return name if not space or rest in models else word


# ---- lines to read

_BY = {
    "item": "",
    "text": "inside the text of ",
    "event": "on an event of the span: ",
    "resource": "on the resource: ",
    "scope": "the instrumentation scope",
    "envelope": "",
    "rule": "",
    "default": "",
    "price_list": "",
    "other_item": "",
}
_WIDTH = 34


def lines(explanation: Explanation) -> Iterator[str]:
    """A head line, and below it why."""
    name = f" {explanation.name}" if explanation.name else ""
    outcome = explanation.outcome if explanation.reason is None else f"{explanation.outcome} ({explanation.reason})"
    yield f"{explanation.position or 'the body'}: {explanation.item}{name}: {outcome}"
    yield f"  because {explanation.because}"
    if explanation.of:
        yield f"  counted by record {', '.join(explanation.of)}"
    if explanation.convention is not None:
        yield f"  read as {explanation.convention}, chosen by {explanation.chosen_by}"
    if explanation.record_id is not None:
        yield f"  record {explanation.record_id}, its id from {explanation.record_id_from}"
    if explanation.input is not None:
        yield f"  input tokens: {explanation.input.sum} ({explanation.input.basis}: {explanation.input.why})"
    if explanation.output is not None:
        yield f"  output tokens: {explanation.output.sum} ({explanation.output.basis}: {explanation.output.why})"
    for path, made in explanation.fields.items():
        yield f"    {path:{_WIDTH}} {_value(made.value)}{_origin(made)}"


def _value(value: Any) -> str:
    """As JSON, but texts without quotes; money in short."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "amount" in value:
        return f"{value['amount']} {value['currency']}"
    return orjson.dumps(value).decode()


def _origin(field: Field) -> str:
    explanation = field.provenance
    where = _BY[explanation.by] + " + ".join(explanation.attributes)
    parts = [where or explanation.by.replace("_", " ")]
    if field.note:
        parts = [field.note] if not where else [where, field.note]
    if explanation.passed_over:
        parts.append(f"passed over: {', '.join(explanation.passed_over)}")
    return f"  <- {'; '.join(parts)}"
