"""The words by which gateways state that their own cache answered, so that no
provider billed the call. Pure.

`Hit` of Kong's `Hit|Miss|Bypass|Refresh` is one; `Refresh` is none: the entry was there and was not
used. Portkey and others state which cache it was (`SEMANTIC HIT`, `exact_hit`); many send a
boolean, as such, as a number or as a word.
"""

import re
from functools import lru_cache

_HIT = re.compile(r"(?:\w+[ _-])?hit|true|yes|y|on|cached", re.IGNORECASE | re.ASCII)
_MAX_CHARS = 40


@lru_cache(maxsize=256)
def is_cache_hit(sent: str) -> bool:
    """Whether *sent*, the value of an attribute that marks a gateway's cache hit,
    states that there was one.
    """
    word = sent.strip().strip('"').strip()
    if len(word) > _MAX_CHARS:
        return False
    return _HIT.fullmatch(word) is not None or (word.replace(".", "", 1).isdecimal() and float(word) > 0)
