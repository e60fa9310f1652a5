"""A span in the place of all others of its shape: what varies from one to the next is there by name
only. Pure.

The rules read it as any span (`read_spans`), and what they make of it is a template for all others:
a value decides the template when a rule may read it, unless it is one of those below. What a rule
does with these is recorded (`gateway.common.varying`), and what cannot be is refused.

- ids of trace and span: no rule looks into them;
- times, and counts of tokens: recorded as computations and comparisons;
- ids of response and request, and the session, where they are names of one word.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from gateway.common.varying import Computation, Varying, VaryingText
from gateway.read.view import AnyValue, Attributes, Event, Span, Status, Traces
from gateway.rules.ancestors import STATING
from gateway.rules.context import Context
from gateway.rules.extract import COUNT, MAX_TEXT_CHARS, NO_ONE, OTHER, RAW, ExtractionPlan
from gateway.rules.found_usage import entities_of, texts_of
from gateway.rules.model_names import PLACEHOLDERS
from gateway.rules.tags import NO_TAGS, Tags
from gateway.rules.texts import may_hold_object
from gateway.rules.traces import SpansRead, read_spans, reader_by_names, scope_of

WORDS: Final = NO_ONE | PLACEHOLDERS
"""Texts that mean nothing: never in the place of another."""
_VARYING: Final = ("response_id", "request_id", "session")
"""Fields whose texts vary; each by its number."""
_UNREADABLE: Final = {RAW: "raw_text", OTHER: "other_usage"}
"""Kinds of values that only Python reads."""
_MAX_COUNTS: Final = 64
_INT_TAG: Final = "int_value"

Kind = Literal["key", "count", "hole", "behind", "searched"]


class Role(NamedTuple):
    """What an attribute's value is to the record of its span."""

    kind: Kind
    """`key`: it decides the template; `count`, `hole`: a number or text that varies; `behind`: read
    where the hole of that number has no text; `searched`: a text in which the rules may find usage,
    and which is as if unread otherwise."""
    number: int = 0


class Roles(NamedTuple):
    """Those of spans of one scope with one list of names."""

    of: Mapping[str, Role]
    """Attributes that are not in it are never read."""
    reads_name: bool
    """Whether the span's own name may decide."""
    refused: str = ""
    """Why only Python reads them."""


class Refused(Exception):
    """Spans of this shape have no template; the argument is the reason."""

    @property
    def reason(self) -> str:
        return str(self.args[0])


def roles_of(scope_name: str, scope_version: str, names: tuple[str, ...], tags: Tags = NO_TAGS) -> Roles:
    """The roles of the attributes *names*."""
    scope = scope_of(scope_name[:MAX_TEXT_CHARS], scope_version[:MAX_TEXT_CHARS])
    reader = scope.reader or reader_by_names(scope, names)
    searched = (
        {name: Role("searched") for name in texts_of(names)} if reader is None or reader.convention.is_generic else {}
    )
    if reader is None:
        refused = "raw_text" if entities_of(names) else ""
        return Roles(searched, reads_name=False, refused=refused or ("" if STATING.isdisjoint(names) else "bearer"))
    plan = reader.interests.plan(names)
    if reader.convention.is_generic:
        searched |= {name: Role("searched") for _, name, kind in (*plan.rest, *plan.lower) if kind == RAW}
    kinds = {kind for _, name, kind in (*plan.rest, *plan.lower) if name not in searched}
    refused = next((reason for kind, reason in _UNREADABLE.items() if kind in kinds), "")
    of_tags = tags.plan(names)
    roles = _roles(plan) | searched | {name: Role("key") for name in (*_of(of_tags.who), *_of(of_tags.lower))}
    if sum(role.kind == "count" for role in roles.values()) > _MAX_COUNTS:
        refused = "many_counts"
    return Roles(roles, reads_name=True, refused=refused)


