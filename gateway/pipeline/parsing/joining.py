"""What a payload's items came to, read in parts, as one. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.counting.calls.digest import DIGEST_BYTES
from gateway.rules.ai_spans import MAX_TRACES


def joined(calls: ParsedPayload, parts: Sequence[tuple[int, int, ParsedPayload]]) -> ParsedPayload:
    """*calls*, which counts the items of all, with *parts* in their places: calls and bytes of
    links before each.
    """
    records: list[bytes] = []
    rows: list[bytes] = []
    links: list[bytes] = []
    n_calls = n_links = 0
    for calls_before, links_before, part in (*parts, (len(calls.records), len(calls.links), None)):
        records += calls.records[n_calls:calls_before]
        rows.append(calls.rows[n_calls * DIGEST_BYTES : calls_before * DIGEST_BYTES])
        links.append(calls.links[n_links:links_before])
        n_calls, n_links = calls_before, links_before
        if part is not None:
            records += part.records
            rows.append(part.rows)
            links.append(part.links)
    every = [calls, *(part for *_, part in parts)]
    suppressed: Counter[str] = Counter()
    for part in every:
        suppressed.update(part.suppressed)
    return calls._replace(
        ignored=sum(part.ignored for part in every),
        suppressed=dict(suppressed),
        records=records,
        rows=b"".join(rows),
        links=b"".join(links),
        used=_used(every),
        ai_spans=_ai_spans(every),
        reported=_reported(every),
        forwarded=[each for part in every for each in part.forwarded],
    )


def _used(parts: Sequence[ParsedPayload]) -> list[Any]:
    sums: Counter[tuple[Any, ...]] = Counter()
    for part in parts:
        for *key, tokens in part.used:
            sums[tuple(key)] += tokens
    return [(*key, tokens) for key, tokens in sums.items()]


def _reported(parts: Sequence[ParsedPayload]) -> list[tuple[str | None, int, int, int]]:
    sums: dict[str | None, list[int]] = {}
    for part in parts:
        for service, *counts in part.reported:
            known = sums.setdefault(service, [0, 0, 0])
            for i, count in enumerate(counts):
                known[i] += count
    return [(service, items, calls, missing) for service, (items, calls, missing) in sums.items()]


def _ai_spans(parts: Sequence[ParsedPayload]) -> list[tuple[str | None, str, int, list[bytes]]]:
    sums: dict[tuple[str | None, str], tuple[int, list[bytes]]] = {}
    for part in parts:
        for service, scope, n, traces in part.ai_spans:
            known, before = sums.get((service, scope), (0, []))
            sums[service, scope] = known + n, sorted({*before, *traces})[:MAX_TRACES]
    return [(*key, n, traces) for key, (n, traces) in sums.items()]
