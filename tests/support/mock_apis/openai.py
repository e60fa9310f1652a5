"""OpenAI's answers: chat completions, responses and embeddings, as one body or
as a stream's events. Pure.
"""

import base64
import json
import struct

from tests.support.mock_apis.turn import COMPLETION, CREATED_S, Event, Json, Numbers, Reply, Told, Turn, words

_DIMENSIONS = 8


def chat(turn: Turn) -> Reply:
    """`POST …/chat/completions`; a stream states its usage only when
    `stream_options.include_usage` asks for it.
    """
    told = not turn.stream or bool((turn.request.get("stream_options") or {}).get("include_usage"))
    head: Json = {"id": "chatcmpl-" + turn.ident, "created": CREATED_S, "model": turn.model}
    content = _chunks(turn, head, told=told) if turn.stream else _completion(turn, head)
    return Reply(head["id"], _told(turn.usage) if told else Told(), content)


def _told(usage: Numbers) -> Told:
    return Told(usage.input, usage.output, usage.cache_read, None, usage.reasoning)


def _chat_usage(usage: Numbers) -> Json:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }


def _tool_calls(turn: Turn) -> list[Json]:
    if turn.tool is None:
        return []
    function = {"name": turn.tool.name, "arguments": json.dumps(turn.tool.arguments)}
    return [{"id": "call_" + turn.ident[:8], "type": "function", "function": function}]


def _completion(turn: Turn, head: Json) -> Json:
    message: Json = {"role": "assistant", "content": COMPLETION, "refusal": None}
    if turn.tool is not None:
        message |= {"content": None, "tool_calls": _tool_calls(turn)}
    finish = "stop" if turn.tool is None else "tool_calls"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {**head, "object": "chat.completion", "usage": _chat_usage(turn.usage), "choices": [choice]}


def _chunks(turn: Turn, head: Json, *, told: bool) -> list[Event]:
    base = {**head, "object": "chat.completion.chunk"}

    def chunk(delta: Json, finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return Event(None, {**base, "choices": [choice]})

    said = [chunk({"content": word}) for word in words()]
    if turn.tool is not None:
        said = [chunk({"tool_calls": [{"index": 0, **call}]}) for call in _tool_calls(turn)]
    finish = chunk({}, "stop" if turn.tool is None else "tool_calls")
    usage = [Event(None, {**base, "choices": [], "usage": _chat_usage(turn.usage)})] if told else []
    return [chunk({"role": "assistant", "content": ""}), *said, finish, *usage, Event(None, "[DONE]")]


def embeddings(turn: Turn) -> Reply:
    """`POST …/embeddings`, float or base64."""
    given = turn.request.get("input")
    count = len(given) if isinstance(given, list) else 1
    vector = [round((i + 1) / 97, 6) for i in range(_DIMENSIONS)]
    packed = base64.b64encode(struct.pack(f"<{_DIMENSIONS}f", *vector)).decode()
    embedding = packed if turn.request.get("encoding_format") == "base64" else vector
    data = [{"object": "embedding", "index": i, "embedding": embedding} for i in range(count)]
    usage = {"prompt_tokens": turn.usage.input, "total_tokens": turn.usage.input}
    body = {"object": "list", "model": turn.model, "usage": usage, "data": data}
    return Reply(None, Told(input_tokens=turn.usage.input), body)


def responses(turn: Turn) -> Reply:
    """`POST …/responses`."""
    usage = {
        "input_tokens": turn.usage.input,
        "input_tokens_details": {"cached_tokens": turn.usage.cache_read},
        "output_tokens": turn.usage.output,
        "output_tokens_details": {"reasoning_tokens": turn.usage.reasoning},
        "total_tokens": turn.usage.input + turn.usage.output,
    }
    item = _message(turn) if turn.tool is None else _function_call(turn)
    body: Json = {
        "id": "resp_" + turn.ident,
        "object": "response",
        "created_at": CREATED_S,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": turn.request.get("instructions"),
        "metadata": {},
        "model": turn.model,
        "output": [item],
        "parallel_tool_calls": True,
        "service_tier": "default",
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": turn.request.get("tools") or [],
        "top_p": 1.0,
        "usage": usage,
    }
    return Reply(body["id"], _told(turn.usage), _response_events(body, item) if turn.stream else body)


def _message(turn: Turn) -> Json:
    text = {"type": "output_text", "text": COMPLETION, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg_" + turn.ident, "status": "completed", "role": "assistant", "content": [text]}


def _function_call(turn: Turn) -> Json:
    (call,) = _tool_calls(turn)
    ids = {"id": "fc_" + turn.ident, "call_id": call["id"], "status": "completed"}
    return {"type": "function_call", **ids, **call["function"]}


def _response_events(body: Json, item: Json) -> list[Event]:
    started = {**body, "status": "in_progress", "output": [], "usage": None}
    empty: Json = {"content": []} if item["type"] == "message" else {"arguments": ""}
    events: list[tuple[str, Json]] = [
        ("response.created", {"response": started}),
        ("response.in_progress", {"response": started}),
        ("response.output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", **empty}}),
        *(_text_events(item) if item["type"] == "message" else _argument_events(item)),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": body}),
    ]
    return [Event(name, {"type": name, "sequence_number": n, **data}) for n, (name, data) in enumerate(events)]


def _text_events(item: Json) -> list[tuple[str, Json]]:
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    (part,) = item["content"]
    return [
        ("response.content_part.added", {**at, "part": {**part, "text": ""}}),
        *(("response.output_text.delta", {**at, "delta": word, "logprobs": []}) for word in words()),
        ("response.output_text.done", {**at, "text": part["text"], "logprobs": []}),
        ("response.content_part.done", {**at, "part": part}),
    ]


def _argument_events(item: Json) -> list[tuple[str, Json]]:
    at = {"item_id": item["id"], "output_index": 0}
    done = {**at, "name": item["name"], "arguments": item["arguments"]}
    return [
        ("response.function_call_arguments.delta", {**at, "delta": item["arguments"]}),
        ("response.function_call_arguments.done", done),
    ]
