"""What is sent: how many items a request, which kind, at which rate."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from benchmarks.bodies import Place, Shape, Template
from benchmarks.claude_code_bodies import log_records, metric_points
from benchmarks.litellm_bodies import PATH as LITELLM_PATH
from benchmarks.litellm_bodies import LiteLLMTemplate

Kind = Literal["spans", "litellm", "claude_code", "metrics"]
PATHS: Final[dict[Kind, str]] = {
    "spans": "/v1/traces",
    "litellm": LITELLM_PATH,
    "claude_code": "/v1/logs",
    "metrics": "/v1/metrics",
}
NUMBERED_BY: Final[dict[Kind, str]] = {
    "spans": "span_id",
    "litellm": "response_id",
    "claude_code": "session",
    "metrics": "session",
}
"""The field of a delivered record whose last 16 hex digits are the item's number."""


@dataclass(frozen=True, slots=True)
class Load:
    """One row of the matrix."""

    size: int
    """Spans, log records, data points or LiteLLM records in a request."""
    kind: Kind = "spans"
    gzip: bool = False
    rate: float = 0.0
    """Requests a second, open loop; 0 for a closed loop."""
    connections: int = 16

    @property
    def name(self) -> str:
        """`64`, `64 gzip`, `10 open 1000/s`, `100 litellm`."""
        parts = [str(self.size)] + ([self.kind] if self.kind != "spans" else []) + (["gzip"] if self.gzip else [])
        return " ".join(parts + ([f"open {self.rate:.0f}/s"] if self.rate else []))


CLOSED: Final = tuple(
    Load(size, gzip=gzip, connections=64 if size == 1 else 16)
    for size in (1, 10, 64, 100, 512)
    for gzip in (False, True)
)
OPEN: Final = (Load(1, rate=1000, connections=64), Load(10, rate=1000, connections=64))
OTHER_KINDS: Final = (
    Load(100, kind="claude_code"),
    Load(10_000, kind="metrics", connections=4),
    Load(100, kind="litellm", connections=8),
)
"""What the collector does not read: figures of the gateway alone."""
LOADS: Final = {load.name: load for load in (*CLOSED, *OPEN, *OTHER_KINDS)}


class Body(Protocol):
    """What the bodies of each kind have in common."""

    def body(self, number: int) -> bytes: ...
    def places(self) -> list[Place]: ...
    def headers(self) -> dict[str, str]: ...


def write_template(load: Load, path: Path) -> int:
    """Write the request of *load* as the sender reads it; how many records its items become."""
    body, items = _body(load)
    template = {
        "path": PATHS[load.kind],
        "headers": body.headers(),
        "body": base64.b64encode(body.body(0)).decode(),
        "items": items,
        "patches": body.places(),
    }
    path.write_text(json.dumps(template))
    return items


def _body(load: Load) -> tuple[Body, int]:
    match load.kind:
        case "spans":
            return Template(Shape(spans=load.size, attributes=15)), load.size
        case "litellm":
            return LiteLLMTemplate(Shape(spans=load.size, encoding="litellm")), load.size
        case "claude_code":
            logs = log_records(load.size)
            return logs, logs.items
        case "metrics":
            metrics = metric_points(load.size)
            return metrics, metrics.items
