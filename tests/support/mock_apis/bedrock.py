"""Amazon Bedrock's answers: Converse, as one body or as frames of an event stream. Pure.

Its `inputTokens` leaves out what was read from and written to the cache.
"""

import json
import struct
import zlib

from tests.support.mock_apis.turn import COMPLETION, Frames, Json, Reply, Told, Turn, words


def converse(turn: Turn) -> Reply:
    """`POST …/model/<model>/converse` and `/converse-stream`."""
    usage = turn.usage
    counts = {
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "totalTokens": usage.input + usage.cache_read + usage.cache_creation + usage.output,
        "cacheReadInputTokens": usage.cache_read,
        "cacheWriteInputTokens": usage.cache_creation,
    }
    billed_input = usage.input + usage.cache_read + usage.cache_creation
    told = Told(billed_input, usage.output, usage.cache_read, usage.cache_creation, None)
    content: Json = {
        "output": {"message": {"role": "assistant", "content": [{"text": COMPLETION}]}},
        "stopReason": "end_turn",
        "usage": counts,
        "metrics": {"latencyMs": 7},
    }
    return Reply(None, told, _frames(counts) if turn.stream else content)


def _frames(counts: Json) -> Frames:
    events: list[tuple[str, Json]] = [
        ("messageStart", {"role": "assistant"}),
        *(("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}}) for word in words()),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": counts, "metrics": {"latencyMs": 7}}),
    ]
    return Frames("application/vnd.amazon.eventstream", b"".join(_frame(name, data) for name, data in events))


def _frame(event: str, data: Json) -> bytes:
    """application/vnd.amazon.eventstream: lengths and their CRC, headers, payload, CRC of all."""
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in (
            (":event-type", event),
            (":content-type", "application/json"),
            (":message-type", "event"),
        )
    )
    payload = json.dumps(data).encode()
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))
