"""Unit-cost streams: where a request goes, and the limits of the service (wire
contract 2.1 and 6.3). Pure.
"""

import re
from typing import Final, NamedTuple

from spool.unit_cost import Granularity, Kind, Operation

GRANULARITIES: Final[dict[Kind, tuple[Granularity, ...]]] = {
    "allocation": ("HOURLY", "DAILY", "MONTHLY"),
    "metric": ("DAILY", "MONTHLY"),
}
METRIC_DEFAULT: Final[Granularity] = "DAILY"
MAX_BYTES: Final = 5_000_000
"""Of one request."""
MAX_DIMENSIONS: Final = 5
"""Of one filter."""
MAX_VALUES: Final = 20
"""Of one dimension."""
MAX_AHEAD_MS: Final = 24 * 3_600_000
"""A timestamp further in the future is refused; the service does not publish its own bound."""
DIMENSIONS: Final = frozenset(
    {
        "Account", "Cloud Provider", "Instance Type", "Kubernetes Cluster", "Kubernetes Namespace", "Kubernetes Pod",
        "Kubernetes Workload", "Operation", "Payer Account", "Payment Option", "Region", "Resource", "Service",
        "Service Category", "Service Detail", "Transaction Type", "Usage Family", "Usage Type",
    }
)  # fmt: skip
"""Dimensions without a prefix. The service does not publish its list in
full, hence `unit_cost.dimensions`."""
FREE_DIMENSION: Final = re.compile(r"(?:custom|tag):.{1,256}", re.DOTALL)


class Target(NamedTuple):
    """The stream and the operation that a request's path states."""

    kind: Kind
    stream: str
    operation: Operation
