"""The partition of tokens: what a sender said, as the record has it. Pure.

1. `input_tokens` includes cache reads and writes, `output_tokens` includes reasoning.
2. Whether a sender's input does so already is stated by the provider's own usage where that
   travels along, else by the sender's table (`Basis`). Where the table does not know, an input
   smaller than its cache parts proves that it does not.
3. A part larger than its whole is kept with the flag `inconsistent_usage`, never repaired.
4. Unknown is absent. 0/0 of a failed call is unknown, not zero.
"""

from enum import Enum

from gateway.normalise.extract import Extracted
from spool.record import Usage, UsageStatus


class Basis(Enum):
    """What a sender's input holds."""

    INCLUSIVE = "input holds cache reads and writes"
    EXCLUSIVE = "input excludes them: they are added"
    UNSTATED = "the table does not know: inclusive, unless the numbers prove otherwise"


_DETAILS = frozenset({"reasoning", "cache_creation_1h", "audio_input", "audio_output"})
"""Counts beyond the wholes and the cache: most calls have none."""
INCLUSIVE, _EXCLUSIVE, _UNSTATED = Basis
"""The same by plain names: looking a member up in its class takes as long as calling a function."""

Counted = tuple[Usage, bool]
"""The usage, and whether every part fits its whole. A plain tuple: this is made once a call."""


def has_cache(counts: dict[str, int]) -> bool:
    """Whether any cache part is known: only then the basis matters."""
    return (
        "cache_read" in counts
        or "cache_creation" in counts
        or "cache_creation_1h" in counts
        or "cache_creation_5m" in counts
    )


def _cache_creation(written: int | None, counts: dict[str, int]) -> int | None:
    """Cache writes; the sum of their 5 min and 1 h parts where that states more (LangChain
    reports 0 beside the parts).
    """
    parts = counts.get("cache_creation_1h", 0) + counts.get("cache_creation_5m", 0)
    return parts if parts > (written or 0) else written


def partition(picked: Extracted, basis: Basis, *, failed: bool, began: bool, output_expected: bool) -> Counted:
    """The usage of one call.

    *began*: an answer had begun to arrive (a response id, a first token), so a failure is not free.
    *output_expected*: false for embeddings, whose input alone is the whole report.
    """
    counts = picked.counts
    given, output = counts.get("input"), counts.get("output")
    if not given and not output and (failed or (given is None and output is None)):
        return _nothing(picked, failed=failed, began=began)
    complete = given is not None and (output is not None or not output_expected)
    usage: Usage = {"status": "reported" if complete else "partial"}
    cached = _add_cache(usage, counts)
    consistent = True
    if given is not None:
        if cached and _excludes(given, cached, basis, counts.get("native_input")):
            given += cached
        usage["input_tokens"] = given
        consistent = cached <= given
    if output is not None:
        if "output_excludes_reasoning" in picked.numbers:
            output += counts.get("reasoning", 0)
        usage["output_tokens"] = output
    if not _DETAILS.isdisjoint(counts):
        consistent = _add_details(usage, counts, given, output) and consistent
    if picked.other:
        usage["other"] = picked.other
    return usage, consistent


def _excludes(given: int, cached: int, basis: Basis, native: int | None) -> bool:
    """Whether *given* leaves out the *cached* tokens: by the provider's own number where that
    is at hand, else by the basis.
    """
    if native is not None and given in {native, native + cached}:
        return given == native
    return basis is _EXCLUSIVE or (basis is _UNSTATED and given < cached)


def _add_cache(usage: Usage, counts: dict[str, int]) -> int:
    """Cache reads and writes; their sum."""
    cached = counts.get("cache_read", 0)
    if "cache_read" in counts:
        usage["cache_read_input_tokens"] = cached
    written = counts.get("cache_creation")
    if "cache_creation_1h" in counts or "cache_creation_5m" in counts:
        written = _cache_creation(written, counts)
    if written is None:
        return cached
    usage["cache_creation_input_tokens"] = written
    return cached + written


def _add_details(usage: Usage, counts: dict[str, int], given: int | None, output: int | None) -> bool:
    """The rarer parts; whether each fits its whole."""
    consistent = True
    reasoning = counts.get("reasoning")
    if reasoning is not None:
        usage["reasoning_output_tokens"] = reasoning
        consistent = output is None or reasoning <= output
    hour = counts.get("cache_creation_1h")
    if hour is not None:
        usage["cache_creation_1h_input_tokens"] = hour
        consistent = consistent and hour <= (usage.get("cache_creation_input_tokens") or 0)
    audio_in = counts.get("audio_input")
    if audio_in is not None:
        usage["audio_input_tokens"] = audio_in
        consistent = consistent and (given is None or audio_in <= given)
    audio_out = counts.get("audio_output")
    if audio_out is not None:
        usage["audio_output_tokens"] = audio_out
        consistent = consistent and (output is None or audio_out <= output)
    return consistent


def _nothing(picked: Extracted, *, failed: bool, began: bool) -> Counted:
    """A call that reported no usage: `none` for a failure that never began, else `missing`. A
    bare total is kept beside it.
    """
    status: UsageStatus = "none" if failed and not began else "missing"
    usage: Usage = {"status": status}
    other = dict(picked.other or {})
    if total := picked.counts.get("total"):
        usage["status"] = "missing"
        other["total_tokens"] = total
    if other:
        usage["other"] = other
    return usage, True
