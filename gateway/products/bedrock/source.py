"""Amazon Bedrock: entries of its model invocation log, as they are (S3, one a line) or through
CloudWatch Logs and Data Firehose.

The schema is the one of the Bedrock user guide, "Model invocation logging"
(`ModelInvocationLog` 1.0).

1. `inputTokenCount` leaves out what was read from and written to the cache: it is exclusive.
2. `modelId` is a model's id, a cross-region profile's, or an ARN: what follows the last "/" is the
   model. An application's inference profile and a provisioned model have no name of a model in it.
3. `errorCode` is the only mark of a failure; such an entry has no counts.
4. `requestMetadata` is filled by the caller: of it only the names in `gateway.products.items.WHO`
   are kept. Who called is `identity.arn`.
5. The logged answer, if any, states the answer's id, how it ended, how long it took, and which
   cache writes were for an hour. It goes no further. Bodies above 100 kB are not in the entry.
6. An entry of another schema is ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.products.bedrock.firehose import Budget, entries
from gateway.products.documents import Document
from gateway.products.fields import number_of, pick_fields
from gateway.products.items import WHO, ignore, scalars
from gateway.products.reporting import Report, add_call, content_id, epoch_ms
from gateway.products.source import Snippet, Source, SourceRead
from gateway.rules.context import Context
from gateway.rules.conventions.native import add_parts
from gateway.rules.conventions.table import Convention, exclusive
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted
from gateway.rules.texts import Json, object_in, text_in

SCHEMA: Final = "ModelInvocationLog"
NAMES: dict[str, tuple[str, ...]] = {
    "request_model": ("modelId",),
    "input": ("input.inputTokenCount",),
    "cache_read": ("input.cacheReadInputTokenCount",),
    "cache_creation": ("input.cacheWriteInputTokenCount",),
    "output": ("output.outputTokenCount",),
    "request_id": ("requestId",),
    "region": ("inferenceRegion", "region"),
    "user": ("identity.arn",),
    "label.account": ("accountId",),
    "service_tier": ("serviceTier.type", "serviceTier"),
}
BEDROCK = Convention("bedrock", own=NAMES, basis=exclusive)

_OPERATIONS: Final = (
    ("embed", "embeddings"),
    ("rerank", "rerank"),
    ("stability.", "image_generation"),
    ("titan-image", "image_generation"),
    ("nova-canvas", "image_generation"),
    ("nova-reel", "video_generation"),
    ("luma.", "video_generation"),
)
"""What a model's id holds -> what it does: Bedrock's own `operation` states only how it was asked.
"""


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    budget = Budget()
    for document in documents:
        for entry in entries(document.value, document.position, out, budget):
            if entry.value.get("schemaType", SCHEMA) != SCHEMA or "modelId" not in entry.value:
                ignore(out, entry.position)
                continue
            out.calls.items += 1
            add_call(out.calls, _report(entry.value), BEDROCK, entry.position, context)


def _report(entry: dict[str, Json]) -> Report:
    picked = pick_fields(entry, BEDROCK)
    texts = picked.texts
    texts["provider"] = "aws.bedrock"
    model = texts["request_model"] = texts.get("request_model", "").rpartition("/")[2]
    texts["operation"] = next((name for part, name in _OPERATIONS if part in model), "chat")
    said: dict[str, str] = {}
    scalars(object_in(entry, "requestMetadata"), WHO, said)
    picked.who |= said
    duration_ms = _take_answer(picked, object_in(entry, "output").get("outputBodyJson"))
    operation = text_in(entry, "operation") or ""
    picked.numbers["stream"] = float("Stream" in operation)
    error = entry.get("errorCode")
    return Report(
        picked,
        event_id=texts.get("request_id") or content_id(entry.get("timestamp"), model, *sorted(picked.counts.items())),
        start_ms=epoch_ms(entry.get("timestamp")),
        duration_ms=duration_ms,
        failed=error not in (None, ""),
        error=error if isinstance(error, str) else None,
    )


def _take_answer(picked: Extracted, body: Json) -> float | None:
    """Rule 5; the duration in ms, where the answer states it."""
    chunks = [chunk for chunk in body if isinstance(chunk, dict)] if isinstance(body, list) else []
    whole: Mapping[str, Json] = body if isinstance(body, dict) else {}
    first, last = (chunks[0], chunks[-1]) if chunks else (whole, whole)
    message = object_in(first, "message") or first
    usage = object_in(message, "usage")
    if set(picked.counts) & {"input", "output"}:
        _add_hour(picked, usage)
    if (answer_id := text_in(message, "id")) is not None:
        picked.texts["response_id"] = answer_id[:MAX_TEXT_CHARS]
    if (ended := text_in(whole, "stop_reason", "stopReason")) is not None:
        picked.texts["finish_reason"] = ended[:MAX_TEXT_CHARS]
    metrics = object_in(last, "amazon-bedrock-invocationMetrics")
    first_ms = number_of(metrics.get("firstByteLatency"))
    if first_ms is not None:
        picked.numbers["time_to_first_ms"] = first_ms
    took = metrics.get("invocationLatency")
    return number_of(object_in(last, "metrics").get("latencyMs") if took is None else took)


def _add_hour(picked: Extracted, usage: Mapping[str, Json]) -> None:
    """Which of the cache writes were for an hour: they cost more."""
    parts = Extracted()
    add_parts(parts, usage)
    hour = parts.counts.get("cache_creation_1h")
    if hour is not None and hour <= picked.counts.get("cache_creation", 0):
        picked.counts["cache_creation_1h"] = hour


SOURCE = Source(
    name="bedrock",
    title="Amazon Bedrock (model invocation log, Data Firehose)",
    read=read,
    snippet=Snippet(
        "sh",
        "# Bedrock logs to a CloudWatch log group; a subscription filter hands it to this Firehose stream.\n"
        "aws firehose create-delivery-stream --delivery-stream-name bedrock-usage --http-endpoint-destination-configuration '{{\n"
        '  "EndpointConfiguration": {{"Name": "telemetry-gateway", "Url": "{url}", "AccessKey": "{key}"}},\n'
        '  "RetryOptions": {{"DurationInSeconds": 7200}}, "S3BackupMode": "FailedDataOnly",\n'
        '  "S3Configuration": {{"RoleARN": "…", "BucketARN": "…"}}, "RoleARN": "…"}}\'\n',
    ),
    retries=(
        "Firehose sends again whatever is not 200 with `requestId` and `timestamp` in the body, for as long as RetryOptions says, "
        "and then writes it to its S3 backup."
    ),
    ways_in=("key", "firehose_access_key"),
    answers="firehose",
)
