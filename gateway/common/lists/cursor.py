"""A cursor's outer form: base64url of a check value and JSON, bound to one list. Pure.

    cursor = base64url(check (8 bytes) + JSON in UTF-8), without padding
    check  = BLAKE2b(name of the list, 0, JSON)

The check value detects damage and cursors of other lists. It is no signature: a cursor only selects
a page of a list, all of whose pages its reader may see, and its content is validated as any
parameter is. So no secret can be missing after a restart, a restore or in a second process.
"""

import base64
import json
from hashlib import blake2b

MAX_CHARS = 6000
"""What a list writes is shorter: sort values and filters are bounded. It fits into a request
line.
"""

_CHECK_BYTES = 8
_PERSON = b"list cursor 1"


class NotACursor(ValueError):
    """The text is damaged, or not a cursor of this list."""


def sealed(list_name: str, content: object) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(_check(list_name, text) + text).decode().rstrip("=")


def opened(list_name: str, cursor: str) -> object:
    """The JSON content of *cursor*. Raises NotACursor."""
    if not 0 < len(cursor) <= MAX_CHARS:
        raise NotACursor
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        check, text = packed[:_CHECK_BYTES], packed[_CHECK_BYTES:]
        # More than one text decodes to these bytes: spare bits of the last character, `+` for `-`.
        if check != _check(list_name, text) or base64.urlsafe_b64encode(packed).decode().rstrip("=") != cursor:
            raise NotACursor
        content: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotACursor from error
    return content


def _check(list_name: str, text: bytes) -> bytes:
    return blake2b(list_name.encode() + b"\0" + text, digest_size=_CHECK_BYTES, person=_PERSON).digest()
