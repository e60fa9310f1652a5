"""A source's payload -> what it came to. Pure; the same for every source."""

from collections.abc import Mapping

from gateway.contract.errors import BadPayload
from gateway.normalise.context import Context
from gateway.sources.catalogue import SOURCES
from gateway.sources.documents import Documents, documents_in
from gateway.sources.otlp import take_otlp
from gateway.sources.source import Source, SourceRead


def read_source(
    name: str, body: bytes, context: Context, *, first_line: int = 1, sources: Mapping[str, Source] = SOURCES
) -> SourceRead:
    """What *body*, sent to the source *name*, holds.

    Raises BadPayload; KeyError for a name that is none.
    """
    return read_documents(sources[name], body, context, first_line=first_line)


def read_documents(source: Source, body: bytes, context: Context, *, first_line: int = 1) -> SourceRead:
    documents = documents_of(source, body, first_line)
    out = SourceRead()
    out.calls.items = len(documents.rejected)
    out.calls.rejected += documents.rejected
    others = take_otlp(documents.found, out.calls, context)
    if others or not documents.found:
        source.read(others, out, context)
    return out


def documents_of(source: Source, body: bytes, first_line: int = 1) -> Documents:
    """The documents of *body*, of what its source trims it to where that can be read."""
    trimmed = body if source.trim is None else source.trim(body)
    if trimmed is not body:
        try:
            documents = documents_in(trimmed, first_line=first_line, read_line=source.read_line)
        except BadPayload:
            pass
        else:
            if not documents.rejected:
                return documents
    return documents_in(body, first_line=first_line, read_line=source.read_line)
