"""Unit-cost streams: where a request goes. Pure."""

from typing import NamedTuple

from spool.unit_cost import Kind, Operation


class Target(NamedTuple):
    """Where a request goes, as its path says."""

    kind: Kind
    stream: str
    operation: Operation
