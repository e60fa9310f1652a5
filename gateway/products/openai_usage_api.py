"""Usage reports of the providers themselves: OpenAI's usage API, and Anthropic's usage
report, a page as it was pulled.

Read from the OpenAPI description of `/v1/organization/usage/*` (`UsageCompletionsResult` and its
siblings) and from the Admin API's reference of `/v1/organizations/usage_report/messages`. They sum
up stretches of time and are no calls: aggregates, which bill only where the same inbound key
reports no calls (`gateway.products.sums`).

1. A body is a page `{"data": [bucket]}`, a bucket, or several. Each result of a bucket is one sum;
   what states two of them apart is every text in it, mapped or not, and the stretch. A page that is
   pulled again adds what has grown.
2. OpenAI: `input_tokens` are the text tokens with those from the cache; audio tokens stand beside
   them and are added. Times are epoch seconds.
3. Anthropic: `uncached_input_tokens` leaves the cache out; what was written to it is
   `cache_creation`, by how long it is kept.
4. Results that count no tokens (images, seconds of audio) give how many requests there were. Costs
   (`organization.costs.result`, the cost report) are ignored: their lines cannot be laid over the
   tokens, and both would be billed.
5. Without `group_by` a result names no model: such tokens are kept without a price.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.products.documents import Document
from gateway.products.fields import count_of, pick_fields, text_of
from gateway.products.items import at, ignore, objects, reject
from gateway.products.reporting import epoch_ms
from gateway.products.source import Snippet, Source, SourceRead
from gateway.products.sums import Sum, add_sums
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, exclusive, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json, object_in, text_in

OPENAI = Convention(
    "openai-usage-api",
    own={
        "response_model": ("model",),
        "input": ("input_tokens",),
        "output": ("output_tokens",),
        "cache_read": ("input_cached_tokens",),
        "audio_input": ("input_audio_tokens",),
        "audio_output": ("output_audio_tokens",),
        "service_tier": ("service_tier",),
        "user": ("user_id",),
        "project": ("project_id",),
        "label.virtual_key": ("api_key_id",),
    },
    basis=inclusive,
    default_provider="openai",
)
ANTHROPIC = Convention(
    "anthropic-usage-report",
    own={
        "response_model": ("model",),
        "input": ("uncached_input_tokens", "input_tokens"),
        "output": ("output_tokens",),
        "cache_read": ("cache_read_input_tokens",),
        "cache_creation": ("cache_creation_input_tokens",),
        "cache_creation_1h": ("cache_creation.ephemeral_1h_input_tokens",),
        "cache_creation_5m": ("cache_creation.ephemeral_5m_input_tokens",),
        "service_tier": ("service_tier",),
        "project": ("workspace_id",),
        "label.virtual_key": ("api_key_id",),
    },
    basis=exclusive,
    default_provider="anthropic",
)

_KIND: Final = "organization.usage."
_OPERATIONS: Final = {
    "completions": "chat",
    "embeddings": "embeddings",
    "moderations": "moderation",
    "images": "image_generation",
    "audio_speeches": "speech",
    "audio_transcriptions": "transcription",
}
_MAX_DIMENSIONS: Final = 32


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    """One sum for each row of a page of usage."""
    openai: list[Sum] = []
    anthropic: list[Sum] = []
    for position, value in objects(documents, out):
        for where, bucket in _buckets(value, position, out):
            is_anthropic = "starting_at" in bucket
            for n, result in enumerate(_results(bucket)):
                here = at(where, f"results[{n}]")
                if not isinstance(result, dict):
                    reject(out, "not_an_object", here)
                elif is_anthropic and _tells_tokens(result):
                    anthropic.append(_anthropic(result, bucket, here, context))
                elif not is_anthropic and _operation(result) is not None:
                    openai.append(_openai(result, bucket, here, context))
                else:
                    ignore(out, here)
    add_sums(out, openai, OPENAI, context)
    add_sums(out, anthropic, ANTHROPIC, context)


def _buckets(value: dict[str, Json], position: str, out: SourceRead) -> Iterator[tuple[str, dict[str, Json]]]:
    """Rule 1. What is neither page nor bucket, such as an error of the API, is ignored."""
    data = value.get("data")
    if not isinstance(data, list):
        if isinstance(value.get("results", value.get("result")), list):
            yield position, value
        else:
            ignore(out, position)
        return
    for n, bucket in enumerate(data):
        where = at(position, f"data[{n}]")
        if isinstance(bucket, dict):
            yield where, bucket
        else:
            reject(out, "not_an_object", where)


def _results(bucket: Mapping[str, Json]) -> list[Json]:
    """Under `result` in older descriptions."""
    results = bucket.get("results", bucket.get("result"))
    return results if isinstance(results, list) else []


def _operation(result: Mapping[str, Json]) -> str | None:
    """What a result of OpenAI's counts; None for what is no use of a model
    (costs, stores of vectors).
    """
    kind = text_in(result, "object")
    if kind is None:
        return "chat" if "input_tokens" in result else None
    return _OPERATIONS.get(kind.removeprefix(_KIND).removesuffix(".result"))


def _tells_tokens(result: Mapping[str, Json]) -> bool:
    return "uncached_input_tokens" in result or "output_tokens" in result


def _openai(result: dict[str, Json], bucket: Mapping[str, Json], position: str, context: Context) -> Sum:
    picked = pick_fields(result, OPENAI)
    counts = picked.counts
    for whole, part in (("input", "audio_input"), ("output", "audio_output")):
        if counts.get(part):
            counts[whole] = counts.get(whole, 0) + counts[part]
    if result.get("batch") is True:
        picked.texts["service_tier"] = "batch"
    picked.texts["operation"] = _operation(result) or "chat"
    picked.texts["provider"] = "openai"
    calls = count_of(result.get("num_model_requests"))
    start, end = bucket.get("start_time"), bucket.get("end_time")
    return Sum(_identity(result, context), picked, epoch_ms(start), epoch_ms(end), position, calls)


def _anthropic(result: dict[str, Json], bucket: Mapping[str, Json], position: str, context: Context) -> Sum:
    picked = pick_fields(result, ANTHROPIC)
    if object_in(result, "cache_creation"):
        hour, minutes = picked.counts.get("cache_creation_1h", 0), picked.counts.get("cache_creation_5m", 0)
        picked.counts["cache_creation"] = hour + minutes
    picked.texts["provider"] = "anthropic"
    start, end = bucket.get("starting_at"), bucket.get("ending_at")
    return Sum(_identity(result, context), _named(picked), epoch_ms(start), epoch_ms(end), position)


def _named(picked: Extracted) -> Extracted:
    """Without the tier that is no other price: `standard`."""
    if picked.texts.get("service_tier") == "standard":
        del picked.texts["service_tier"]
    return picked


def _identity(result: Mapping[str, Json], context: Context) -> tuple[str, ...]:
    """Every text and truth value of the result: its dimensions, whatever they are called."""
    dimensions = [
        f"{name}={text_of(value)}"
        for name, value in sorted(result.items())
        if isinstance(value, str | bool) and value != ""
    ]
    return (context.counted_key or "", *dimensions[:_MAX_DIMENSIONS])


SOURCE = Source(
    name="openai-usage-api",
    title="Usage reports of OpenAI and Anthropic",
    read=read,
    snippet=Snippet(
        "sh",
        "# Each hour. Always the same group_by: another one reports the same tokens again.\n"
        "curl -fsS -G https://api.openai.com/v1/organization/usage/completions \\\n"
        '  -H "Authorization: Bearer $OPENAI_ADMIN_KEY" \\\n'
        "  -d \"start_time=$(date -u -d '2 days ago' +%s)\" -d bucket_width=1h -d limit=48 \\\n"
        '  -d "group_by[]=model" -d "group_by[]=project_id" \\\n'
        "| curl -fsS -X POST {url} -H 'Authorization: {key}' -H 'Content-Type: application/json' --data-binary @-\n",
    ),
    retries="Nothing is pushed by itself: a report that could not be handed over is pulled again, and what was counted of it counts once.",
)
