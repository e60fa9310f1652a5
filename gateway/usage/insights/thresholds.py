"""Every threshold of the detectors, with its unit and its reason."""

from typing import Final, NamedTuple

DAY_HOURS: Final = 24
WEEK_DAYS: Final = 7


class Window(NamedTuple):
    """A stretch of time that is compared with the same stretch, at the same time of day, on each of
    the seven days before.
    """

    hours: int
    times: float
    """It must hold at least this many times the usual figure."""


# ---- spikes of spend and tokens

DAY: Final = Window(hours=24, times=2.0)
"""The last 24 hours. Twice a usual day is beyond what weekdays and deadlines do to a team."""
HOUR: Final = Window(hours=1, times=4.0)
"""Any hour of the last 24, so that a runaway job is found at once; single hours vary more than
days.
"""
LEAST_SHARE_OF_DAY: Final = 0.25
"""Of a usual day's total: a smaller extra in one hour changes no bill."""
OVER_BUSIEST: Final = 1.5
"""Times the busiest hour of the week before that an hour must hold: a nightly job that comes an
hour later stays below.
"""
LEAST_WINDOWS: Final = 3
"""Earlier windows that define the usual amount: two days may both be exceptions."""
LEAST_EXTRA_UNITS: Final = 1
"""Of the currency, above the usual amount: a smaller extra is not worth an operator's time."""
LEAST_EXTRA_TOKENS: Final = 100_000
"""Above the usual amount: about the same for a model of middling price."""
TIMES_FROM_NOTHING: Final = 10
"""Factor on the least extra where the usual amount is 0 and no ratio exists."""

# ---- models

NEW_MODEL_AFTER_HOURS: Final = 7 * 24
"""Since counting began: in the first week every model would be new, that of a weekly job too."""
NEW_MODEL_REPORTED_HOURS: Final = 7 * 24
"""A week, in which an operator looks."""

# ---- prices

UNPRICED_HOURS: Final = 7 * 24
"""Calls without a price are counted over so long."""

# ---- usage that is missing

MISSING_LEAST_CALLS: Final = 50
"""In the last 24 hours, and before them: fewer make no share."""
MISSING_LEAST_SHARE: Final = 0.10
"""Of a service's calls; senders that abort a stream now and then stay below."""
MISSING_LEAST_RISE: Final = 0.10
"""Above the share of the week before."""
MISSING_MAX_SHARE: Final = 0.50
"""From here on it is found without a rise and without a week before: most of what this service
spends is not seen.
"""

# ---- what an input holds

ASSUMED_LEAST_CALLS: Final = 20
"""Since the start, with cached tokens: one of the next calls of a library may still show it."""

# ---- cache reads

CACHE_LEAST_TOKENS: Final = 100_000
"""Input tokens of which is known how many were read from a cache: in the last 24 hours, and in the
week before.
"""
CACHE_LEAST_SHARE: Final = 0.10
"""In the week before: caching that small may come and go."""
CACHE_FALLS_TO: Final = 0.5
"""Of the share of the week before."""

# ---- errors

ERROR_HOURS: Final = 2
"""The current hour and the one before: a burst is found while it lasts."""
ERROR_LEAST_FAILED: Final = 10
"""Failed calls in that time."""
ERROR_LEAST_SHARE: Final = 0.25
"""Of the calls in that time; retries at a rate limit stay below."""
ERROR_TIMES: Final = 3.0
"""Above the share of the week before, where `ERROR_LEAST_CALLS_BEFORE` exist: a constant failure is
no burst.
"""
ERROR_LEAST_CALLS_BEFORE: Final = 100

# ---- devices, lanes

SILENT_DEVICE_HOURS: Final = 72
"""A laptop may rest from Friday evening to Monday morning."""
SILENT_DEVICE_LEAST_HOURS: Final = 1
"""Between its first and its last contact: one that came once never was a habit."""
SILENT_DEVICE_REPORTED_HOURS: Final = 30 * 24
"""A device that is silent for longer was retired."""
HELD_LANE_S: Final = 180
"""A rotated key or a deployed upstream is back by then."""
RETRYING_LANE_S: Final = 900
"""An upstream that is down for so long needs an operator."""
