"""Gemini's answers: generated content, as one body or as a stream's events. Pure.

Its `candidatesTokenCount` leaves out the thoughts; what is billed as output is the sum of both.
"""

from tests.support.mock_apis.turn import COMPLETION, Event, Json, Reply, Told, Turn, words


def generate_content(turn: Turn) -> Reply:
    """`POST …/models/<model>:generateContent` and `:streamGenerateContent`."""
    usage = turn.usage
    billed_output = usage.output + usage.reasoning
    counts = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.input + billed_output,
        "cachedContentTokenCount": usage.cache_read,
        "thoughtsTokenCount": usage.reasoning,
    }
    head: Json = {"modelVersion": turn.model, "responseId": turn.ident}
    last = {**head, "candidates": [_candidate(_parts(turn)[-1], "STOP")], "usageMetadata": counts}
    told = Told(usage.input, billed_output, usage.cache_read, None, usage.reasoning)
    return Reply(turn.ident, told, _events(turn, head, last) if turn.stream else last)


def _parts(turn: Turn) -> list[Json]:
    if turn.tool is not None:
        return [{"functionCall": {"name": turn.tool.name, "args": turn.tool.arguments}}]
    return [{"text": word} for word in words()] if turn.stream else [{"text": COMPLETION}]


def _candidate(part: Json, finish: str | None = None) -> Json:
    content = {"parts": [part], "role": "model"}
    return {"content": content, "index": 0} | ({"finishReason": finish} if finish else {})


def _events(turn: Turn, head: Json, last: Json) -> list[Event]:
    so_far = {"promptTokenCount": turn.usage.input, "totalTokenCount": turn.usage.input}
    earlier = [{**head, "candidates": [_candidate(part)], "usageMetadata": so_far} for part in _parts(turn)[:-1]]
    return [Event(None, data) for data in (*earlier, last)]
