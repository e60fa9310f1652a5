"""Helicone: its webhook, and rows of its requests API. Two reports of one
request share its `request_id`.

Read from Helicone/helicone `valhalla/jawn/src/lib/clients/webhookSender.ts`,
`handlers/WebhookHandler.ts`, `packages/llm-mapper/types.ts` (`HeliconeRequest`),
`packages/cost/usage/*` and the documentation of webhooks.

1. The provider's own answer in `response_body`, where it can be read, states the usage: Helicone's
   own counts differ by version and provider (newer ones leave cached tokens out of the prompt and
   reasoning out of the completion). A body of more than 10 kB is replaced by a sentence, and then
   `metadata` is all there is.
2. Helicone writes 0 for a count it does not know: with both 0 the usage is unknown. A
   cost of 0 is an unknown price.
3. The webhook has no time: it stands at its receipt. Rows have `request_created_at`.
4. Rows: `prompt_tokens` leave `prompt_cache_read_tokens` and `prompt_cache_write_tokens` out, for
   Helicone prices them beside each other.
5. Rows: a `cache_reference_id` other than the zero UUID is an answer of Helicone's cache. Its
   counts are 0: the usage of the answer is repeated.
6. A status of 400 or more fails; so does one below 0 (-1 time-out, -2 pending, -3 cancelled, -4
   moderated). A body whose answer is an error is one too. The model that such a report names is the
   one that was asked for; what a cancelled call used is unknown.
7. `request_body` gives the user and the model that was asked for, nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from gateway.common.operations import like
from gateway.products.answers import error_in, object_of, take_body
from gateway.products.documents import Document
from gateway.products.fields import number_of, pick_fields, text_of
from gateway.products.items import ignore, objects, reject
from gateway.products.paths import operation_of_path
from gateway.products.reporting import Report, add_call, epoch_ms
from gateway.products.source import Snippet, Source, SourceRead
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, exclusive, unstated
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json, text_in

_ZERO_UUID: Final = "00000000-0000-0000-0000-000000000000"
_COUNTS: Final = ("input", "output", "cache_read", "cache_creation", "audio_input", "audio_output")

NAMES: dict[str, tuple[str, ...]] = {
    "provider": ("provider",),
    "request_model": ("asked.model", "request_model", "model"),
    "response_model": ("response_model", "model"),
    "request_id": ("request_id",),
    "stream": ("asked.stream",),
    "time_to_first_ms": ("time_to_first_token",),
    "total": ("metadata.totalTokens", "total_tokens"),
    "cost": ("metadata.cost", "costUSD", "cost"),
    "user": ("user_id", "request_user_id", "asked.user", "properties.UserId", "properties.User"),
    "session": ("properties.Helicone-Session-Id", "properties.SessionId"),
    "team": ("properties.Team", "properties.team"),
    "project": ("properties.Project", "properties.project"),
    "environment": ("properties.Environment", "properties.environment"),
    "label.prompt": ("prompt_id",),
}
"""Over the report, with `asked` (the request's body) and `properties`."""

OWN_COUNTS: dict[str, tuple[str, ...]] = {
    "input": ("metadata.promptTokens", "prompt_tokens"),
    "output": ("metadata.completionTokens", "completion_tokens"),
    "cache_read": ("prompt_cache_read_tokens",),
    "cache_creation": ("prompt_cache_write_tokens",),
    "audio_input": ("prompt_audio_tokens",),
    "audio_output": ("completion_audio_tokens",),
}
"""Helicone's own, where the answer states none."""

HELICONE = Convention("helicone", own=NAMES, basis=unstated)
HELICONE_COUNTED = Convention("helicone", own={**NAMES, **OWN_COUNTS}, basis=exclusive)


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    """One call for each row with a `request_id`; others are ignored."""
    for position, document in objects(documents, out):
        for where, row in _rows(document, position):
            if not isinstance(row, dict):
                reject(out, "not_an_object", where)
            elif text_in(row, "request_id") is None:
                ignore(out, where)
            else:
                out.calls.items += 1
                _add(row, where, out, context)


def _rows(document: dict[str, Json], position: str) -> Iterator[tuple[str, Json]]:
    """The API's answer is `{data: [row], error: null}`."""
    data = document.get("data")
    if isinstance(data, list):
        yield from ((f"{position}.data[{at}]", row) for at, row in enumerate(data))
    else:
        yield position, data if isinstance(data, dict) else document


def _add(row: dict[str, Json], position: str, out: SourceRead, context: Context) -> None:
    whole = _with_parts(row)
    picked = pick_fields(whole, HELICONE)
    body = row.get("response_body")
    total = picked.counts.pop("total", None)
    take_body(picked, body)
    convention = HELICONE
    if "input" not in picked.counts and "output" not in picked.counts:
        convention = HELICONE_COUNTED
        if total is not None:
            picked.counts["total"] = total
        _take_own_counts(picked, whole)
    if not picked.numbers.get("cost"):
        picked.numbers.pop("cost", None)
    cached = text_in(row, "cache_reference_id")
    if cached not in {None, _ZERO_UUID}:
        picked.numbers["cache_hit"] = like(1.0, cached)
    operation = operation_of_path(text_in(row, "request_path", "target_url"))
    if operation is not None:
        picked.texts["operation"] = operation
    report = _report(row, picked, error_in(body))
    if report.failed and not any(picked.counts.values()) and (number_of(row.get("response_status")) or 0) >= 0:
        picked.texts.pop("response_model", None)
    add_call(out.calls, report, convention, position, context)


def _with_parts(row: dict[str, Json]) -> dict[str, Json]:
    properties = row.get("request_properties") or row.get("properties")
    asked = object_of(row.get("request_body"))
    return {
        **row,
        "properties": dict(object_of(properties)),
        "asked": {name: asked.get(name) for name in ("model", "stream", "user")},
    }


def _take_own_counts(picked: Extracted, row: Mapping[str, Json]) -> None:
    """Rules 1, 2 and 4."""
    own = pick_fields(row, HELICONE_COUNTED).counts
    if not any(own.get(name) for name in _COUNTS):
        return
    for name in _COUNTS:
        if name in own and (own[name] or name in {"input", "output"}):
            picked.counts.setdefault(name, own[name])


def _report(row: Mapping[str, Json], picked: Extracted, error: str | None) -> Report:
    status = number_of(row.get("response_status"))
    is_bad = status is not None and (status >= HTTPStatus.BAD_REQUEST or status < 0)
    start_ms, end_ms = epoch_ms(row.get("request_created_at")), epoch_ms(row.get("response_created_at"))
    return Report(
        picked,
        event_id=text_of(row.get("request_id")),
        start_ms=start_ms,
        end_ms=end_ms if start_ms is not None and end_ms is not None and end_ms >= start_ms else None,
        duration_ms=number_of(_latency(row)),
        failed=is_bad or error is not None,
        error=error or (f"http_{status:.0f}" if status is not None else None),
    )


def _latency(row: Mapping[str, Json]) -> Json:
    metadata = row.get("metadata")
    return metadata.get("latencyMs") if isinstance(metadata, dict) else row.get("delay_ms")


SOURCE = Source(
    name="helicone",
    title="Helicone",
    read=read,
    snippet=Snippet(
        "sh",
        "# Helicone > Webhooks > Add webhook: destination {url}, sample rate 100, no property filters, include data on.\n"
        "# It sends no key but a signature: the webhook's HMAC key goes into `sources.helicone.secret` here.\n"
        "curl -X POST https://api.helicone.ai/v1/webhooks \\\n"
        '  -H "Authorization: Bearer $HELICONE_API_KEY" -H "Content-Type: application/json" \\\n'
        '  -d \'{{"destination": "{url}", "config": {{"sampleRate": 100}}, "includeData": true}}\'\n',
    ),
    retries="Helicone sends each webhook once, waits up to two minutes, and never tries again.",
    ways_in=("key", "hmac_sha256", "path_token"),
)
