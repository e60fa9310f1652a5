"""Bedrock's invocation log, and Firehose and CloudWatch around it."""

import gzip
from base64 import b64encode
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import BadPayload
from gateway.products.bedrock import firehose
from tests.support.source_reading import all_text, read, record, records


def entry(**changes: Any) -> dict[str, Any]:
    log: dict[str, Any] = {
        "schemaType": "ModelInvocationLog",
        "timestamp": "2026-11-20T07:00:00Z",
        "identity": {"arn": "arn:aws:sts::111122223333:assumed-role/app/user-ana"},
        "region": "us-east-1",
        "requestId": "req-1",
        "operation": "Converse",
        "modelId": "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "input": {"inputTokenCount": 10, "inputBodyJson": {"messages": "CANARY"}},
        "output": {"outputTokenCount": 5, "outputBodyJson": {"output": "CANARY"}},
    }
    return {**log, **changes}


def envelope(*messages: Any, kind: str = "DATA_MESSAGE") -> dict[str, Any]:
    events = [
        {"id": str(n), "timestamp": 1795158000000, "message": x if isinstance(x, str) else orjson.dumps(x).decode()}
        for n, x in enumerate(messages)
    ]
    return {"messageType": kind, "owner": "1", "logGroup": "CANARY", "logStream": "CANARY", "logEvents": events}


def delivery(*records: bytes) -> dict[str, Any]:
    data = [{"data": b64encode(record).decode()} for record in records]
    return {"requestId": "ed4acda5-034f-9f42-bba1-f29aea6d7d8f", "timestamp": 1795158000000, "records": data}


def zipped(value: Any) -> bytes:
    return gzip.compress(orjson.dumps(value))


def test_a_delivery_of_gzipped_envelopes_gives_each_entry_and_its_request_id() -> None:
    out = read(
        "bedrock",
        delivery(zipped(envelope(entry(), entry(requestId="req-2"))), zipped(envelope(entry(requestId="req-3")))),
    )
    assert [call.record.get("request_id") for call in out.calls.calls] == ["req-1", "req-2", "req-3"]
    assert out.answer == {"requestId": "ed4acda5-034f-9f42-bba1-f29aea6d7d8f"}
    assert "CANARY" not in all_text(out)


def test_records_that_are_plain_lines_are_read() -> None:
    lines = orjson.dumps(entry()) + b"\n" + orjson.dumps(entry(requestId="req-2")) + b"\n"
    assert len(records("bedrock", delivery(lines, orjson.dumps(envelope(entry(requestId="req-3")))))) == 3


def test_a_control_message_and_another_services_line_are_ignored() -> None:
    out = read(
        "bedrock",
        delivery(zipped(envelope("CWL CONTROL", kind="CONTROL_MESSAGE")), zipped(envelope("START RequestId: 1"))),
    )
    assert (out.calls.ignored, out.calls.items) == (2, 2)


def test_an_entry_comes_to_the_same_record_by_any_way() -> None:
    alone = record("bedrock", entry())
    assert record("bedrock", delivery(zipped(envelope(entry())))) == alone
    assert record("bedrock", {"awslogs": {"data": b64encode(zipped(envelope(entry()))).decode()}}) == alone


@pytest.mark.parametrize(
    "data",
    [
        "%%%",
        b64encode(b"\x1f\x8bnot gzip").decode(),
        b64encode(gzip.compress(b"{}" * 99, mtime=0)[:-9]).decode(),
        None,
        7,
        "",
    ],
)
def test_a_record_that_cannot_be_read_costs_only_itself(data: Any) -> None:
    sent = delivery(zipped(envelope(entry())))
    sent["records"].append({"data": data})
    out = read("bedrock", sent)
    assert len(out.calls.calls) == 1
    assert [(x.reason, x.position) for x in out.calls.rejected] == [("unreadable_record", "records[1]")]


def test_a_bomb_in_a_record_is_stopped_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firehose, "MAX_PLAIN_BYTES", 1 << 20)
    budget = firehose.Budget(1 << 20)
    out = read("bedrock", delivery(zipped(envelope(entry()))))
    bomb = gzip.compress(b" " * (1 << 24))
    found = list(firehose.entries(delivery(bomb, bomb), "", out, budget))
    assert found == []
    assert [x.reason for x in out.calls.rejected] == ["too_large", "too_large"]
    assert budget.left == 0


