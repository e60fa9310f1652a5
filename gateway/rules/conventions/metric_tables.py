"""Which metrics are usage, and how their points are read: one row a metric. Pure.

1. A metric's name chooses its row; names that came through Prometheus
   (`gen_ai_client_token_usage_tokens`) are found too. A name that means nothing by itself
   (`token.usage`) counts only under its product's scope.
2. What a point counts is stated by the metric's name, else by its type attribute
   (`token_kind`). A total repeats its parts and is never added; a type that no table knows is
   kept by its name, and added to nothing.
3. Where one product reports its tokens under several names, the smallest `rank` counts and the
   others are suppressed; alone, each counts. Calls go before all of them
   (`gateway.counting.metrics.sources`).
4. A metric that no row names is usage by its shape: its name speaks of tokens and of nothing else
   that is measured in tokens (`_NO_USAGE`), and each of its points names a kind of tokens and a
   model. Any metric of a known name goes before it.
"""

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from gateway.rules.conventions import shared
from gateway.rules.extract import NO_INTEREST, TEXT, AttributeTable, Interest
from gateway.rules.usage import Basis

PRODUCT_RANK: Final = 1
"""A product's own counter, which knows more kinds than the common metrics."""
COUNTER_RANK: Final = 2
HISTOGRAM_RANK: Final = 3
CLIENT_RANK: Final = 4
"""`gen_ai.client.token.usage`: input and output only."""
SHAPE_COUNTER_RANK: Final = 5
SHAPE_HISTOGRAM_RANK: Final = 6

TokenKind = Literal["input", "output", "cache_read", "cache_creation", "reasoning", "audio_input", "audio_output"]
TOTAL: Final = "total"
COST: Final = "cost"
REQUESTS: Final = "requests"
"""Of sums that state only how many calls there were."""


class MetricTable(NamedTuple):
    """How the points of one metric are read."""

    convention: str
    """As `source.convention` has it."""
    rank: int
    kind: str | None = None
    """What every point counts: a `TokenKind`, `COST`, or None where a type attribute states."""
    basis: Basis = Basis.INCLUSIVE
    output_excludes_reasoning: bool = False
    counts_calls: bool = False
    """Whether a histogram's count of one kind is the number of calls."""
    default_provider: str | None = None
    format: str = "otlp.metrics"
    """As `source.format` has it."""


_GEN_AI = MetricTable("gen_ai", CLIENT_RANK, counts_calls=True)
_COST = MetricTable("gen_ai", PRODUCT_RANK, COST)
_CLAUDE_CODE = MetricTable("claude_code", PRODUCT_RANK, basis=Basis.EXCLUSIVE, default_provider="anthropic")
_GEMINI_CLI = MetricTable("gemini_cli", PRODUCT_RANK, output_excludes_reasoning=True, default_provider="gcp.gemini")
_CODEX = MetricTable("codex", PRODUCT_RANK, default_provider="openai")
"""A histogram a turn: its count is turns."""
_CURSOR = MetricTable("cursor", PRODUCT_RANK, basis=Basis.UNSTATED)
_CLINE = MetricTable("cline", PRODUCT_RANK, basis=Basis.EXCLUSIVE)
_CLINE_HISTOGRAM = MetricTable("cline", HISTOGRAM_RANK, basis=Basis.EXCLUSIVE, counts_calls=True)
"""Its histograms repeat its counters."""


def _counter(kind: TokenKind) -> MetricTable:
    return MetricTable("gen_ai", COUNTER_RANK, kind)


def _histogram(kind: TokenKind) -> MetricTable:
    return MetricTable("gen_ai", HISTOGRAM_RANK, kind, counts_calls=True)


_PARTS: dict[str, TokenKind] = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read.input_tokens": "cache_read",
    "cache_read_input_tokens": "cache_read",
    "cache_write.input_tokens": "cache_creation",
    "cache_creation.input_tokens": "cache_creation",
    "cache_creation_input_tokens": "cache_creation",
    "reasoning.output_tokens": "reasoning",
    "reasoning_output_tokens": "reasoning",
    "audio.input_tokens": "audio_input",
    "audio.output_tokens": "audio_output",
}

