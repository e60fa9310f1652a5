"""A name that operators give to a resource."""

from typing import Annotated, Final

from pydantic import Field

MAX_CHARS: Final = 100

OneLine = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_CHARS,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*[^\x00-\x1f\x7f-\x9f\s][^\x00-\x1f\x7f-\x9f]*$",
        description=f"text of 1 to {MAX_CHARS} characters on one line",
    ),
]
