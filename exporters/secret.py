"""A secret string that shows itself only when asked: masked in `repr`, `str`,
f-strings and tracebacks.
"""

import hmac
from typing import NoReturn

MASK = "***"


class Secret:
    """Wraps a key or token.

    Compare with `==` (constant time); take the text out with `reveal()`, at the edge only.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself: for a header about to be sent, never for a message."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __bool__(self) -> bool:
        return bool(self._text)

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not written anywhere, so it cannot be pickled")
