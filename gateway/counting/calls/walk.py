"""The calls below a span, through spans that are no calls. Pure."""

from collections import deque

from gateway.counting.calls.digest import CallDigest, split_ref
from gateway.counting.calls.rows import Rows, span_key
from gateway.counting.calls.table import Table

MAX_STEPS = 1_500
"""Spans looked at below one call."""
MAX_BELOW = 20_000
"""Spans looked at below all calls of one cluster, each as often as calls stand above it."""
MAX_NEAREST = 32
"""Spans looked at below one call once `MAX_BELOW` is used up."""


class DescendantWalk:
    """The spans below the calls of one cluster: each call's whole tree within the limits,
    then only the nearest spans.
    """

    def __init__(self, rows: Rows, children: Table, *, budget: int = MAX_BELOW, nearest: int = MAX_NEAREST) -> None:
        self._rows, self._children = rows, children
        self._left, self._nearest = budget, nearest

    def below(self, fact: CallDigest) -> tuple[list[int], bool]:
        """References of the calls below a span, nearest first, and whether
        the walk reached all of them. The row of the last one may not be at hand.

        It ends at a call of a large cluster: what stands below that one has its verdict.
        """
        found: list[int] = []
        if not any(fact.span_id):
            return found, True
        rows, whole, steps = self._rows, True, 0
        most = min(MAX_STEPS, max(self._nearest, self._left))
        seen: set[bytes] = set()
        todo = deque((fact.trace_id + fact.span_id,))
        while todo and steps < most:
            span = todo.popleft()
            if span in seen:
                continue
            seen.add(span)
            ref = self._children.find(span_key(span))
            while ref and steps < most:
                steps += 1
                is_link = split_ref(ref).is_link
                child = rows.link(ref) if is_link else rows.fact(ref)
                if not is_link:
                    found.append(ref)
                if child is None:
                    whole = False
                    break
                if not is_link and rows.is_worn(ref):
                    self._left -= steps
                    return found, False
                todo.append(child.trace_id + child.span_id)
                ref = child.prev_child
            whole = whole and not ref
        self._left -= steps
        return found, whole and not todo
