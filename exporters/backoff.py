"""How long to wait before the next try.

Pure: attempt numbers, chance and the wall clock come in as arguments.
"""

from datetime import UTC
from email.utils import parsedate_to_datetime

FIRST_S = 1.0
LONGEST_S = 300.0
PROBE_FIRST_S = 30.0
PROBE_LONGEST_S = 900.0
RETRY_AFTER_LONGEST_S = 3600.0

_DOUBLINGS = 20
"""More than any schedule here needs; keeps `2**n` small for a lane that has failed for weeks."""


def full_jitter_s(attempt: int, chance: float, *, longest_s: float = LONGEST_S) -> float:
    """Seconds before the try after the *attempt*-th failure (from 1): anywhere
    up to 1 s, 2 s, 4 s … *longest_s*.

    *chance* is in [0, 1). The whole span is drawn from, so that many gateways
    do not come back in step.
    """
    return chance * min(longest_s, FIRST_S * 2.0 ** min(max(attempt, 1) - 1, _DOUBLINGS))


def probe_delay_s(probe: int) -> float:
    """Seconds before probe number *probe* (from 0) of a held lane: 30 s, doubling up to 15 min."""
    return min(PROBE_LONGEST_S, PROBE_FIRST_S * 2.0 ** min(max(probe, 0), _DOUBLINGS))


def retry_after_s(value: str | None, *, now_unix_s: float) -> float | None:
    """A `Retry-After` in seconds, at most an hour: a number, or an HTTP-date against
    *now_unix_s* (past dates: 0).

    None when the header is absent or means nothing.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(RETRY_AFTER_LONGEST_S, float(text[:12]))
    at_unix_s = http_date_unix_s(text)
    if at_unix_s is None:
        return None
    return min(RETRY_AFTER_LONGEST_S, max(0.0, at_unix_s - now_unix_s))


def http_date_unix_s(text: str | None) -> float | None:
    """Unix seconds of an HTTP-date in any of its three forms; None when it is none."""
    if text is None:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
