"""Which log events are calls. Precedence:

1. The event's name, by `_EVENTS`: attribute `event.name`, attribute `event_name`, the record's own
   event name, its body. Claude Code's names go without their product, and so do the bodies of
   Cursor's (`api_request`); the scope states it.
2. `gen_ai.client.inference.operation.details` is read by its scope's table
   (`choose.py`), for any library.
3. Another event of a product whose calls rule 1 finds, by its name's beginning or its scope: never
   a call; it would repeat them.
4. Else names that look like usage: the generic table, flagged.
5. Else the record is no AI usage.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

from gateway.read.view import Attributes, LogRecord
from gateway.rules.conventions import event_tables as tables
from gateway.rules.conventions.choose import by_scope, speak_of_ai
from gateway.rules.conventions.gen_ai import GEN_AI
from gateway.rules.conventions.generic import GENERIC
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import Extracted
from gateway.rules.operation import operation
from gateway.rules.signal_precedence import DETAILS

EventOutcome = Literal["call", "content_only", "not_a_call", "ignored"]
"""A call; AI content without usage; AI work that is no call of its own, or
repeats one; nothing of AI."""

OutcomeOf = Callable[[Extracted], EventOutcome]

_FAILURE = 400
MAX_EVENT_CHARS = 80


class EventRule(NamedTuple):
    """How one event is read."""

    name: str
    convention: Convention
    outcome: OutcomeOf
    is_failure: bool = False
    """The event itself states that the call failed."""
    in_call_span: bool = False
    """The record's span is the call's own; else it is whatever span was open."""


def status_failed(picked: Extracted) -> bool:
    """Whether a HTTP status states that the call failed."""
    status = picked.texts.get("status_code", "")
    return status.isdecimal() and int(status[:4]) >= _FAILURE


def _request(picked: Extracted) -> EventOutcome:
    """A request names the model that is asked for; its answer comes in an event of its own."""
    return "not_a_call"


def _has_usage(picked: Extracted) -> bool:
    return "input" in picked.counts or "output" in picked.counts


def _always(picked: Extracted) -> EventOutcome:
    return "call"


def _with_usage(picked: Extracted) -> EventOutcome:
    """For events that also state other things under one name."""
    return "call" if _has_usage(picked) or status_failed(picked) else "not_a_call"


def _completed(picked: Extracted) -> EventOutcome:
    """Codex: of the two `response.completed` of a call one has the tokens."""
    return "call" if picked.texts.get("event_kind") == "response.completed" and _has_usage(picked) else "not_a_call"


def _details(picked: Extracted) -> EventOutcome:
    """A response or usage, or a failure that names its model; the request's details, and
    messages alone, are content.
    """
    texts = picked.texts
    sent = texts.get("operation")
    if sent is not None and operation(sent).outcome == "not_a_call":
        return "not_a_call"
    if _has_usage(picked) or "response_id" in texts or "response_model" in texts:
        return "call"
    return "call" if "error_type" in texts and "request_model" in texts else "content_only"


def _generic(picked: Extracted) -> EventOutcome:
    """Both wholes, or one of them and a model; a step by its operation's name stays a step."""
    texts, counts = picked.texts, picked.counts
    sent = texts.get("operation")
    if "step_kind" in texts or (sent is not None and operation(sent).outcome == "not_a_call"):
        return "not_a_call"
    if "input" in counts and "output" in counts:
        return "call"
    has_model = "request_model" in texts or "response_model" in texts
    return "call" if has_model and _has_usage(picked) else "content_only"


_EVENTS: dict[str, EventRule] = {
    rule.name: rule
    for rule in (
        EventRule("claude_code.api_request", tables.CLAUDE_CODE_EVENTS, _always),
        EventRule("claude_code.api_error", tables.CLAUDE_CODE_EVENTS, _always, is_failure=True),
        EventRule("codex.sse_event", tables.CODEX_EVENTS, _completed),
        EventRule("gemini_cli.api_response", tables.GEMINI_CLI_ANSWERS, _with_usage),
        EventRule("gemini_cli.api_error", tables.GEMINI_CLI_ERRORS, _always, is_failure=True),
        EventRule("qwen-code.api_response", tables.QWEN_CODE_ANSWERS, _with_usage),
        EventRule("gemini_cli.api_request", tables.GEMINI_CLI_ERRORS, _request),
        EventRule("qwen-code.api_request", tables.QWEN_CODE_ERRORS, _request),
        EventRule("qwen-code.api_error", tables.QWEN_CODE_ERRORS, _always, is_failure=True),
        EventRule("task.conversation_turn", tables.CLINE_EVENTS, _with_usage),
        EventRule("task.tokens", tables.CLINE_EVENTS, _with_usage),
        EventRule("task.provider_api_error", tables.CLINE_EVENTS, _always, is_failure=True),
        EventRule("cursor.api.request", tables.CURSOR_EVENTS, _always),
        EventRule("cursor.api.error", tables.CURSOR_EVENTS, _always, is_failure=True),
    )
}

