"""Record flags that several packages set and read (`spool.record.Flag` is the closed list).

Pure.
"""

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
