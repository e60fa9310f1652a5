"""Whatever a log record carries: one outcome, a record that serialises and holds the
invariants, no long text, no raise.
"""

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.common.contract.errors import BadPayload
from gateway.read.otlp_json import decode_logs_json
from gateway.read.otlp_protobuf import decode_logs
from gateway.rules.call import Normalised
from gateway.rules.conventions import event_tables, shared
from gateway.rules.conventions.events import _EVENTS
from gateway.rules.logs import normalise_logs
from gateway.rules.record import record_json
from gateway.rules.signal_precedence import DETAILS
from tests.support.corpus import scenarios
from tests.unit.rules.log_records import normalised, request
from tests.unit.rules.spans import CONTEXT
from tests.unit.rules.test_properties import COUNTS, VALUES, check_usage, longest_text

TABLES = (
    shared.NAMES,
    event_tables.CLAUDE_CODE_EVENTS.own,
    event_tables.CODEX_EVENTS.own,
    event_tables.GEMINI_CLI_ANSWERS.own,
    event_tables.CLINE_EVENTS.own,
)
NAMES = sorted({name for table in TABLES for names in table.values() for name in names})
EVENTS = [*_EVENTS, DETAILS, "gen_ai.choice", "api_request", "codex.other", "user.login", ""]
SCOPES = ["", "com.anthropic.claude_code.events", "codex_otel.log_only", "gemini-cli", "qwen-code", "litellm", "any"]
LARGE = COUNTS.filter(lambda n: abs(n) < 2**63)
ATTRIBUTES = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=30), VALUES, max_size=12)
COUNTED = st.fixed_dictionaries(
    {"model": st.sampled_from(["gpt-5", "gemini-2.5-flash"])},
    optional={name: LARGE | LARGE.map(str) for name in NAMES if "token" in name.lower()},
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "event_name": st.sampled_from(EVENTS) | st.text(max_size=100),
        "body": st.sampled_from(EVENTS) | st.text(max_size=100),
        "time_unix_nano": st.integers(0, 2**64 - 1),
        "observed_time_unix_nano": st.integers(0, 2**64 - 1),
        "trace_id": st.binary(max_size=20),
        "span_id": st.binary(max_size=10),
    },
)


def check_outcomes(out: Normalised) -> None:
    assert out.items == len(out.calls) + sum(out.suppressed.values()) + out.ignored + len(out.rejected)


@settings(max_examples=200)
@given(ATTRIBUTES | COUNTED, st.sampled_from(EVENTS), st.sampled_from(SCOPES), FIELDS)
def test_any_log_has_one_outcome_and_any_record_holds_the_invariants(
    attributes: dict[str, Any], event: str, scope: str, fields: dict[str, Any]
) -> None:
    out = normalised({"event.name": event, **attributes}, scope=scope, **fields)
    assert out.items == 1
    check_outcomes(out)
    for call in out.calls:
        record = orjson.loads(record_json(call.record))
        check_usage(record)
        assert longest_text(record) <= 256
        assert record["provider"] or record["request_model"]
        assert (record["status"] == "error") or "error_type" not in record
        assert call.start_ms <= call.end_ms
        assert len(call.trace_id) in {0, 16}
        assert len(call.parent_span_id) in {0, 8}


@given(ATTRIBUTES, ATTRIBUTES, st.sampled_from(EVENTS))
def test_the_same_log_is_the_same_report_whatever_else_the_process_read(
    attributes: dict[str, Any], other: dict[str, Any], event: str
) -> None:
    told = {"event.name": event, **attributes}
    first = [call.record["record_id"] for call in normalised(told).calls]
    normalised({"event.name": event, **other})
    assert [call.record["record_id"] for call in normalised(told).calls] == first


@given(st.data())
def test_bytes_near_a_real_body_are_records_or_a_bad_payload(data: st.DataObject) -> None:
    answer = {"event.name": DETAILS, "gen_ai.usage.input_tokens": 300, "gen_ai.response.model": "m"}
    body = bytearray(request(answer).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        out = normalise_logs(decode_logs(bytes(body)), CONTEXT)
    except BadPayload:
        return
    check_outcomes(out)
    assert all(record_json(call.record) for call in out.calls)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_records_or_a_bad_payload(body: bytes, is_json: bool) -> None:  # noqa: FBT001 - drawn
    try:
        out = normalise_logs((decode_logs_json if is_json else decode_logs)(body), CONTEXT)
    except BadPayload:
        return
    check_outcomes(out)


def test_a_payload_gives_the_same_records_each_time_in_any_order_of_payloads() -> None:
    """The memory of names and events never changes what a log becomes."""
    bodies = [(p.body, p.is_json) for s in scenarios("logs") for p in s.payloads]

    def records(body: bytes, is_json: bool) -> list[bytes]:  # noqa: FBT001 - a pair of the list above
        view = (decode_logs_json if is_json else decode_logs)(body)
        return [record_json(call.record) for call in normalise_logs(view, CONTEXT).calls]

    forward = [records(*entry) for entry in bodies]
    backward = [records(*entry) for entry in reversed(bodies)]
    assert forward == backward[::-1]
