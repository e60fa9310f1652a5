"""Which model a dated name is a version of: `gpt-4o-2024-08-06` is one of `gpt-4o`. Pure.

Only what can be nothing else is cut off: a date (`-2024-08-06`, `@20250929`, `-0613`, `-2407`,
`-08-2024`), Bedrock's version (`-v1:0`), and the number at the end of a Gemini (`-001`). A number
that may be a size, a context or a part of the name stays (`llama3-70b-8192`,
`text-embedding-ada-002`).
"""

import re
from functools import lru_cache
from typing import Final

_DATE: Final = r"20\d{2}-?(?:0[1-9]|1[0-2])-?[0-3]\d|(?:0[1-9]|1[0-2])-20\d{2}"
_SHORT: Final = r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|2[3-9](?:0[1-9]|1[0-2])"
"""Month and day, or year and month."""
_VERSION: Final = re.compile(rf"[-@:_](?:{_DATE}|{_SHORT})(?:-v\d+(?::\d+)?)?$|-v\d+:\d+$", re.ASCII)
_OF_GEMINI: Final = re.compile(r"-00\d$", re.ASCII)


@lru_cache(maxsize=4096)
def model_of(name: str) -> str:
    """*name* without the date or version at its end, if it has one."""
    found = _VERSION.search(name) or (_OF_GEMINI.search(name) if "gemini" in name.lower() else None)
    return name[: found.start()] if found is not None and found.start() else name
