"""A source's payload -> what it came to. Pure; the same for every source."""

from collections.abc import Mapping

from gateway.common.contract.errors import BadPayload
from gateway.products.catalogue import SOURCES
from gateway.products.documents import Documents, documents_in
from gateway.products.otlp import take_otlp
from gateway.products.source import Source, SourceRead
from gateway.read.limits import DEFAULT_LIMITS, Meter, ParseLimits
from gateway.rules.context import Context


def read_source(
    name: str, body: bytes, context: Context, *, first_line: int = 1, sources: Mapping[str, Source] = SOURCES
) -> SourceRead:
    """What *body*, sent to the source *name*, holds.

    Raises BadPayload; TooLarge for more rows than `context.limits` allow; KeyError for a name
    that is none.
    """
    return read_documents(sources[name], body, context, first_line=first_line)


def read_documents(source: Source, body: bytes, context: Context, *, first_line: int = 1) -> SourceRead:
    documents = documents_of(source, body, first_line, context.limits)
    Meter(context.limits.max_items).take(len(documents.found) + len(documents.rejected))
    out = SourceRead()
    out.calls.items = len(documents.rejected)
    out.calls.rejected += documents.rejected
    others = take_otlp(documents.found, out.calls, context)
    if others or not documents.found:
        source.read(others, out, context)
    Meter(context.limits.max_items).take(out.calls.items + out.measured.items)
    return out


def documents_of(source: Source, body: bytes, first_line: int = 1, limits: ParseLimits = DEFAULT_LIMITS) -> Documents:
    """The documents of *body*, of what its source trims it to where that can be read."""
    trimmed = body if source.trim is None else source.trim(body)
    if trimmed is not body:
        try:
            documents = documents_in(trimmed, first_line=first_line, read_line=source.read_line, limits=limits)
        except BadPayload:
            pass
        else:
            if not documents.rejected:
                return documents
    return documents_in(body, first_line=first_line, read_line=source.read_line, limits=limits)
