"""How spans are read, as the reader reports it."""

from collections.abc import Mapping
from typing import Literal, TypedDict


class ReaderStatus(TypedDict):
    """What reads payloads of spans in protobuf."""

    name: Literal["native", "python"]
    why_not_native: str | None
    other_reader: str
    """How to change to it."""
    native_spans: int
    """Read by it since the start."""
    python_spans: Mapping[str, int]
    """Reason -> single spans that Python read among others."""
    python_payloads: Mapping[str, int]
    """Reason -> payloads of spans that Python read as a whole."""
