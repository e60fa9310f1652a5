"""What a credential of the admin listener may do."""

from enum import IntEnum
from typing import NamedTuple

from gateway.common.contract.reach import EVERYTHING, Reach


class Role(IntEnum):
    """Each role may do what those below it may."""

    METRICS = 1
    """GET /metrics."""
    VIEWER = 2
    """Read: the page and the reads of the API, without keys; changes nothing."""
    OPERATOR = 3
    """Everything."""


class Credential(NamedTuple):
    """What a token or session gives."""

    role: Role
    reach: Reach = EVERYTHING
    """What it sees of calls and costs; of an operator everything."""
    name: str | None = None
    """Of a viewer's token; None for the tokens in files."""