_METRICS: dict[str, MetricTable] = {
    "gen_ai.client.token.usage": _GEN_AI,
    "agentgateway.gen_ai.client.token.usage": _GEN_AI,
    "gen_ai.usage.cost": _COST,
    "gen_ai.client.cost": _COST,
    "operation.cost": _COST,
    **{f"gen_ai.client.inference.usage.{name}": _counter(kind) for name, kind in _PARTS.items()},
    **{f"gen_ai.client.inference.operation.{name}": _histogram(kind) for name, kind in _PARTS.items()},
    "claude_code.token.usage": _CLAUDE_CODE,
    "claude_code.cost.usage": _CLAUDE_CODE._replace(kind=COST),
    "gemini_cli.token.usage": _GEMINI_CLI,
    "qwen-code.token.usage": MetricTable("qwen_code", PRODUCT_RANK),
    "codex.turn.token_usage": _CODEX,
    "cursor.token.usage": _CURSOR,
    "cursor.cost.usage": _CURSOR._replace(kind=COST),
    "cline.tokens.input.total": _CLINE._replace(kind="input"),
    "cline.tokens.output.total": _CLINE._replace(kind="output"),
    "cline.cache.read.tokens.total": _CLINE._replace(kind="cache_read"),
    "cline.cache.write.tokens.total": _CLINE._replace(kind="cache_creation"),
    "cline.cost.total": _CLINE._replace(kind=COST),
    "cline.tokens.input.per_response": _CLINE_HISTOGRAM._replace(kind="input"),
    "cline.tokens.output.per_response": _CLINE_HISTOGRAM._replace(kind="output"),
    "cline.cache.read.tokens.per_event": _CLINE_HISTOGRAM._replace(kind="cache_read"),
    "cline.cache.write.tokens.per_event": _CLINE_HISTOGRAM._replace(kind="cache_creation"),
    "cline.cost.per_event": _CLINE_HISTOGRAM._replace(kind=COST),
}

_SCOPED: dict[tuple[str, str], MetricTable] = {
    ("cursor.telemetry", "token.usage"): _CURSOR,
    ("cursor.telemetry", "cost.usage"): _CURSOR._replace(kind=COST),
}
"""(scope, metric): names that other products may use for other things. Cursor's and Cline's are
described from documentation."""