def _of(planned: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """The names of attributes in a part of a plan."""
    return (name for _, name, *_ in planned)


def _roles(plan: ExtractionPlan) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    counts = [name for _, name in plan.counts] + [name for _, name, kind in plan.lower if kind == COUNT]
    for number, name in enumerate(counts):
        roles[name] = Role("count", number)
    held: set[str] = set()
    for field, name in (*plan.texts, *plan.who):
        is_hole = field in _VARYING
        roles[name] = Role("hole", _VARYING.index(field)) if is_hole else Role("key")
        held |= {field} if is_hole else set()
    for _, name in plan.firsts:
        roles[name] = Role("key")
    for _, name, _ in plan.rest:
        roles[name] = Role("key")
    for field, name, _ in plan.lower:
        if name not in roles:
            roles[name] = Role("behind", _VARYING.index(field)) if field in held else Role("key")
    return roles


class Stand(NamedTuple):
    """What stands for what varies."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    texts: tuple[VaryingText, ...]
    """By number."""
    received_at: str


def stand(token: bytes) -> Stand:
    """*token*: 32 bytes that occur in no payload."""
    name = token.hex()
    return Stand(
        token[:16],
        token[16:24],
        token[24:32],
        tuple(VaryingText(f"{field}.{name[:20]}", number) for number, field in enumerate(_VARYING)),
        f"received.{name[:20]}",
    )


def is_hole(text: str) -> bool:
    """Whether *text* may be any other like it."""
    return (
        1 <= len(text) <= MAX_HOLE_CHARS
        and text.isascii()
        and text not in WORDS
        and all(char.isalnum() or char in "_.:/$#@+=-" for char in text)
    )


MAX_HOLE_CHARS: Final = 128


class _Count:
    """An attribute's value: a whole number."""

    string_value = ""
    bool_value = False
    double_value = 0.0

    def __init__(self, value: Varying) -> None:
        self.int_value = value

    def HasField(self, field_name: str) -> bool:  # noqa: N802 - protobuf's own name
        return field_name == _INT_TAG


class _Text:
    """An attribute's value: a text."""

    def __init__(self, text: VaryingText) -> None:
        self.string_value = text

    def HasField(self, field_name: str) -> bool:  # noqa: N802 - protobuf's own name
        return False


class _ObservedAttributes(Mapping[str, Any]):
    """The attributes of a span; *varying* stand in the places of some."""

    def __init__(self, sent: Attributes, varying: Mapping[str, Any]) -> None:
        self._sent, self._varying = sent, varying
        self.read: set[str] = set()
        """Names whose values were looked at."""

    def __getitem__(self, name: str) -> Any:
        if name not in self._sent:
            raise KeyError(name)
        self.read.add(name)
        return self._varying[name] if name in self._varying else self._sent[name]

    def __contains__(self, name: object) -> bool:
        return name in self._sent

    def __iter__(self) -> Iterator[str]:
        return iter(self._sent)

    def __len__(self) -> int:
        return len(self._sent)


class _ObservedEvents(Sequence[Event]):
    def __init__(self, sent: Sequence[Event]) -> None:
        self._sent = sent
        self.is_read = False

    def __getitem__(self, index: Any) -> Any:
        self.is_read = True
        return self._sent[index]

    def __len__(self) -> int:
        self.is_read = True
        return len(self._sent)


class _ObservedSpan(NamedTuple):
    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    name: str
    kind: int
    start_time_unix_nano: Any
    end_time_unix_nano: Any
    attributes: _ObservedAttributes
    events: _ObservedEvents
    status: Status


class _Part(NamedTuple):
    """A request of one span, or a part of it."""

    resource_spans: Sequence[Any] = ()
    resource: Any = None
    scope_spans: Sequence[Any] = ()
    scope: Any = None
    spans: Sequence[Any] = ()


class Representative(NamedTuple):
    """One span's reading in the place of all others of its shape."""

    computation: Computation
    read: SpansRead
    context: Context


def represent(
    span: Span, resource: Any, scope: Any, roles: Roles, context: Context, stands: Stand, computation: Computation
) -> Representative:
    """Read *span*, of the wire view's *resource* and *scope*, in the place of its shape, and record
    in *computation* what is done with its numbers.

    Raises Refused, and whatever code raises that cannot work with what stands for a value.
    """
    attributes = _ObservedAttributes(span.attributes, dict(_varying(span.attributes, roles, computation, stands)))
    events = _ObservedEvents(list(span.events))
    observed = _ObservedSpan(
        stands.trace_id,
        stands.span_id,
        stands.parent_id if any(span.parent_span_id) else b"",
        span.name,
        span.kind,
        computation.given("start_ns", span.start_time_unix_nano, is_time=True),
        computation.given("end_ns", span.end_time_unix_nano, is_time=True),
        attributes,
        events,
        span.status,
    )
    received: Any = computation.given("received_ms", context.received_at_ms, is_time=True)
    general = context._replace(received_at_ms=received, received_at=stands.received_at)
    scope_spans = _Part(scope=scope, spans=[observed])
    request: Any = _Part(resource_spans=[_Part(resource=resource, scope_spans=[scope_spans])])
    read = read_spans(Traces(request), general)
    if attributes.read - roles.of.keys():
        raise Refused("other_attribute")
    if events.is_read and len(span.events):
        raise Refused("events")
    return Representative(computation, read, general)


def _varying(
    attributes: Attributes, roles: Roles, computation: Computation, stands: Stand
) -> Iterator[tuple[str, AnyValue | _Count | _Text]]:
    for name, role in roles.of.items():
        value = attributes[name]
        if role.kind == "searched" and (value.HasField("kvlist_value") or may_hold_object(_utf8(value.string_value))):
            raise Refused("raw_text")
        if role.kind == "count" and value.HasField(_INT_TAG):
            yield name, _Count(computation.given("count", value.int_value, role.number))
        elif role.kind == "hole" and is_hole(value.string_value):
            yield name, _Text(stands.texts[role.number])


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
