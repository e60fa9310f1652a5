"""Anthropic's answers: messages, as one body or as a stream's events. Pure.

Its `input_tokens` leaves out what was read from and written to the cache; what is
billed is the sum of the three.
"""

import json

from tests.support.mock_apis.turn import COMPLETION, Event, Json, Numbers, Reply, Told, Turn, words


def messages(turn: Turn) -> Reply:
    """`POST …/messages`."""
    usage = turn.usage
    block: Json = {"type": "text", "text": COMPLETION}
    if turn.tool is not None:
        block = {
            "type": "tool_use",
            "id": "toolu_" + turn.ident[:10],
            "name": turn.tool.name,
            "input": turn.tool.arguments,
        }
    body: Json = {
        "id": "msg_" + turn.ident,
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": [block],
        "stop_reason": "end_turn" if turn.tool is None else "tool_use",
        "stop_sequence": None,
        "usage": _usage(usage),
    }
    billed_input = usage.input + usage.cache_read + usage.cache_creation
    told = Told(billed_input, usage.output, usage.cache_read, usage.cache_creation, usage.reasoning)
    return Reply(body["id"], told, _events(body, block) if turn.stream else body)


def _usage(usage: Numbers) -> Json:
    an_hour = usage.cache_creation // 3
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_creation,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_creation - an_hour,
            "ephemeral_1h_input_tokens": an_hour,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
        "service_tier": "standard",
    }


def _events(body: Json, block: Json) -> list[Event]:
    usage = body["usage"]
    begun = {**usage, "output_tokens": 1, "output_tokens_details": {"thinking_tokens": 0}}
    ended = {key: count for key, count in usage.items() if key not in ("cache_creation", "service_tier")}
    events: list[tuple[str, Json]] = [
        ("message_start", {"message": {**body, "content": [], "stop_reason": None, "usage": begun}}),
        ("content_block_start", {"index": 0, "content_block": _empty(block)}),
        ("ping", {}),
        *(("content_block_delta", {"index": 0, "delta": delta}) for delta in _deltas(block)),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": body["stop_reason"], "stop_sequence": None}, "usage": ended}),
        ("message_stop", {}),
    ]
    return [Event(name, {"type": name, **data}) for name, data in events]


def _empty(block: Json) -> Json:
    return {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}


def _deltas(block: Json) -> list[Json]:
    if block["type"] == "text":
        return [{"type": "text_delta", "text": word} for word in words()]
    return [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
