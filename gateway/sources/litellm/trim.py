"""Leaves LiteLLM's price map out of a body before it is parsed: half of each payload, and most of
the time it takes to read one. Pure.

A payload ends `"hidden_params": {…}, "model_map_information": {…}, "error_str": …` in all
versions that send it. What lies from the second name to the third is left out, unless the
count of tokens stands there, which no price map has: then the names are someone's content, or
the price map was the last of its payload. What is left is JSON wherever a whole member was
cut; where it is not, the reader falls back to the body as it came
(`gateway.sources.reading`). So no client hides its usage by using these names.
"""

from typing import Final

_MAP: Final = b'"model_map_information"'
_NEXT: Final = b'"error_str"'
_ELSEWHERE: Final = b'"prompt_tokens"'
"""Stands in each payload between all that a client writes, and in the next payload too."""
MAX_MAP_BYTES: Final = 64 * 1024


def without_price_maps(body: bytes) -> bytes:
    """*body* without its price maps; *body* itself where it has none."""
    found = body.find(_MAP)
    if found < 0:
        return body
    parts: list[bytes] = []
    begin = 0
    while found >= 0:
        end = body.find(_NEXT, found, found + MAX_MAP_BYTES)
        if end >= 0 and body.find(_ELSEWHERE, found, end) < 0:
            parts.append(body[begin:found])
            begin = found = end
        found = body.find(_MAP, found + 1)
    parts.append(body[begin:])
    return b"".join(parts)
