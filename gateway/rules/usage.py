"""The partition of tokens: what a sender stated, as the record has it. Pure.

1. `input_tokens` includes cache reads and writes, `output_tokens` includes reasoning.
2. What a sender's whole holds is decided by the first of these (`Proof`):
   1. the provider's own usage object, where it travels along and has the same number;
   2. the stated total, where it is the sum of the wholes and parts that stand beside them. A total
      that is the sum of the wholes alone proves nothing, for most libraries add it up themselves;
   3. a part greater than its whole;
   4. the sender's table, by instrumentation, provider and operation (`Basis`);
   5. else the whole holds its parts.
3. A total that is more than all that is stated, of who counts cache and reasoning in: the sender
   left the cache out of the input and states it nowhere. It is the rest.
   Google's total may state more than all parts do, where the sender leaves the thoughts out of the
   output and states them nowhere: they are the rest.
4. Numbers that contradict each other are kept as sent, with the flag `inconsistent_usage`: a part
   larger than its whole, a total that no reading adds up to, a provider's object with other wholes,
   two proofs against each other.
5. Unknown is absent. 0/0 is unknown, not zero: libraries initialise both with 0, and send that
   where no usage was reported to them. It is true of an operation without an output, of what a
   gateway's own cache answered, and beside a part that is known.
"""

from enum import Enum
from typing import Final, NamedTuple

from gateway.rules.extract import Extracted
from gateway.rules.provider import counts_cache_apart
from spool.record import Usage, UsageStatus


class Basis(Enum):
    """What a sender's whole holds: of an input cache reads and writes, of an output reasoning."""

    INCLUSIVE = "the whole holds its parts"
    EXCLUSIVE = "the whole excludes its parts: they are added"
    UNSTATED = "the table does not know: inclusive, unless the numbers prove otherwise"
    CONFIGURED = "the operator states that the whole holds its parts: no numbers prove otherwise"


class Proof(Enum):
    """What decided what a whole holds, in order of precedence."""

    OBJECT = "the provider's own usage object"
    TOTAL = "the stated total"
    PARTS = "parts greater than the whole"
    TABLE = "the convention's table"
    NOTHING = "nothing"


_DETAILS = frozenset({"cache_creation_1h", "audio_input", "audio_output"})
"""Counts beyond the wholes, the cache and reasoning: most calls have none."""
INCLUSIVE, EXCLUSIVE, UNSTATED, CONFIGURED = Basis
"""The same by plain names: looking a member up in its class takes as long as calling a function."""

Counted = tuple[Usage, bool]
"""The usage, and whether its numbers agree. A plain tuple: this is made once a call."""


class Wholes(NamedTuple):
    """Input and output as the record has them, and why."""

    input: int | None
    input_proof: Proof
    output: int | None
    output_proof: Proof
    thoughts: int | None
    """Reasoning that only the total states; None for none."""
    is_sound: bool
    """False where numbers contradict each other."""


def has_cache(counts: dict[str, int]) -> bool:
    """Whether any cache part is known: only then the input's basis matters."""
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


def partition(  # noqa: C901 - flat: it runs once for every call
    picked: Extracted,
    basis: Basis,
    output_basis: Basis,
    *,
    failed: bool,
    began: bool,
    output_expected: bool,
    cache_hit: bool = False,
) -> Counted:
    """The usage of one call.

    *began*: an answer had begun to arrive (a response id, a first token), so a failure is not free.
    *output_expected*: false for embeddings, whose input alone is the whole report.
    *cache_hit*: a gateway's own cache answered, which takes no tokens.
    """
    counts = picked.counts
    given, output = counts.get("input"), counts.get("output")
    if (
        not given
        and not output
        and (failed or (given is None and output is None) or (output_expected and not cache_hit and _is_empty(counts)))
    ):
        return _nothing(picked, failed=failed, began=began)
    complete = given is not None and (output is not None or not output_expected)
    usage: Usage = {"status": "reported" if complete else "partial"}
    cached = _add_cache(usage, counts)
    reasoning = counts.get("reasoning")
    consistent = True
    total = counts.get("total")
    if (
        "native_input" in counts
        or "native_output" in counts
        or (total and given is not None and output is not None and total != given + output)
    ):
        wholes = read_wholes(counts, cached, basis, output_basis)
        given, output, consistent = wholes.input, wholes.output, wholes.is_sound
        if wholes.thoughts is not None:
            reasoning = wholes.thoughts
    else:  # the same, where neither an object nor a total proves anything; most calls are read here
        if cached and given is not None and (basis is EXCLUSIVE or (cached > given and basis is not CONFIGURED)):
            given += cached
        if (
            reasoning
            and output is not None
            and (output_basis is EXCLUSIVE or (reasoning > output and output_basis is not CONFIGURED))
        ):
            output += reasoning
    if given is not None:
        usage["input_tokens"] = given
        consistent = consistent and cached <= given
    if output is not None:
        usage["output_tokens"] = output
    if reasoning is not None:
        usage["reasoning_output_tokens"] = reasoning
        consistent = consistent and (output is None or reasoning <= output)
    if not _DETAILS.isdisjoint(counts):
        consistent = _add_details(usage, counts, given, output) and consistent
    if picked.other:
        usage["other"] = picked.other
    return usage, consistent