SHAPE: Final = "shape"
_BY_SHAPE = MetricTable(SHAPE, SHAPE_COUNTER_RANK, basis=Basis.UNSTATED)
_NO_USAGE: Final = frozenset(
    [
        "available",
        "average",
        "avg",
        "budget",
        "capacity",
        "context",
        "cost",
        "duration",
        "latency",
        "left",
        "limit",
        "limits",
        "max",
        "maximum",
        "mean",
        "min",
        "minimum",
        "per",
        "price",
        "quota",
        "rate",
        "remaining",
        "reserved",
        "s",
        "sec",
        "second",
        "seconds",
        "server",
        "size",
        "speed",
        "throughput",
        "time",
        "window",
    ]
)
"""Words of names that speak of tokens and count no usage, or that of a server's clients again."""
_TOKEN_UNITS: Final = frozenset({"", "1", "token", "tokens", "{token}", "{tokens}", "count", "{count}"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_UNIT = re.compile(r"_(tokens?|usd|total|ratio|sum)$")


def _flat(name: str) -> str:
    """The name as Prometheus has it, without the unit at its end."""
    flat = re.sub(r"[.\-]", "_", name.lower())
    while (cut := _UNIT.sub("", flat)) != flat:
        flat = cut
    return flat


_FLAT = {_flat(name): table for name, table in _METRICS.items()}


@lru_cache(maxsize=4096)
def metric_table(scope: str, name: str) -> MetricTable | None:
    """How the metric *name* of *scope* is read; None for one that is no usage."""
    found = _METRICS.get(name) or _SCOPED.get((scope, name))
    if found is not None or "." in name:
        return found
    return _FLAT.get(_flat(name))


@lru_cache(maxsize=4096)
def table_by_shape(name: str, unit: str, *, is_sum: bool) -> MetricTable | None:
    """How a metric that `metric_table` does not know is read, where its name and unit may be those
    of usage (rule 4); None where they may not.
    """
    if len(name) > _MAX_NAME_CHARS or unit.lower() not in _TOKEN_UNITS:
        return None
    words = {word.lower() for word in _WORD.findall(name)}
    if not words & {"token", "tokens"} or words & _NO_USAGE:
        return None
    return _BY_SHAPE if is_sum else _BY_SHAPE._replace(rank=SHAPE_HISTOGRAM_RANK)


# ---- what a point counts

_WORDS: dict[str, str] = {
    "input": "input",
    "prompt": "input",
    "output": "output",
    "completion": "output",
    "total": TOTAL,
    "thought": "reasoning",
    "thoughts": "reasoning",
    "thinking": "reasoning",
    "reasoning": "reasoning",
    "reasoningoutput": "reasoning",
    "outputreasoning": "reasoning",
    "audioinput": "audio_input",
    "inputaudio": "audio_input",
    "audiooutput": "audio_output",
    "outputaudio": "audio_output",
}
_MAX_TYPE_CHARS = 64
_MAX_NAME_CHARS = 255


@lru_cache(maxsize=1024)
def token_kind(sent: str) -> str | None:
    """What a type attribute's value means: a `TokenKind`, `TOTAL`, or
    None for a word no table knows.
    """
    word = re.sub(r"[^a-z]", "", sent[:_MAX_TYPE_CHARS].lower().replace("tokens", "").replace("token", ""))
    if "cache" in word:
        return "cache_creation" if "creat" in word or "write" in word else "cache_read"
    return _WORDS.get(word)


# ---- what a point states besides

_NAMES: dict[str, tuple[str, ...]] = {
    "provider": (*shared.NAMES["provider"], "provider", "model_provider"),
    "address": shared.NAMES["address"],
    "request_model": (*shared.NAMES["request_model"], "model", "cursor.model.name"),
    "response_model": shared.NAMES["response_model"],
    "operation": shared.NAMES["operation"],
    "service_tier": shared.NAMES["service_tier"],
    "kind": ("gen_ai.token.type", "cursor.token.type", "token_type", "token.type", "type"),
    "user": (*shared.NAMES["user"], "userId"),
    "session": (*shared.NAMES["session"], "ulid"),
    "team": (*shared.NAMES["team"], "cursor.team.id"),
    "project": shared.NAMES["project"],
}
"""Labels that are kept. Every other one is part of the series' identity only, as a hash."""


def _interests() -> AttributeTable:
    known: dict[str, Interest] = {}
    for field, names in _NAMES.items():
        kind = TEXT if field == "kind" else shared.kind_of(field)
        for rank, name in enumerate(names):
            known.setdefault(name, (field, rank, kind))
            known.setdefault(re.sub(r"[.\-]", "_", name), (field, rank, kind))
    return AttributeTable(known, lambda _: NO_INTEREST)


POINT_INTERESTS: Final = _interests()
_KIND_NAME = re.compile(r"(?:^|[._])(?:token|usage)[._]?(?:type|kind|direction)$|^(?:direction|kind)$", re.IGNORECASE)
_MODEL_NAME = re.compile(r"(?:^|[._])model(?:[._]?(?:name|id))?$", re.IGNORECASE)


def _interest_by_shape(name: str) -> Interest:
    if _KIND_NAME.search(name):
        return "kind", _BY_ANY_NAME, TEXT
    return ("request_model", _BY_ANY_NAME, TEXT) if _MODEL_NAME.search(name) else NO_INTEREST


_BY_ANY_NAME: Final = 99
"""Rank of names that no row lists."""
SHAPE_INTERESTS: Final = AttributeTable(POINT_INTERESTS, _interest_by_shape)
"""`POINT_INTERESTS`, and any name that ends as those of a model or a kind of tokens do."""
