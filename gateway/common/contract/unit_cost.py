"""Unit-cost streams: where a request goes, and the limits of the service (wire
contract 2.1 and 6.3). Pure.
"""

import re
from collections.abc import Mapping
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

BLOCKED_MS: Final = 5 * 60_000
"""For so long after its deletion no stream of that name is made; the service states minutes."""
FORCE: Final = "force"
"""Query parameter of a deletion: also a stream that holds records."""
STREAM_FIELDS: Final = frozenset({"dimensions", "granularity", "kind"})
"""What the creation of a stream states."""
STREAM_IN_RECORD: Final = "telemetry-stream"
"""Field of a posted record that names its stream, where the path does not."""
_OF_ALLOCATION: Final = frozenset({"element_name", "element-name", "filter"})


def kind_of_record(record: Mapping[str, object]) -> Kind:
    """The kind of stream that a record belongs to whose path does not state it."""
    return "allocation" if _OF_ALLOCATION & record.keys() else "metric"


class Target(NamedTuple):
    """The stream and the operation that a request's path states."""

    kind: Kind
    stream: str
    operation: Operation
