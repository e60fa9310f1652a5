"""Compare inference records with what a corpus meta file expects; the rules are
those of the corpus READMEs.

One record of kind `call` for each expected call (`n_records`, default 1), whole counts exact,
unknown wholes null and never 0, parts null or 0 where unknown, equal names of one provider, no
`aggregate` with tokens beside calls, and for files of metrics alone the sums of the aggregates
equal to `expected_totals`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Meta = Mapping[str, Any]
JsonRecord = Mapping[str, Any]

PROVIDERS = [
    {"gemini", "gcp.gemini", "gcp.gen_ai", "google", "gcp.vertex_ai"},
    {"bedrock", "aws.bedrock"},
    {"azure", "azure.ai.openai", "azure.ai.inference", "openai"},
]
OPERATIONS = [{"chat", "responses", "generate_content", "text_completion"}]
WHOLES = ("input_tokens", "output_tokens")
PARTS = ("cache_read_input_tokens", "cache_creation_input_tokens", "reasoning_output_tokens")


def _same(a: object, b: object, groups: Sequence[set[str]]) -> bool:
    return a == b or any(a in g and b in g for g in groups)


def _absent(expected: Meta, field: str, meta: Meta) -> bool:
    """Whether the payload does not carry this truth: an entry is a bare name or a sentence
    that begins with or names it.
    """
    marks = [*(expected.get("not_in_payload") or []), *(meta.get("not_in_payload") or [])]
    for mark in map(str, marks):
        head = re.split(r"[(:]", mark)[0]
        if re.search(rf"(?<![\w.]){re.escape(field)}(?![\w])", head):
            return True
    return False


def _deviates(expected: Meta, field: str, meta: Meta) -> bool:
    """Whether the library itself reports another number than was
    served (then report what is there).
    """
    call = f"call {expected.get('n')}:"
    word = {"input_tokens": "input tokens", "output_tokens": "output tokens"}.get(field, field)
    return any(
        str(d).startswith(call) and (word in str(d) or "own estimate" in str(d)) for d in meta.get("deviations") or []
    )


def call_differences(expected: Meta, record: JsonRecord, meta: Meta) -> list[str]:
    """Differences of one expected call against one record."""
    return [
        *_name_differences(expected, record, meta),
        *_whole_differences(expected, record.get("usage") or {}, meta),
        *_part_differences(expected, record.get("usage") or {}, meta),
        *_outcome_differences(expected, record, meta),
    ]


def _name_differences(expected: Meta, record: JsonRecord, meta: Meta) -> list[str]:
    out = []
    for field, groups in (
        ("provider", PROVIDERS),
        ("operation", OPERATIONS),
        ("request_model", []),
        ("response_model", []),
    ):
        want, got = expected.get(field), record.get(field)
        if want and not _same(want, got, groups) and not _absent(expected, field, meta):
            out.append(f"{field} {got!r}, should be {want!r}")
    return out


def _whole_differences(expected: Meta, usage: Meta, meta: Meta) -> list[str]:
    out = []
    for field in WHOLES:
        want, got = expected.get(field), usage.get(field)
        if got == want or _deviates(expected, field, meta):
            continue
        if want is not None and got is None and _absent(expected, field, meta):
            continue
        if field == "output_tokens" and expected.get("operation") == "embeddings" and not want and not got:
            continue
        out.append(f"{field} {got!r}, should be {want!r}")
    return out


def _part_differences(expected: Meta, usage: Meta, meta: Meta) -> list[str]:
    out = []
    for field in PARTS:
        want, got = expected.get(field), usage.get(field)
        if got == want or (not want and not got) or (not got and _absent(expected, field, meta)):
            continue
        if not _deviates(expected, "output_tokens", meta):
            out.append(f"{field} {got!r}, should be {want!r}")
    return out


def _outcome_differences(expected: Meta, record: JsonRecord, meta: Meta) -> list[str]:
    out = []
    failed = bool(expected.get("error_type") or expected.get("error") or (expected.get("status") or 200) >= 400)
    if failed != (record.get("status") == "error"):
        out.append(f"status {record.get('status')!r}, should be {'error' if failed else 'ok'!r}")
    hit, cost = expected.get("gateway_cache_hit"), expected.get("cost_usd")
    if hit and record.get("billed") is not False:
        out.append("billed, but a gateway's cache hit is not")
    if cost and not hit and not _absent(expected, "cost_usd", meta):
        amount = (record.get("cost") or {}).get("amount")
        if amount is None or abs(float(amount) - cost) > 1e-6 + cost * 1e-4:
            out.append(f"cost {amount!r}, should be {cost!r}")
    return out


def _pairs(wanted: Sequence[Meta], calls: Sequence[JsonRecord], meta: Meta) -> list[tuple[int, list[str]]]:
    """Pair expected calls and records with the fewest differences:
    exact up to 9 calls, greedy beyond.
    """
    table = [[call_differences(e, c, meta) for c in calls] for e in wanted]
    if len(wanted) <= 9 and len(calls) <= 12:
        best = {0: (0, [])}
        for row in table:
            step = {}
            for used, (cost, chosen) in best.items():
                options = [(i, len(d)) for i, d in enumerate(row) if not used >> i & 1] or [(None, 0)]
                if len(calls) < len(wanted):
                    options.append((None, 0))
                for i, d in options:
                    key = used | (1 << i) if i is not None else used
                    if key not in step or cost + d < step[key][0]:
                        step[key] = (cost + d, [*chosen, i])
            best = step
        chosen = min(best.values(), key=lambda x: (-sum(i is not None for i in x[1]), x[0]))[1] if best else []
    else:
        chosen, used = [None] * len(wanted), set()
        for _, w, i in sorted((len(d), w, i) for w, row in enumerate(table) for i, d in enumerate(row)):
            if chosen[w] is None and i not in used:
                chosen[w] = i
                used.add(i)
    return [(w, table[w][i]) for w, i in enumerate(chosen) if i is not None]


def _tokens(record: JsonRecord) -> int:
    usage = record.get("usage") or {}
    return sum(usage.get(k) or 0 for k in WHOLES)


def _sum_differences(wanted: Sequence[Meta], records: Sequence[JsonRecord]) -> list[str]:
    """Of a payload that holds the sum of the calls, not each of them."""
    out = []
    for field in WHOLES:
        want = sum(e.get(field) or 0 for e in wanted)
        got = sum((r.get("usage") or {}).get(field) or 0 for r in records)
        if got != want:
            out.append(f"sum of {field} {got}, should be {want}")
    return out


def differences(meta: Meta, records: Sequence[JsonRecord]) -> list[str]:
    """Differences of a scenario's records against its meta file."""
    wanted = [e for e in meta.get("expected") or [] for _ in range(e.get("n_records", 1))]
    calls = [r for r in records if r.get("kind", "call") == "call"]
    aggregates = [r for r in records if r.get("kind") == "aggregate" and r.get("billed", True)]
    if meta.get("sum_only"):
        return _sum_differences(wanted, [*calls, *aggregates])
    out = []
    if len(calls) != len(wanted):
        out.append(f"{len(calls)} calls, should be {len(wanted)}")
    for w, found in _pairs(wanted, calls, meta):
        out += [f"call {w + 1}: {d}" for d in found]
    if wanted and any(_tokens(r) for r in aggregates):
        out.append(f"{len(aggregates)} aggregates with tokens beside the calls")
    if not wanted and meta.get("expected_totals"):
        for field, want in meta["expected_totals"].items():
            got = sum((r.get("usage") or {}).get(field) or 0 for r in aggregates)
            if got != want:
                out.append(f"aggregates: {field} {got}, should be {want}")
    return out
