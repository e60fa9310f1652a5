"""One call that the mock provider answers: what was asked, the token counts it stands for,
and the form of a reply. Pure.

The counts of the n-th call of a scenario are primes derived from (scenario, n), from ranges that do
not overlap by kind, so a number states what it is and a rerun gives the same ones.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

COMPLETION = "The answer is CANARY-7Q-COMPLETION, thank you."
CREATED_S = 1760000000
"""The time every OpenAI answer states."""

Json = dict[str, Any]


class Numbers(NamedTuple):
    """Raw counts of one call; each API states them in its own way."""

    input: int
    output: int
    cache_read: int
    cache_creation: int
    reasoning: int


class Told(NamedTuple):
    """What the client was reported, as it is billed: input with the cache, output with the
    reasoning; None for what was not said.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    reasoning_tokens: int | None = None


class ToolCall(NamedTuple):
    name: str
    arguments: Json


class Turn(NamedTuple):
    """One request, read, and what its answer shall state."""

    request: Json
    model: str
    """The model that answers."""
    ident: str
    """24 hex digits of its own; the response id holds them."""
    usage: Numbers
    tool: ToolCall | None
    """The tool to call in place of a completion."""

    @property
    def stream(self) -> bool:
        """Whether the answer shall be streamed."""
        return bool(self.request.get("stream"))


class Event(NamedTuple):
    """One server-sent event."""

    name: str | None
    data: Json | str


class Frames(NamedTuple):
    """A stream in an encoding of its own."""

    content_type: str
    body: bytes


class Reply(NamedTuple):
    """What goes back: one JSON body, server-sent events, or frames."""

    response_id: str | None
    told: Told
    content: Json | Sequence[Event] | Frames


def _primes(below: int) -> list[int]:
    sieve = bytearray([1]) * below
    for i in range(2, int(below**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = bytes(len(sieve[i * i :: i]))
    return [i for i in range(2, below) if sieve[i]]


_PRIMES = _primes(5000)


def _pick(seed: str, name: str, low: int, high: int) -> int:
    pool = [prime for prime in _PRIMES if low <= prime < high]
    return pool[int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:6], "big") % len(pool)]


def numbers(scenario: str, n: int) -> Numbers:
    """The token counts of the *n*-th call (from 1) of *scenario*."""
    seed = f"{scenario}#{n}"
    return Numbers(
        input=_pick(seed, "input", 2000, 5000),
        output=_pick(seed, "output", 1000, 2000),
        cache_read=_pick(seed, "read", 600, 1000),
        cache_creation=_pick(seed, "write", 400, 600),
        reasoning=_pick(seed, "reason", 100, 400),
    )


def identity(scenario: str, n: int) -> str:
    """24 hex digits for the *n*-th call of *scenario*."""
    return hashlib.sha256(f"{scenario}#{n}".encode()).hexdigest()[:24]


def words() -> list[str]:
    """The completion as a stream sends it."""
    return [word + " " for word in COMPLETION.split(" ")]


_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema")
_TOOL_RESULTS = ('"tool"', "tool_result", "function_call_output", "functionResponse")


def wanted_tool(request: Json) -> ToolCall | None:
    """A call of the first tool on offer, with content for arguments; None when there is none
    or its result is there already.
    """
    tools = request.get("tools") or []
    said = json.dumps(request.get("messages") or request.get("input") or request.get("contents"))
    if not tools or any(mark in said for mark in _TOOL_RESULTS):
        return None
    declared = tools[0].get("functionDeclarations", tools)[0]
    function = declared.get("function", declared)
    schema: Json = next((function[key] for key in _SCHEMAS if key in function), {})
    return ToolCall(function["name"], dict.fromkeys(schema.get("properties", {}), "CANARY-7Q-COMPLETION"))
