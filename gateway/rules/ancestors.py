"""User, session, team and project that stand on a span above a call. Pure.

Agents and applications state them once, on the span of the whole run. A call takes each from the
nearest span above it that states one, where neither the call nor its resource does. What a key
fixes is never inherited. Spans of one payload are related here; those of others when the call
settles (`gateway.counting.calls.inheritance`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from gateway.rules.attribution import attribute
from gateway.rules.call import Call
from gateway.rules.context import Context
from gateway.rules.conventions import who
from gateway.rules.extract import NO_INTEREST, PEOPLE, WHO, AttributeTable, Interest
from gateway.rules.texts import unquoted
from spool.record import Attribution

MAX_DEPTH = 64
"""Spans looked at above one call."""
_TRACE_ID_BYTES = 16
_SPAN_BYTES = 24


def _table() -> AttributeTable:
    known: dict[str, Interest] = {
        name: (field, rank, WHO) for field, names in who.ANYWHERE.items() for rank, name in enumerate(names)
    }
    return AttributeTable(known, lambda _: NO_INTEREST)


INTERESTS = _table()
"""What is read of a span that no AI library made."""
STATING = frozenset(name for names in who.ANYWHERE.values() for name in names)


def inheritable(stated: Mapping[str, str], context: Context) -> Attribution:
    """What calls below a span that states *stated* inherit: under the operator's policy for users,
    and without what the key fixes.
    """
    own = {field: unquoted(stated[field]) for field in PEOPLE if field in stated and field not in context.key_fixes}
    return attribute({}, own, context._replace(key_fixes={})) if own else {}


def inherit(
    calls: Sequence[Call], links: Iterable[bytes], bearers: Mapping[bytes, Attribution], fixed: Collection[str]
) -> None:
    """Fill what *calls* lack, in place, from the *bearers* above them: trace and span id -> what is
    inherited. *links*: the payload's spans that are no calls; *fixed*: fields that the key fixes.
    """
    above = {link[:_SPAN_BYTES]: link[:_TRACE_ID_BYTES] + link[_SPAN_BYTES:] for link in links}
    above |= {
        call.trace_id + call.span_id: call.trace_id + call.parent_span_id for call in calls if call.parent_span_id
    }
    for call in calls:
        attribution = call.record["attribution"]
        missing = {field for field in PEOPLE if attribution.get(field) is None and field not in fixed}
        at = call.trace_id + call.parent_span_id
        for _ in range(MAX_DEPTH):
            if not missing or len(at) != _SPAN_BYTES:
                break
            for field in sorted(missing & bearers.get(at, _NOTHING).keys()):
                attribution[field] = bearers[at][field]  # type: ignore[literal-required]  # of PEOPLE
                missing.discard(field)
            at = above.get(at, b"")


_NOTHING: Attribution = {}
