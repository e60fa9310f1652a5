"""How spans are read, as the reader reports it."""

from collections.abc import Mapping
from typing import Literal, TypedDict

from gateway.common.contract.json_types import Count


class ReaderStatus(TypedDict):
    """What reads payloads of spans in protobuf."""

    name: Literal["native", "python"]
    """What reads spans in protobuf."""
    why_not_native: str | None
    """Why the native extension is not used; null where it is."""
    other_reader: str
    """How to change to the other reader, in words."""
    native_spans: Count
    """Spans that the extension read since the start."""
    python_spans: Mapping[str, Count]
    """Reason -> single spans that Python read among others."""
    python_payloads: Mapping[str, Count]
    """Reason -> payloads that Python read as a whole."""
