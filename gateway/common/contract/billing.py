"""What both sides know of billing drops: limits, the form of a day's drop, names of connections.

A drop of FOCUS rows replaces one UTC day of one sender whole. It travels in parts; each part has
the same manifest but for its number, and the service puts the day into force when it has all of
them. The revision is a digest of the day's content, so that a drop that is in force already changes
nothing.
"""

import re
from typing import Final

MAX_BYTES: Final = 5_000_000
"""Of one request's body, not compressed."""
MAX_ROWS: Final = 1_000_000
"""Of one connection in a month."""
MAX_PARTS: Final = 1_000
"""Of one day."""

FOCUS: Final = "focus"
FOCUS_VERSION: Final = "1.2"
REPLACE_DAILY: Final = "replace_daily"
"""The one operation of FOCUS rows."""

CONNECTION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
REVISION: Final = re.compile(r"[0-9a-f]{64}")
DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MONTH: Final = re.compile(r"\d{4}-\d\d", re.ASCII)
