"""Flags of a record whose report tells a part of the call only: other reports of the same identity tell the rest. Pure."""

from typing import Final

UNFINISHED: Final = "unfinished"
"""No end was told: the call may still go on."""
START_UNKNOWN: Final = "start_unknown"
"""`started_at` is when the call ended; with `unfinished`, when something was told of it."""
