"""When two reports name the same model. Pure.

Reports of one call name its model in several ways: `gpt-4o` and `gpt-4o-2024-08-06`,
`openai/gpt-4o`, `anthropic.claude-sonnet-4-5-20250929-v1:0`. Counting compares a short form: lower
case, without the provider's prefix and without the date or version at the end.
"""

import hashlib
import re
from functools import lru_cache

_PREFIX = re.compile(
    r"^(?:.*/)?(?:(?:[a-z]{2,6}\.)?(?:anthropic|amazon|meta|mistral|cohere|ai21|deepseek|openai)\.)?(?=.)"
)
_SUFFIX = re.compile(
    r"(?:[-@:_](?>(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{3,4}|(?:0[1-9]|1[0-2])-(?:20\d{2}|[0-3]\d))(?!\d)"
    r"|latest|preview|v\d+(?::\d+)?))++$"
)
"""Nothing is tried twice (`(?>`, `++`): a date reads as one part or as two, and a made-up
name of many would take hours."""


@lru_cache(maxsize=4096)
def short_model(name: str) -> str:
    """The form under which *name* is compared: `openai/gpt-4o-2024-08-06` -> `gpt-4o`."""
    lower = name.strip().lower()
    bare = _PREFIX.sub("", lower)
    return _SUFFIX.sub("", bare) or lower


@lru_cache(maxsize=4096)
def model_fingerprint(name: str | None) -> int:
    """63-bit fingerprint of the short form, the same in every process; 0 for no name."""
    if not name:
        return 0
    return fingerprint(short_model(name))


def fingerprint(text: str) -> int:
    """63-bit fingerprint of *text*, never 0, the same in every process and release."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") & (1 << 63) - 1) or 1
