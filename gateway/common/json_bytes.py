"""JSON that is kept for a while."""

from typing import Any

import orjson


def json_bytes(value: Any) -> bytes:
    """*value* as JSON, in as much memory as that needs.

    What orjson gives keeps the buffer that it was written to, of some kilobytes.
    """
    return b"".join((orjson.dumps(value), b""))
