"""What a credential of the admin listener may do."""

from enum import IntEnum


class Role(IntEnum):
    """Each role may do what those below it may."""

    METRICS = 1
    """GET /metrics."""
    VIEWER = 2
    """Read: the page and the reads of the API, without keys; changes nothing."""
    OPERATOR = 3
    """Everything."""
