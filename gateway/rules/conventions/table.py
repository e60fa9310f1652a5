"""What a convention is: a table of attribute names by field, in order of
precedence, and four short rules.

A field's names are read like this: the first that has a value wins, the others are ignored,
nothing is added. Each table is its own names before the shared ones (`shared.py`), so a scope
that is read by the wrong table is still counted.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.read.view import Span
from gateway.rules.conventions import shared, who
from gateway.rules.extract import COUNT, NO_INTEREST, OTHER, RAW, TEXT, WHO, AttributeTable, Extracted, Interest
from gateway.rules.kinds import KIND, by_kind, is_llm, states_kind
from gateway.rules.operation import Outcome, operation
from gateway.rules.usage import Basis

Names = Mapping[str, tuple[str, ...]]


class OutcomeRule(Protocol):
    def __call__(self, picked: Extracted, span: Span, *, failed: bool) -> Outcome:
        """Call, step, or neither; *failed*: the span's status is an error."""


class TextReader(Protocol):
    def __call__(self, picked: Extracted, *, failed: bool) -> None:
        """Take usage and names out of text attributes, where no
        attribute of their own has them.
        """


_STEP_SPAN = re.compile(
    r"(^|[\s._\-/:])(agents?|workflow|crew|graph|chain|tools?|task|pipeline|retriever|session|turn)($|[\s._\-/:])|[\s.]run$",
    re.IGNORECASE,
)


def by_operation(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """The outcome by the operation's name; without one that states something,
    by what only a call carries.
    """
    texts = picked.texts
    if "step_kind" in texts:
        return "not_a_call"
    sent = texts.get("operation")
    if "run_id" in texts:  # Azure AI Agents: each look at a run is a span, one that is done has its usage
        return "call" if picked.counts.get("input") or picked.counts.get("output") else "not_a_call"
    outcome = "undecided" if sent is None else operation(sent).outcome
    return _by_contents(picked, span, failed=failed) if outcome == "undecided" else outcome


def _by_contents(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """A step by its kind is none. A response makes a call, and so does usage, unless the span is
    named for an agent or another step: older agent frameworks sum their calls up under the names of
    a call, without an operation.
    """
    texts = picked.texts
    kind = by_kind(texts[KIND]) if KIND in texts else "undecided"
    if kind == "not_a_call":
        return kind
    if "response_id" in texts or "response_model" in texts:
        return "call"
    if kind == "call":
        return _by_kind(picked, failed=failed)
    if _STEP_SPAN.search(span.name):
        return "not_a_call"
    return _by_usage(picked, failed=failed)


def _by_usage(picked: Extracted, *, failed: bool) -> Outcome:
    """Usage makes a call, unless an unknown operation names no model. A span that failed is a call
    when it names provider and model, since an error ends both early. A lone request model is none:
    gateways put it on their routing and cache spans.
    """
    texts, counts = picked.texts, picked.counts
    if "input" in counts or "output" in counts:
        return "call" if "operation" not in texts or "request_model" in texts or "model" in texts else "not_a_call"
    if "finish_reason" in texts or (failed and "provider" in texts and "request_model" in texts):
        return "call"
    return "undecided"


def _by_kind(picked: Extracted, *, failed: bool) -> Outcome:
    """Of a span that states that it is a model's call: it has usage, or it failed and names its
    model or can be nothing else. One without usage prepares a call, or is around one.
    """
    texts, counts = picked.texts, picked.counts
    if "input" in counts or "output" in counts or "finish_reason" in texts:
        return "call"
    is_call = failed and ("request_model" in texts or "model" in texts or is_llm(texts[KIND]))
    return "call" if is_call else "undecided"


def inclusive(_picked: Extracted, _version: str, _provider: str | None) -> Basis:
    return Basis.INCLUSIVE


def configured_inclusive(_picked: Extracted, _version: str, _provider: str | None) -> Basis:
    return Basis.CONFIGURED


def exclusive(_picked: Extracted, _version: str, _provider: str | None) -> Basis:
    return Basis.EXCLUSIVE


def unstated(_picked: Extracted, _version: str, _provider: str | None) -> Basis:
    return Basis.UNSTATED


def nothing_more(picked: Extracted, *, failed: bool) -> None:
    """No text attribute of this convention holds usage or names."""


class StreamPart(NamedTuple):
    """Of a streamed call, whose beginning and end its library reports apart."""

    is_end: bool
    request: tuple[str, ...]
    """What the request asked for, of which both parts state the same."""
    read_s: float
    """Of an end: how long the answer was read."""


class StreamPartRule(Protocol):
    """None for a call that is reported whole."""

    def __call__(self, picked: Extracted, span: Span, *, failed: bool) -> StreamPart | None: ...


SpanReader = Callable[[Extracted, Span], None]
BasisRule = Callable[[Extracted, str, str | None], Basis]
EstimateRule = Callable[[Extracted, str | None], bool]
"""From the values and the provider."""


@dataclass(frozen=True, slots=True, eq=False)
class Convention:
    name: str
    """As `source.convention` has it."""
    own: Names
    """Names that this convention has, or whose precedence differs from the shared ones."""
    outcome: OutcomeRule = by_operation
    basis: BasisRule = unstated
    """What the input holds, from the values, the scope's version and the provider."""
    output_basis: BasisRule | None = None
    """What the output holds, from the same; None where the table does not know."""
    read_texts: TextReader = nothing_more
    read_span: SpanReader | None = None
    """Takes what only the span's name states; None for libraries whose attributes state it all."""
    stream_part: StreamPartRule | None = None
    """Which part of a stream a span reports; None for libraries that report calls whole."""
    default_provider: str | None = None
    """Of a product that speaks to one provider and does not name it."""
    is_generic: bool = False
    """The table of last resort: its calls are flagged and counted."""
    estimates: EstimateRule | None = None
    """Whether the counts are a tokenizer's of the library; None for libraries without one."""

    def interests(self) -> AttributeTable:
        """The compiled table, with its memory of names."""
        return AttributeTable(_compile(self.own), usage_rule)


def _compile(own: Names) -> dict[str, Interest]:
    """Attribute name -> interest. A name's first place wins, own names before shared ones."""
    table: dict[str, Interest] = dict.fromkeys(shared.REDUNDANT, NO_INTEREST)
    for field in {**own, **shared.NAMES}:
        own_names = own.get(field, ())
        names = (*own_names, *(name for name in shared.NAMES.get(field, ()) if name not in own_names))
        kind = shared.kind_of(field)
        for rank, name in enumerate(names):
            if name in own_names or name not in table or not table[name]:
                table[name] = (field, rank, kind)
    return table


def usage_rule(name: str) -> Interest:
    """Names that no table knows: cache and reasoning of usage, users and sessions are found by the
    end of the name, other numbers of usage are kept by it, all else is left unread.
    """
    if states_kind(name):
        return (KIND, _OWN_RANK, TEXT)
    if shared.is_usage_object(name):
        return ("raw_usage", _OWN_RANK, RAW)
    if shared.is_unknown_usage(name):
        part = shared.part_of_usage(name)
        return (name, 0, OTHER) if part is None else (part, _OWN_RANK, COUNT)
    field = who.stated_by(name)
    return NO_INTEREST if field is None else (field, _OWN_RANK, WHO)


_OWN_RANK = 60
"""Below every name that a table knows."""