def test_envelopes_nested_without_end_are_an_entry_that_is_ignored() -> None:
    value: Any = entry()
    for _ in range(6):
        value = {"records": [{"data": b64encode(orjson.dumps(value)).decode()}]}
    out = read("bedrock", value)
    assert not out.calls.calls
    assert out.calls.ignored == 1


@pytest.mark.parametrize(
    ("model_id", "model", "operation"),
    [
        ("amazon.titan-embed-text-v2:0", "amazon.titan-embed-text-v2:0", "embeddings"),
        (
            "arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-canvas-v1:0",
            "amazon.nova-canvas-v1:0",
            "image_generation",
        ),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/a1b2c3", "a1b2c3", "chat"),
        ("openai.gpt-oss-120b-1:0", "openai.gpt-oss-120b-1:0", "chat"),
    ],
)
def test_the_model_is_what_follows_the_last_slash(model_id: str, model: str, operation: str) -> None:
    found = record("bedrock", entry(modelId=model_id))
    assert (found["request_model"], found["operation"], found["provider"]) == (model, operation, "aws.bedrock")


def test_the_input_excludes_what_the_cache_gave_and_took() -> None:
    counts = {"inputTokenCount": 57, "cacheReadInputTokenCount": 4096, "cacheWriteInputTokenCount": 2048}
    body = [
        {
            "message": {
                "id": "msg_bdrk_1",
                "usage": {"cache_creation": {"ephemeral_1h_input_tokens": 2000, "ephemeral_5m_input_tokens": 48}},
            }
        },
        {"amazon-bedrock-invocationMetrics": {"invocationLatency": 3037, "firstByteLatency": 635}},
    ]
    found = record("bedrock", entry(input=counts, output={"outputTokenCount": 231, "outputBodyJson": body}))
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 6201,
        "output_tokens": 231,
        "cache_read_input_tokens": 4096,
        "cache_creation_input_tokens": 2048,
        "cache_creation_1h_input_tokens": 2000,
    }
    assert (found["duration_ms"], found["time_to_first_token_ms"], found["response_id"]) == (3037, 635, "msg_bdrk_1")


def test_request_metadata_says_who_and_nothing_else() -> None:
    said = {
        "team": "t",
        "user": "ana",
        "sessionId": "s",
        "project": "p",
        "cost_center": "c",
        "prompt": "CANARY",
        "note": "CANARY",
    }
    found = record("bedrock", entry(requestMetadata=said))
    who = found["attribution"]
    assert (who["team"], who["user"], who["session"], who["project"]) == ("t", "ana", "s", "p")
    assert who["labels"]["cost_center"] == "c"
    assert "CANARY" not in str(found)


def test_a_failure_has_no_usage_and_another_schema_is_ignored() -> None:
    failed = record("bedrock", entry(errorCode="ThrottlingException", input={}, output={}))
    assert (failed["status"], failed["error_type"], failed["usage"]) == (
        "error",
        "ThrottlingException",
        {"status": "none"},
    )
    assert read("bedrock", [entry(schemaType="Other"), {"x": 1}]).calls.ignored == 2


def test_what_is_no_json_is_refused_without_a_word_of_it() -> None:
    with pytest.raises(BadPayload) as told:
        read("bedrock", b"CANARY")
    assert "CANARY" not in str(told.value)


def test_what_firehose_backed_up_can_be_posted_later() -> None:
    """An object of the S3 backup: one failed record a line, its data in `rawData`; and one that was
    never sent: envelopes without a line end.
    """
    failed = [
        {
            "attemptsMade": 4,
            "arrivalTimestamp": 1,
            "errorCode": "e",
            "rawData": b64encode(zipped(envelope(log))).decode(),
        }
        for log in (entry(), entry(requestId="req-2"))
    ]
    assert [made["request_id"] for made in records("bedrock", b"\n".join(map(orjson.dumps, failed)))] == [
        "req-1",
        "req-2",
    ]
    together = b"".join(orjson.dumps(envelope(log)) for log in (entry(), entry(requestId="req-2")))
    assert [made["request_id"] for made in records("bedrock", together)] == ["req-1", "req-2"]
