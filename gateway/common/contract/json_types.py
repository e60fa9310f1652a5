"""What a JSON Schema states beyond a Python type: annotations for fields of answers."""

from typing import Annotated, NamedTuple


class Schema(NamedTuple):
    """Keywords of JSON Schema beside those that follow from the annotated type; None: absent."""

    description: str | None = None
    """Unless the field has a text of its own."""
    format: str | None = None
    minimum: int | None = None
    exclusiveMinimum: int | None = None  # noqa: N815 - JSON Schema's name
    maxItems: int | None = None  # noqa: N815 - the same
    pattern: str | None = None
    examples: tuple[str, ...] | None = None


Count = Annotated[int, Schema(minimum=0)]
Time = Annotated[str, Schema(format="date-time")]
"""RFC 3339, UTC."""
Month = Annotated[str, Schema(pattern="^[0-9]{4}-[0-9]{2}$")]
Money = Annotated[str, Schema("A decimal number.", pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
"""A decimal number as text."""