_CONTENT = frozenset(
    {
        "gen_ai.system.message",
        "gen_ai.user.message",
        "gen_ai.assistant.message",
        "gen_ai.tool.message",
        "gen_ai.choice",
        "gen_ai.content.prompt",
        "gen_ai.content.completion",
        "gen_ai.client.operation.exception",
    }
)
_STEPS = (
    "claude_code.",
    "codex.",
    "gemini_cli.",
    "qwen-code.",
    "copilot_chat.",
    "github.copilot.",
    "cursor.",
    "gen_ai.evaluation.",
)
_STEP_SCOPES = (
    "com.anthropic.claude_code",
    "codex",
    "gemini-cli",
    "qwen-code",
    "copilot-chat",
    "github.copilot",
    "cline",
    "cursor.telemetry",
)
_TOTALS = ("monotonic_counter.", "counter.", "histogram.")
"""Beginnings of attributes by which Rust's tracing turns a record into a metric
(Goose): sums over a session."""

_CLAUDE_CODE_SCOPE = "com.anthropic.claude_code"
_CLAUDE_CODE = "claude_code."
_CURSOR_SCOPE = "cursor.telemetry"
_CURSOR = "cursor."

GENERIC_EVENT = EventRule("", GENERIC, _generic)

Chosen = EventRule | Literal["content_only", "not_a_call", "ignored"]


def choose_event(record: LogRecord, names: tuple[str, ...], scope: str) -> Chosen:
    """How *record*, whose attributes have *names*, is read; or its outcome, where no
    attribute can make it a call.
    """
    sent = _sent_names(record, names)
    for name in sent:
        chosen = _by_name(name, scope)
        if chosen is not None:
            return chosen
    named = _by_name(_body_name(record), scope) if not sent or scope.startswith(_CLAUDE_CODE_SCOPE) else None
    if named is not None:
        return named
    if scope.startswith(_STEP_SCOPES) or not speak_of_ai(names):
        return "ignored"
    return "not_a_call" if any(name.startswith(_TOTALS) for name in names) else GENERIC_EVENT


def known_event(record: LogRecord, names: tuple[str, ...], scope: str) -> str | None:
    """The event's name as it was sent, where this module lists it; any other may hold anything."""
    product = _CLAUDE_CODE if scope.startswith(_CLAUDE_CODE_SCOPE) else ""
    for name in (*_sent_names(record, names), _body_name(record)):
        if name in _CONTENT or name == DETAILS or name in _EVENTS or product + name in _EVENTS:
            return name
    return None


def _sent_names(record: LogRecord, names: tuple[str, ...]) -> list[str]:
    """The event's names as the record has them, by precedence."""
    found = [_text(record.attributes, name) for name in ("event.name", "event_name") if name in names]
    return [name for name in (*found, record.event_name) if name and len(name) <= MAX_EVENT_CHARS]


def _text(attributes: Attributes, name: str) -> str:
    return attributes[name].string_value


def _body_name(record: LogRecord) -> str:
    """The body where it may be an event's name; any other body is content, and is left alone."""
    body = record.body.string_value
    return body if len(body) <= MAX_EVENT_CHARS else ""


@lru_cache(maxsize=4096)
def _by_name(name: str, scope: str) -> Chosen | None:
    """Rules 1 to 3 for one name; None where it names no event."""
    if scope.startswith(_CLAUDE_CODE_SCOPE) and not name.startswith(_CLAUDE_CODE):
        name = _CLAUDE_CODE + name
    if scope.startswith(_CURSOR_SCOPE) and not name.startswith(_CURSOR):
        name = _CURSOR + name.replace("_", ".", 1)
    rule = _EVENTS.get(name)
    if rule is not None:
        return rule
    if name == DETAILS:
        return EventRule(DETAILS, by_scope(scope) or GEN_AI, _details, in_call_span=True)
    if name in _CONTENT:
        return "content_only"
    return "ignored" if name.startswith(_STEPS) else None
