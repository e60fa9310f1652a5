"""A model provider on loopback for real clients (standard library only): it knows the true usage of every call it served.

    python -m tests.support.mock_llm

Prints `{"port": N}` once it listens. Any path may carry a prefix `/s/<scenario>`, so that a client's base URL can be
`http://127.0.0.1:N/s/<scenario>/v1`:

    POST …/chat/completions    OpenAI chat, streamed or not (`stream_options.include_usage` honoured)
    POST …/embeddings          OpenAI embeddings, float and base64
    GET  /_served              the truth: a JSON array of `Served`, one object a call

The token counts of the n-th call of a scenario are primes derived from (scenario, n), from ranges that do not overlap
by kind, so a number tells what it is and a rerun gives the same ones. Every completion holds `CANARY-7Q-COMPLETION`
and every error text `CANARY-7Q-PROMPT`. A scenario with `error429` or `error500` in its name always fails.
"""

import base64
import hashlib
import json
import struct
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypedDict, cast

COMPLETION = "The answer is CANARY-7Q-COMPLETION, thank you."
RESPONSE_MODEL = {
    "gpt-4o": "gpt-4o-2024-08-06",
    "gpt-4o-mini": "gpt-4o-mini-2024-07-18",
    "gpt-4.1-mini": "gpt-4.1-mini-2025-04-14",
}
_ERRORS = {"error429": (429, "rate_limit_error"), "error500": (500, "api_error")}

Json = dict[str, Any]


class Served(TypedDict):
    """One call as the provider saw it; a count is None when the client was not told it."""

    scenario: str
    operation: str
    request_model: str
    response_model: str | None
    response_id: str | None
    stream: bool
    status: int
    prompt_canary: bool
    """Whether the request's text held the prompt canary."""
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    reasoning_tokens: int | None


class Numbers(NamedTuple):
    """Token counts of one call; the wholes include their parts."""

    input: int
    output: int
    cache_read: int
    reasoning: int


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
        reasoning=_pick(seed, "reason", 100, 400),
    )


class Provider(ThreadingHTTPServer):
    """The server, and what it served."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.served: list[Served] = []
        self._calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def next_call(self, scenario: str) -> int:
        """The number of this call in its scenario, from 1."""
        with self._lock:
            self._calls[scenario] += 1
            return self._calls[scenario]

    def record(self, served: Served) -> None:
        """Remember a call before its answer is sent, so that whoever has the answer finds it here."""
        with self._lock:
            self.served.append(served)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "mock-llm"

    def log_message(self, *arguments: object) -> None:
        """Say nothing: standard error is for failures."""

    def do_GET(self) -> None:
        served = cast("Provider", self.server).served
        self._send_json(served if self.path == "/_served" else {"object": "list", "data": []})

    def do_POST(self) -> None:
        request: Json = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))))
        parts = self.path.split("/")
        scenario = parts[2] if parts[1] == "s" else "default"
        if self.path.endswith("/chat/completions"):
            self._call(scenario, "chat", request)
        elif self.path.endswith("/embeddings"):
            self._call(scenario, "embeddings", request)
        else:
            self._send_json({"error": {"message": "no such path", "type": "invalid_request_error"}}, 404)

    def _call(self, scenario: str, operation: str, request: Json) -> None:
        provider = cast("Provider", self.server)
        n = provider.next_call(scenario)
        served = Served(
            scenario=scenario,
            operation=operation,
            request_model=request.get("model", ""),
            response_model=None,
            response_id=None,
            stream=bool(request.get("stream")),
            status=200,
            prompt_canary="CANARY-7Q-PROMPT" in json.dumps(request),
            input_tokens=None,
            output_tokens=None,
            cache_read_tokens=None,
            reasoning_tokens=None,
        )
        failure = next((found for name, found in _ERRORS.items() if name in scenario), None)
        if failure is not None:
            served["status"], kind = failure
            provider.record(served)
            message = f"mock failure {failure[0]} for CANARY-7Q-PROMPT"
            self._send_json({"error": {"message": message, "type": kind, "param": None, "code": None}}, failure[0])
            return
        usage = numbers(scenario, n)
        served["response_model"] = RESPONSE_MODEL.get(served["request_model"], served["request_model"])
        if operation == "embeddings":
            served["input_tokens"] = usage.input
            provider.record(served)
            self._send_json(_embeddings(request, served, usage))
        else:
            served["response_id"] = "chatcmpl-" + hashlib.sha256(f"{scenario}#{n}".encode()).hexdigest()[:24]
            self._chat(request, served, usage)

    def _chat(self, request: Json, served: Served, usage: Numbers) -> None:
        told = not served["stream"] or bool((request.get("stream_options") or {}).get("include_usage"))
        if told:
            served["input_tokens"], served["output_tokens"] = usage.input, usage.output
            served["cache_read_tokens"], served["reasoning_tokens"] = usage.cache_read, usage.reasoning
        cast("Provider", self.server).record(served)
        head: Json = {"id": served["response_id"], "created": 1760000000, "model": served["response_model"]}
        if served["stream"]:
            self._send_events(_chunks(head, _chat_usage(usage) if told else None))
        else:
            message = {"role": "assistant", "content": COMPLETION, "refusal": None}
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
            body = {**head, "object": "chat.completion", "usage": _chat_usage(usage), "choices": [choice]}
            self._send_json(body)

    def _send_json(self, body: Json | Sequence[Served], status: int = 200) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _send_events(self, events: Iterable[Json]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for data in (*(json.dumps(event) for event in events), "[DONE]"):
            blob = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(blob), blob))
        self.wfile.write(b"0\r\n\r\n")


def _chat_usage(usage: Numbers) -> Json:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }


def _chunks(head: Json, usage: Json | None) -> list[Json]:
    base = {**head, "object": "chat.completion.chunk"}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    words = [chunk({"content": word + " "}) for word in COMPLETION.split(" ")]
    last: list[Json] = [{**base, "choices": [], "usage": usage}] if usage is not None else []
    return [chunk({"role": "assistant", "content": ""}), *words, chunk({}, "stop"), *last]


def _embeddings(request: Json, served: Served, usage: Numbers) -> Json:
    given = request.get("input")
    count = len(given) if isinstance(given, list) else 1
    vector = [round((i + 1) / 97, 6) for i in range(8)]
    packed = base64.b64encode(struct.pack("<8f", *vector)).decode()
    embedding = packed if request.get("encoding_format") == "base64" else vector
    data = [{"object": "embedding", "index": i, "embedding": embedding} for i in range(count)]
    told = {"prompt_tokens": usage.input, "total_tokens": usage.input}
    return {"object": "list", "model": served["response_model"], "usage": told, "data": data}


if __name__ == "__main__":
    server = Provider()
    sys.stdout.write(json.dumps({"port": server.server_address[1]}) + "\n")
    sys.stdout.flush()
    server.serve_forever()
