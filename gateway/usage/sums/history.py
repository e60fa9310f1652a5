"""Hourly usage, the input of the detectors. Pure."""

from collections.abc import Sequence
from typing import NamedTuple


class Usage(NamedTuple):
    """One series in one hour: sums of billed records. Names are "" where they are not known."""

    hour: int
    """Since 1970, UTC; of the call's start."""
    provider: str
    model: str
    team: str
    service_name: str
    currency: str
    cost_source: str
    calls: int = 0
    failed_calls: int = 0
    calls_without_usage: int = 0
    calls_without_price: int = 0
    """Their tokens are known, and their cost is not."""
    input_tokens: int = 0
    output_tokens: int = 0
    cacheable_tokens: int = 0
    """Input tokens of records that state their cache reads."""
    cache_read_tokens: int = 0
    cost_pico: int = 0
    """1e-12 of the currency."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Model(NamedTuple):
    provider: str
    model: str
    first_hour: int
    """Of its first call that did not fail, in the last 30 days."""


class History(NamedTuple):
    now_hour: int = 0
    """The current, incomplete hour."""
    usage: Sequence[Usage] = ()
    """Of the last nine days, in any order."""
    models: Sequence[Model] = ()
    began_hour: int = 0
    """That in which counting began, whatever the age of the calls."""
