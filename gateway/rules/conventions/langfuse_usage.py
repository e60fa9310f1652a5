"""Langfuse's usage objects -> token counts, inclusive as the record has them. Pure; for its
ingestion API and its OpenTelemetry SDKs.

Read from Langfuse's server (`packages/shared/src/server/ingestion/types.ts`), its Python SDKs 2.60
and 5.0 (`openai.py`, `callback/langchain.py`) and its page on token and cost tracking.

1. Buckets are free names that do not overlap: what has `input` in it is input, what has `output` in
   it is output, and their sum is what was used (`input` 176 + `input_cached_tokens` 1024). Without
   either word, names of caches are input, of reasoning output.
2. A `total` that states otherwise wins: senders put cached tokens beside an
   `input` that holds them already.
3. With `…_tokens_details` objects it is the provider's own usage, whose wholes hold their parts.
4. Other names are no tokens of either side; they are kept by their name where that is one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from gateway.rules.extract import MAX_COUNT
from gateway.rules.texts import Json, count_in

_INPUT_WHOLES = ("input", "prompt_tokens", "input_tokens", "promptTokens", "inputTokens")
_OUTPUT_WHOLES = ("output", "completion_tokens", "output_tokens", "completionTokens", "outputTokens")
_TOTALS = ("total", "total_tokens", "totalTokens")
_WHOLES = frozenset((*_INPUT_WHOLES, *_OUTPUT_WHOLES, *_TOTALS))
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details", "output_token_details")
_INPUT = re.compile(r"input|prompt|cache")
_OUTPUT = re.compile(r"output|completion|reason|thought|thinking")
_WRITTEN = re.compile(r"creat|writ")
_REASONING = re.compile(r"reason|thought|thinking")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MAX_BUCKETS = 64
_MAX_OTHER = 16
_MAX_TRIED = 8
"""Parts of which every selection is tried against the total."""


@dataclass(slots=True)
class Buckets:
    """One usage object, read."""

    counts: dict[str, int] = field(default_factory=dict)
    """By field, as `Picked.counts`; wholes include their parts."""
    other: dict[str, int | float] = field(default_factory=dict)
    """Numbers under names that are of no side."""


class _Part(NamedTuple):
    name: str
    tokens: int
    is_input: bool


def read_usage(usage: Mapping[str, Json]) -> Buckets:
    """What *usage* states."""
    found = Buckets()
    counts = found.counts
    given, output, total = (_count_in(usage, *names) for names in (_INPUT_WHOLES, _OUTPUT_WHOLES, _TOTALS))
    parts = list(_parts(usage, found.other))
    for part in parts:
        kind = _kind_of(part)
        if kind is not None:
            counts[kind] = counts.get(kind, 0) + part.tokens
    beside = [] if _has_details(usage) else _beside(parts, given, output, total)
    for field_name, whole, is_input in (("input", given, True), ("output", output, False)):
        if whole is not None or any(part.is_input == is_input for part in parts):
            counts[field_name] = (whole or 0) + sum(part.tokens for part in beside if part.is_input == is_input)
    if total is not None:
        counts["total"] = total
    return found


def _beside(parts: Sequence[_Part], given: int | None, output: int | None, total: int | None) -> list[_Part]:
    """The parts that stand beside their whole: all of them, less those that make the sum
    larger than the total (rule 2).
    """
    counted = [part for part in parts if part.tokens]
    excess = (given or 0) + (output or 0) + sum(part.tokens for part in counted) - (total or 0)
    if total is None or excess <= 0 or len(counted) > _MAX_TRIED:
        return counted
    for size in range(1, len(counted) + 1):
        for inside in combinations(range(len(counted)), size):
            if sum(counted[i].tokens for i in inside) == excess and _fit(counted, inside, given, output):
                return [part for i, part in enumerate(counted) if i not in inside]
    return counted


def _fit(parts: Sequence[_Part], inside: Sequence[int], given: int | None, output: int | None) -> bool:
    """Whether the parts *inside* fit in their wholes."""
    held = sum(parts[i].tokens for i in inside if parts[i].is_input)
    return held <= (given or 0) and sum(parts[i].tokens for i in inside) - held <= (output or 0)


def _has_details(usage: Mapping[str, Json]) -> bool:
    return any(isinstance(usage.get(name), dict) for name in (*_INPUT_DETAILS, *_OUTPUT_DETAILS))


def _parts(usage: Mapping[str, Json], other: dict[str, int | float]) -> Iterator[_Part]:
    """Each part; numbers of neither side go to *other*."""
    for names, is_input in ((_INPUT_DETAILS, True), (_OUTPUT_DETAILS, False)):
        for details in (usage.get(name) for name in names):
            if isinstance(details, dict):
                yield from (_Part(name, count, is_input) for name, count in _counts(details))
    for name, count in _counts(usage):
        low = name.lower()
        if name in _WHOLES:
            continue
        if _OUTPUT.search(low) and "input" not in low:
            yield _Part(name, count, is_input=False)
        elif _INPUT.search(low):
            yield _Part(name, count, is_input=True)
        elif _NAME.fullmatch(name) and len(other) < _MAX_OTHER:
            other[name] = count


def _counts(buckets: Mapping[str, Json]) -> Iterator[tuple[str, int]]:
    for name in list(buckets)[:_MAX_BUCKETS]:
        count = _count_in(buckets, name)
        if count is not None:
            yield name, count


def _count_in(usage: Mapping[str, Json], *names: str) -> int | None:
    count = count_in(usage, *names)
    return count if count is not None and count <= MAX_COUNT else None


def _kind_of(part: _Part) -> str | None:
    """The field that a part is counted under, besides its whole."""
    low = part.name.lower()
    if not part.is_input:
        return "reasoning" if _REASONING.search(low) else "audio_output" if "audio" in low else None
    if "cach" in low:
        if not _WRITTEN.search(low):
            return "cache_read"
        return "cache_creation_1h" if "1h" in low else "cache_creation_5m" if "5m" in low else "cache_creation"
    return "audio_input" if "audio" in low else None
