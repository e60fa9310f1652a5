"""What a source is: a product that pushes its telemetry in a shape of its own to `POST
/v1/sources/{name}`. Pure.

A source is one folder here: its table (`Convention` over JSON paths) and its function `read`. How
it proves who it is and how it wants to be answered stand beside them, as data;
`gateway.serve.http.sources` does the I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gateway.products.documents import Document, ReadLine
from gateway.rules.call import Normalised
from gateway.rules.context import Context
from gateway.rules.points import UsagePoints

SOURCES_PATH = "/v1/sources"
TOKEN_PATH = "/token/{token}"  # noqa: S105 - where one stands
"""Behind a source's path."""

WayIn = Literal["key", "firehose_access_key", "vendor_headers", "path_token", "hmac_sha256", "hmac_sha1"]
"""How a sender shows its key. `key`: as everywhere (bare, Bearer, Basic, x-api-key, api-key). The
others are in `gateway.serve.auth_methods`; `path_token` and the signatures work only where the
configuration turns them on."""

AnswerKind = Literal["json", "langfuse", "firehose"]
"""How the sender is answered: `gateway.serve.http.source_responses`."""


class Thread(NamedTuple):
    """What a payload states of all calls of one thread (a trace, a session),
    whichever request those come in.
    """

    id: str
    who: Mapping[str, str]
    """Attribution fields, as in `Picked.who`."""
    at_ms: int
    """When it was stated; 0 for unknown."""


@dataclass(slots=True)
class SourceRead:
    """What a payload came to: calls and outcomes, and for sources that sum up, points of usage."""

    calls: Normalised = field(default_factory=Normalised)
    measured: UsagePoints = field(default_factory=UsagePoints)
    threads: list[Thread] = field(default_factory=list)
    threads_of_calls: dict[str, str] = field(default_factory=dict)
    """Record id of a call -> its thread's id:
    `gateway.pipeline.trace_attributes` brings both together."""
    answer: dict[str, object] = field(default_factory=dict)
    """What the answer repeats of the payload (Firehose's `requestId`, Langfuse's event
    ids): ids only, plain types."""


Read = Callable[[Sequence[Document], SourceRead, Context], None]
"""(documents, what to add to, context). Every item found gets one outcome: `items` counts it, and
it becomes a call, or a count under `suppressed`, `ignored` or a Rejection with its document's
position. Raises BadPayload where nothing can ever be read."""


class Snippet(NamedTuple):
    """What an operator pastes into the product.

    `{url}` stands for the source's address, `{key}` for the inbound key.
    """

    language: str
    """For the fence in the docs: `yaml`, `sh`, `json`, `text`."""
    text: str

    def addressed(self, *, url: str, key: str) -> str:
        """The text with these in place of the placeholders."""
        return self.text.format(url=url, key=key)


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    """In the path, in `source.convention` of the record, and in the docs: lower case, dashes."""
    title: str
    """The product's name as people write it."""
    read: Read
    snippet: Snippet
    retries: str
    """What the sender does on an answer that is not 2xx, in one sentence (formats.md, part 3)."""
    ways_in: tuple[WayIn, ...] = ("key",)
    answers: AnswerKind = "json"
    native_paths: tuple[str, ...] = ()
    """Paths that the client appends to whatever address it is given, or that it
    cannot be asked to change."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Reason of a rejection -> why a request is refused of which every item is rejected for it."""
    otlp_prefixes: tuple[str, ...] = ()
    """Before `/v1/traces`, for clients that put their own path there."""
    trim: Callable[[bytes], bytes] | None = None
    """Cuts out of a body, before it is parsed, what no one reads; where the rest is no
    JSON, the whole body is read."""
    read_line: ReadLine | None = None
    """For log lines that are no JSON."""
    environment: Snippet | None = None
    """Settings of the product's environment that the snippet needs; None where it needs none."""

    @property
    def path(self) -> str:
        return f"{SOURCES_PATH}/{self.name}"

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """All that an operator pastes, in that order."""
        return (self.snippet,) if self.environment is None else (self.environment, self.snippet)
