"""Request bodies as LiteLLM's generic callback pushes them: an array of records of 12 to
14 kB, made unique by patching.

The record is a captured one. As in `benchmarks.bodies`, ids are overwritten in place: record
number *s* of a run has the response id `chatcmpl-` and the 24 hex digits of `AI_SPAN_ID_BASE +
s`, and a call id that ends in its last twelve.
"""

import gzip
import json
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.attributes import tokens_of
from benchmarks.bodies import AI_SPAN_ID_BASE, Place, Shape, find_once

CAPTURED = Path(__file__).parents[1] / "tests/data/corpus/gateways/litellm/generic_api_single.json"
PATH: Final = "/v1/sources/litellm"
_CALL_ID_HEAD: Final = "6f195d01-95c2-4051-a8b1-"


class LiteLLMTemplate:
    """One body of `shape.spans` records."""

    def __init__(self, shape: Shape, *, now_s: float | None = None) -> None:
        self.shape = shape
        self.ai_spans = shape.spans
        captured = json.loads(CAPTURED.read_text("utf-8"))
        now_s = time.time() if now_s is None else now_s
        records = [_record(captured, index, now_s) for index in range(shape.spans)]
        self._body = json.dumps(records).encode()
        self._patches = [
            (
                _places(self._body, _response_sentinel(index).encode()),
                find_once(self._body, _call_sentinel(index).encode()),
            )
            for index in range(shape.spans)
        ]
        usages = [tokens_of(index) for index in range(shape.spans)]
        self.input_tokens = sum(usage.input_tokens for usage in usages)
        self.output_tokens = sum(usage.output_tokens for usage in usages)

    @property
    def body_bytes(self) -> int:
        """Length of one body before compression."""
        return len(self._body)

    def body(self, number: int) -> bytes:
        """Request *number* of a run (from 0), ready to send."""
        out = bytearray(self._body)
        ident = AI_SPAN_ID_BASE + number * self.ai_spans
        for responses, call in self._patches:
            for at in responses:
                out[at : at + 24] = b"%024x" % ident
            out[call : call + 12] = b"%012x" % (ident & 0xFFFF_FFFF_FFFF)
            ident += 1
        return gzip.compress(bytes(out), compresslevel=1, mtime=0) if self.shape.gzip else bytes(out)

    def places(self) -> list[Place]:
        """Where the numbers of records stand, for a sender that writes them itself."""
        found: list[Place] = []
        for item, (responses, call) in enumerate(self._patches):
            found += [*(Place(at, item, 24) for at in responses), Place(call, item, 12)]
        return found

    def headers(self) -> dict[str, str]:
        """Content-Type and Content-Encoding of the bodies."""
        return {"Content-Type": "application/json"} | ({"Content-Encoding": "gzip"} if self.shape.gzip else {})


def _record(captured: dict[str, Any], index: int, now_s: float) -> dict[str, Any]:
    """The captured record with sentinel ids, times of its own, and the
    usage of `tokens_of(index)`.
    """
    made: dict[str, Any] = json.loads(json.dumps(captured))
    response_id, usage = f"chatcmpl-{_response_sentinel(index)}", tokens_of(index)
    made["id"] = made["response"]["id"] = response_id
    made["litellm_call_id"] = _CALL_ID_HEAD + _call_sentinel(index)
    end_s = now_s - index % 1000 / 1000
    made["startTime"], made["endTime"] = end_s - 0.3 - 0.037 * (index % 50), end_s
    made["completionStartTime"] = end_s
    totals = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    made |= totals | {"total_tokens": usage.input_tokens + usage.output_tokens}
    for place in (made["metadata"]["usage_object"], made["response"]["usage"]):
        place.update(totals, total_tokens=usage.input_tokens + usage.output_tokens)
        place["prompt_tokens_details"]["cached_tokens"] = 120
        place["completion_tokens_details"]["reasoning_tokens"] = 40
    return made


def _response_sentinel(index: int) -> str:
    return f"Response{index:016d}"


def _call_sentinel(index: int) -> str:
    return f"Call{index:08d}"


def _places(body: bytes, sentinel: bytes) -> list[int]:
    """Where *sentinel* stands: in the record's id and in its answer's."""
    found: list[int] = []
    at = body.find(sentinel)
    while at >= 0:
        found.append(at)
        at = body.find(sentinel, at + 1)
    return found