def _is_empty(counts: dict[str, int]) -> bool:
    """Whether every count but the total is 0: the total alone does not say what is input."""
    return not any(count for name, count in counts.items() if name != "total")


_SAME: Final = (False, False, 0, True)


def read_wholes(counts: dict[str, int], cached: int, basis: Basis, output_basis: Basis) -> Wholes:
    """Rules 2 to 4, of counts whose cache parts sum up to *cached*."""
    given, output, reasoning = counts.get("input"), counts.get("output"), counts.get("reasoning", 0)
    adds_cache, adds_reasoning, rest, is_sound = _by_total(counts, cached, basis, output_basis)
    proof = output_proof = Proof.NOTHING
    hidden = 0
    if not is_sound and basis is EXCLUSIVE and not cached and given is not None and output is not None:
        hidden, is_sound = max(0, counts["total"] - given - output), counts["total"] > given + output
    if given is not None:
        given, proof, agrees = _whole(
            given, cached, basis, counts.get("native_input"), counts.get("whole_input"), by_total=adds_cache
        )
        is_sound = is_sound and agrees
        if hidden:
            given, proof = given + hidden, Proof.TOTAL
    if output is not None:
        output, output_proof, agrees = _whole(
            output, reasoning, output_basis, counts.get("native_output"), counts.get("whole_output"),
            by_total=adds_reasoning,
        )  # fmt: skip
        is_sound = is_sound and agrees
        if rest:
            output, output_proof = output + rest, Proof.TOTAL
    return Wholes(given, proof, output, output_proof, rest or None, is_sound)


def _whole(
    sent: int, parts: int, basis: Basis, native: int | None, whole: int | None, *, by_total: bool
) -> tuple[int, Proof, bool]:
    """One whole as the record has it, what decided it, and whether nothing contradicts that."""
    if whole is not None and sent in {native, whole} and (parts or native != whole):
        return (sent if sent == whole else whole), Proof.OBJECT, not (by_total and sent == whole)
    agrees = native is None or sent in {native, whole}
    if not parts:
        return sent, Proof.NOTHING, agrees
    proof = _proof(sent, parts, basis, by_total=by_total)
    adds = proof in {Proof.TOTAL, Proof.PARTS} or (proof is Proof.TABLE and basis is EXCLUSIVE)
    return sent + parts if adds else sent, proof, agrees


def _proof(sent: int, parts: int, basis: Basis, *, by_total: bool) -> Proof:
    """What decides where the provider's own object does not."""
    if basis is CONFIGURED:
        return Proof.TABLE
    if by_total:
        return Proof.TOTAL
    if parts > sent:
        return Proof.PARTS
    return Proof.NOTHING if basis is UNSTATED else Proof.TABLE


def _by_total(counts: dict[str, int], cached: int, basis: Basis, output_basis: Basis) -> tuple[bool, bool, int, bool]:
    """Whether the stated total proves that cache and reasoning stand beside their wholes; the
    thoughts that it alone states; false last where no reading adds up to it.
    """
    given, output, total = counts.get("input"), counts.get("output"), counts.get("total")
    if not total or given is None or output is None or total == given + output:
        return _SAME
    if total == counts.get("whole_input", 0) + counts.get("whole_output", 0):
        return _SAME  # as the provider's own object adds up
    beside, reasoning = total - given - output, counts.get("reasoning", 0)
    if cached and reasoning and cached == reasoning and beside == cached:
        return _SAME  # either may be meant
    for adds_cache, adds_reasoning in _READINGS:
        if beside == (cached if adds_cache else 0) + (reasoning if adds_reasoning else 0):
            return adds_cache, adds_reasoning, 0, True
    if output_basis is EXCLUSIVE and not reasoning:
        rest = beside - (cached if basis is EXCLUSIVE and beside > cached else 0)
        if rest > 0:
            return False, False, rest, True
    return False, False, 0, False


_READINGS = ((True, False), (False, True), (True, True))
"""Whether cache, and whether reasoning, stand beside their wholes; of equal sums the first one."""


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


def cached_tokens(counts: dict[str, int]) -> int:
    """All cache parts of *counts*."""
    return _add_cache({"status": "reported"}, counts)


ASSUMED, SHOWN_INCLUSIVE, SHOWN_EXCLUSIVE = 1, 2, 3
"""How an input was read of which no table knows what it holds: nothing shows it, or the call's own
numbers do."""
SHOWN: Final = "shown_basis"
"""Which of these, among the counts of a call that was read."""


def shown_basis(counts: dict[str, int], usage: Usage, served_by: str | None, model: str | None) -> int:
    """How the input was read, of which no table knows what it holds; 0 where it does not matter.
    Only who counts the cache apart leaves it open.
    """
    if not counts_cache_apart(served_by, model) or "input" not in counts or "input_tokens" not in usage:
        return 0
    if cached_tokens(counts) <= 0:
        return 0
    if usage["input_tokens"] != counts["input"]:
        return SHOWN_EXCLUSIVE
    if "native_input" not in counts:
        return ASSUMED
    return SHOWN_INCLUSIVE if counts.get("whole_input") == counts["input"] else 0


def _add_details(usage: Usage, counts: dict[str, int], given: int | None, output: int | None) -> bool:
    """The rarer parts; whether each fits its whole."""
    consistent = True
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
