"""A value on the pipe between the gateway and its parser process: its length, then the value as
`marshal` writes it.
"""

import marshal
import struct
from typing import Final

HEADER: Final = struct.Struct("<Q")
"""The length in bytes of what follows."""


def frame(value: object) -> bytes:
    """*value*, made of plain types, as it goes over the pipe."""
    body = marshal.dumps(value)  # type: ignore[arg-type]  # plain types, by the callers' word
    return HEADER.pack(len(body)) + body
