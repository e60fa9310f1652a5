"""A model provider on loopback for real clients (standard library only): it knows the true
usage of every call it served.

    python -m tests.support.mock_llm

Prints `{"port": N}` once it listens. Any path may carry a prefix `/s/<scenario>`, so that a
client's base URL can be `http://127.0.0.1:N/s/<scenario>/v1`:

    POST …/chat/completions    OpenAI chat, streamed or not, with `stream_options.include_usage`
    POST …/responses           OpenAI responses, streamed or not
    POST …/embeddings          OpenAI embeddings, float and base64
    POST …/messages            Anthropic messages, streamed or not
    POST …/models/<model>:generateContent, :streamGenerateContent    Gemini
    POST …/model/<model>/converse, /converse-stream    Amazon Bedrock
    GET  /_served              the truth: a JSON array of `Served`, one object a call

Every completion holds `CANARY-7Q-COMPLETION` and every error text `CANARY-7Q-PROMPT`. A request
that offers tools and holds no tool's result yet is answered with a call of the first one. A
scenario with `error429`, `error500` or `error529` in its name always fails.
"""

import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, TypedDict, cast
from urllib.parse import unquote

from tests.support.mock_apis import anthropic, bedrock, gemini, openai
from tests.support.mock_apis.turn import Event, Frames, Json, Reply, Turn, identity, numbers, wanted_tool

RESPONSE_MODEL = {
    "claude-haiku-4-5": "claude-haiku-4-5-20251001",
    "claude-sonnet-4-5": "claude-sonnet-4-5-20250929",
    "gemini-2.5-flash": "gemini-2.5-flash-002",
    "gpt-4o": "gpt-4o-2024-08-06",
    "gpt-4o-mini": "gpt-4o-mini-2024-07-18",
    "gpt-4.1-mini": "gpt-4.1-mini-2025-04-14",
}
_ERRORS = {"error429": (429, "rate_limit_error"), "error500": (500, "api_error"), "error529": (529, "overloaded_error")}
_GEMINI_PATH = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent)$")


class Served(TypedDict):
    """One call as the provider saw it; a count is None when the client was not reported it."""

    scenario: str
    provider: str
    operation: str
    request_model: str
    response_model: str | None
    response_id: str | None
    stream: bool
    status: int
    prompt_canary: bool
    """Whether the request's text held the prompt canary."""
    asked_for_tool: bool
    """Whether the answer was a call of one of the request's tools."""
    input_tokens: int | None
    """As billed: with what was read from and written to the cache."""
    output_tokens: int | None
    """As billed: with the reasoning."""
    cache_read_tokens: int | None
    cache_creation_tokens: int | None
    reasoning_tokens: int | None


class Api(NamedTuple):
    """One path of one provider."""

    provider: str
    operation: str
    answer: Callable[[Turn], Reply]


_APIS = {
    "/chat/completions": Api("openai", "chat", openai.chat),
    "/responses": Api("openai", "chat", openai.responses),
    "/embeddings": Api("openai", "embeddings", openai.embeddings),
    "/messages": Api("anthropic", "chat", anthropic.messages),
}
_CONVERSE_PATH = re.compile(r"/model/([^/]+)/(converse|converse-stream)$")
_BEDROCK = Api("aws.bedrock", "chat", bedrock.converse)
_GEMINI = Api("gcp.gemini", "generate_content", gemini.generate_content)


class Provider(ThreadingHTTPServer):
    """The server, and what it served."""

    daemon_threads = True

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), _Handler)
        self.served: list[Served] = []
        self._calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def next_call(self, scenario: str) -> int:
        """The number of this call in its scenario, from 1."""
        with self._lock:
            self._calls[scenario] += 1
            return self._calls[scenario]

    def record(self, served: Served) -> None:
        """Remember a call before its answer is sent, so that whoever has
        the answer finds it here.
        """
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
        path = self.path.split("?")[0]
        parts = path.split("/")
        scenario = parts[2] if parts[1] == "s" else "default"
        api = next((found for tail, found in _APIS.items() if path.endswith(tail)), None)
        generated = _GEMINI_PATH.search(path)
        if generated:
            api = _GEMINI
            request |= {"model": generated[1], "stream": generated[2] == "streamGenerateContent"}
        conversed = _CONVERSE_PATH.search(path)
        if conversed:
            api = _BEDROCK
            request |= {"model": unquote(conversed[1]), "stream": conversed[2] == "converse-stream"}
        if api is None:
            self._send_json({"error": {"message": "no such path", "type": "invalid_request_error"}}, 404)
        else:
            self._call(scenario, api, request)

    def _call(self, scenario: str, api: Api, request: Json) -> None:
        provider = cast("Provider", self.server)
        n = provider.next_call(scenario)
        served = _unanswered(scenario, api, request)
        failure = next((found for name, found in _ERRORS.items() if name in scenario), None)
        if failure is not None:
            status, kind = failure
            served["status"] = status
            provider.record(served)
            self._send_json(_error_body(api.provider, status, kind), status)
            return
        model = RESPONSE_MODEL.get(served["request_model"], served["request_model"])
        turn = Turn(request, model, identity(scenario, n), numbers(scenario, n), wanted_tool(request))
        reply = api.answer(turn)
        served["response_model"], served["response_id"] = model, reply.response_id
        served["asked_for_tool"] = turn.tool is not None
        (
            served["input_tokens"],
            served["output_tokens"],
            served["cache_read_tokens"],
            served["cache_creation_tokens"],
            served["reasoning_tokens"],
        ) = reply.told
        provider.record(served)
        if isinstance(reply.content, dict):
            self._send_json(reply.content)
        elif isinstance(reply.content, Frames):
            self._send(reply.content.body, reply.content.content_type)
        else:
            self._send_events(reply.content)

    def _send_json(self, body: Json | Sequence[Served], status: int = 200) -> None:
        self._send(json.dumps(body).encode(), "application/json", status)

    def _send(self, raw: bytes, content_type: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _send_events(self, events: Sequence[Event]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            blob = f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(blob), blob))
        self.wfile.write(b"0\r\n\r\n")


def _unanswered(scenario: str, api: Api, request: Json) -> Served:
    return Served(
        scenario=scenario,
        provider=api.provider,
        operation=api.operation,
        request_model=request.get("model", ""),
        response_model=None,
        response_id=None,
        stream=bool(request.get("stream")),
        status=200,
        prompt_canary="CANARY-7Q-PROMPT" in json.dumps(request),
        asked_for_tool=False,
        input_tokens=None,
        output_tokens=None,
        cache_read_tokens=None,
        cache_creation_tokens=None,
        reasoning_tokens=None,
    )


def _error_body(provider: str, status: int, kind: str) -> Json:
    message = f"mock failure {status} for CANARY-7Q-PROMPT"
    if provider == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    if provider == "gcp.gemini":
        return {"error": {"code": status, "message": message, "status": "RESOURCE_EXHAUSTED"}}
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


if __name__ == "__main__":
    server = Provider()
    sys.stdout.write(json.dumps({"port": server.server_address[1]}) + "\n")
    sys.stdout.flush()
    server.serve_forever()
