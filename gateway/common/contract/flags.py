"""Record flags that several packages set and read (`spool.record.Flag` is the closed list).

Pure.
"""

from collections.abc import Mapping
from typing import Final

UNFINISHED: Final = "unfinished"
"""The observation reports no end: the call may still run. Other observations of the
same identity complete it."""
START_UNKNOWN: Final = "start_unknown"
"""`started_at` is when the call ended; with `unfinished`, when the observation was made."""
BASIS_ASSUMED: Final = "basis_assumed"
"""Nothing shows whether the input holds its cache parts. It is taken to hold them, so that nothing
is overstated."""
BASIS_LEARNT: Final = "basis_learnt"
"""The call itself does not show whether its input holds its cache parts. It is read as other calls
of the same instrumentation proved it."""
UNPRICED: Final = "unpriced"
RECEIVED_TIME: Final = "received_time"
"""The observation reports no time: `started_at` is the time of receipt."""

FLAG_MEANINGS: Final[Mapping[str, str]] = {
    "clock_skew": "its time is ahead of ours, or it ends before it begins",
    "late": "it is more than a day old",
    "inconsistent_usage": "its counts contradict each other, and stand as they were sent",
    "unpriced": "no price is known for its model",
    "conflict": "a report with its response id, or above or below it, states something else",
    "gateway_cache_hit": "a gateway's cache answered",
    "unknown_convention": "only the generic table could read it, or its usage was found by its shape",
    "basis_assumed": "nothing shows whether its input holds the cached tokens; it is taken to hold them",
    "basis_learnt": "other calls of the same instrumentation proved whether its input holds the cached tokens",
    "received_time": "it states no time, so it stands at its receipt",
    "start_unknown": "no field states when it began",
    "unfinished": "only its beginning was reported",
}
"""Flag -> what it says of its record, for people."""
