"""What input and output hold, by provider, where a library passes the provider's own numbers on.

1. Input: Anthropic and Bedrock leave cache reads and writes out, also Claude on Vertex AI. All
   others count them in.
2. Output: Google leaves the thoughts out. All others count the reasoning in; xAI does not, which
   its total proves.

A row with a version states up to which the library was seen to do so. Of later ones nothing is
known: the numbers decide, else the reading that cannot overstate.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from gateway.rules.extract import Extracted
from gateway.rules.provider import counts_cache_apart, counts_thoughts_apart
from gateway.rules.usage import Basis

BasisRule = Callable[[Extracted, str, str | None], Basis]
"""From the values, the scope's version and the provider."""


def native_input(picked: Extracted, _version: str, provider: str | None) -> Basis:
    """Rule 1."""
    return Basis.EXCLUSIVE if counts_cache_apart(provider, _model(picked)) else Basis.INCLUSIVE


def native_output(picked: Extracted, _version: str, provider: str | None) -> Basis:
    """Rule 2."""
    return Basis.EXCLUSIVE if counts_thoughts_apart(provider, _model(picked)) else Basis.UNSTATED


def _model(picked: Extracted) -> str | None:
    return picked.texts.get("request_model") or picked.texts.get("response_model")


@lru_cache(maxsize=256)
def is_before(version: str, bound: tuple[int, ...]) -> bool:
    """Whether *version* (`0.1.58`, `1.2.0b1`) is one before *bound*; an unknown one is not."""
    numbers = re.match(r"\d{1,6}(?:\.\d{1,6})*", version)
    return numbers is not None and tuple(map(int, numbers.group().split("."))) < bound


def native_before(bound: tuple[int, ...]) -> BasisRule:
    """Rule 1 for versions before *bound*, up to which the library was seen to pass the provider's
    own input on; of later ones, and of unknown ones, nothing is known.
    """

    def basis(picked: Extracted, version: str, provider: str | None) -> Basis:
        return native_input(picked, version, provider) if is_before(version, bound) else Basis.UNSTATED

    return basis
