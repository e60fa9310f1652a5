"""Which model a dated name is a version of: `gpt-4o-2024-08-06` is one of `gpt-4o`. Pure.

Only what can be nothing else is cut off:

- a date: `-2024-08-06`, `@20250929`, `-0613`, `-2407`, `-250115`, `-08-2024`, `-05-20`, also with
  Bedrock's version behind it (`-20241022-v2:0`);
- Bedrock's first version, `-v1:0`. A later one without a date is another model, with another price
  (`amazon.titan-embed-text-v2:0`, `anthropic.claude-v2:1`);
- the number at the end of a Gemini (`-001`), but of an embedding, whose number is its name.

A number that may be a size, a context or a part of the name stays (`llama3-70b-8192`,
`text-embedding-ada-002`).
"""

import re
from functools import lru_cache
from typing import Final

_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_DAY: Final = r"(?:0[1-9]|[12]\d|3[01])"
_YEAR: Final = r"2[3-9]"
_DATES: Final = "|".join(
    (
        rf"20\d{{2}}-?{_MONTH}-?{_DAY}",
        rf"{_MONTH}-20\d{{2}}",
        rf"{_MONTH}-{_DAY}",
        rf"{_YEAR}{_MONTH}(?:{_DAY})?",
        rf"(?!1024){_MONTH}{_DAY}",  # 1024 is a size
    )
)
_VERSION: Final = re.compile(rf"[-@:_](?:{_DATES})(?:-v\d+(?::\d+)?)?\Z|-v1:\d+\Z", re.ASCII)
_OF_GEMINI: Final = re.compile(r"gemini(?!.*embedding).*?(-00\d)\Z", re.ASCII | re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=4096)
def model_of(name: str) -> str:
    """*name* without the date or version at its end, if it has one."""
    if (found := _VERSION.search(name)) is not None:
        return name[: found.start()] or name
    gemini = _OF_GEMINI.search(name)
    return name if gemini is None else name[: gemini.start(1)]
