"""Request bodies as Claude Code exports them: log records of API requests, and data points of
tokens; made unique by patching, as in `benchmarks.bodies`.

Both are captured payloads, multiplied. The session of item *s* of a run ends in the 16 hex digits
of `AI_SPAN_ID_BASE + s`; a log record is one item, the data points of one session's four token
types are one item, since they become one record.
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from benchmarks.bodies import Place, find_once

CAPTURED: Final = Path(__file__).parents[1] / "tests/data/corpus/assistants/claude-code"
TOKEN_TYPES: Final = 4
"""Data points of one session: input, output, cacheRead, cacheCreation."""
_MINUTE_NS: Final = 60_000_000_000


class PatchedBody:
    """A serialised request, and where the numbers of its items stand."""

    def __init__(self, body: bytes, places: Iterable[Place], *, items: int) -> None:
        self.body_bytes = len(body)
        self.items = items
        self._body, self._places = body, list(places)

    def body(self, number: int) -> bytes:
        """Request *number* of a run (from 0) with item numbers 0; `places` has where others go."""
        if number:
            raise ValueError("numbers beyond the first request are written by the sender")
        return self._body

    def places(self) -> list[Place]:
        return self._places

    def headers(self) -> dict[str, str]:
        """Content-Type of the body."""
        return {"Content-Type": "application/x-protobuf"}


def log_records(count: int) -> PatchedBody:
    """*count* `api_request` events in one request."""
    tree = _captured("api_request_logs.json")
    records = tree["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    event = next(record for record in records if record["body"]["stringValue"].endswith("api_request"))
    now_ns = time.time_ns()
    made = [_log_record(event, index, now_ns) for index in range(count)]
    tree["resourceLogs"][0]["scopeLogs"][0]["logRecords"] = made
    body = ParseDict(tree, ExportLogsServiceRequest()).SerializeToString()
    sentinels = (
        _places(body, _session(index), index) + _places(body, _request_id(index), index) for index in range(count)
    )
    return PatchedBody(body, (place for found in sentinels for place in found), items=count)


def metric_points(count: int) -> PatchedBody:
    """*count* data points of `claude_code.token.usage`, four for each session."""
    tree = _captured("token_metrics_delta.json")
    metric = tree["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]
    captured = metric["sum"]["dataPoints"][:TOKEN_TYPES]
    now_ns, sessions = time.time_ns(), count // TOKEN_TYPES
    metric["sum"]["dataPoints"] = [_data_point(point, index, now_ns) for index in range(sessions) for point in captured]
    tree["resourceMetrics"][0]["scopeMetrics"][0]["metrics"] = [metric]
    body = ParseDict(tree, ExportMetricsServiceRequest()).SerializeToString()
    found = (place for index in range(sessions) for place in _places(body, _session(index), index))
    return PatchedBody(body, found, items=sessions)


def _captured(name: str) -> Any:
    return json.loads((CAPTURED / name).read_text("utf-8"))


def _log_record(event: Any, index: int, now_ns: int) -> Any:
    record = json.loads(json.dumps(event))
    record["timeUnixNano"] = record["observedTimeUnixNano"] = str(now_ns - index * 1_000_000)
    changed = {
        "session.id": {"stringValue": "session-" + _session(index)},
        "request_id": {"stringValue": "req_" + _request_id(index)},
        "event.sequence": {"intValue": str(index)},
    }
    _change(record["attributes"], changed)
    return record


def _data_point(point: Any, index: int, now_ns: int) -> Any:
    made = json.loads(json.dumps(point))
    made["startTimeUnixNano"], made["timeUnixNano"] = str(now_ns - _MINUTE_NS), str(now_ns)
    _change(made["attributes"], {"session.id": {"stringValue": "session-" + _session(index)}})
    return made


def _change(attributes: Any, changed: dict[str, Any]) -> None:
    for attribute in attributes:
        attribute["value"] = changed.get(attribute["key"], attribute["value"])


def _places(body: bytes, sentinel: str, item: int) -> list[Place]:
    found: list[Place] = []
    raw, at = sentinel.encode(), -1
    while (at := body.find(raw, at + 1)) >= 0:
        found.append(Place(at, item, len(raw)))
    return found or [Place(find_once(body, raw), item, len(raw))]


def _session(index: int) -> str:
    return f"Session{index:09d}"


def _request_id(index: int) -> str:
    return f"Request{index:017d}"
