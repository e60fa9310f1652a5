"""Langfuse's ingestion API, `POST /api/public/ingestion`: what its SDKs 2 and 3 (and old LiteLLM
callbacks) send in batches of events.

Read from batches of SDK 2.60, the SDK's source, and Langfuse's server
(`ingestion/types.ts`, `processEventBatch.ts`).

1. A generation or embedding is a call, whatever number of events report it (`events.py`). Spans,
   agents, tools are steps; scores, logs and traces no calls. What a trace states of user, session,
   team goes to its calls, also when it comes in another request.
2. One `model` is named, so it is the request's, and the response's where the call went
   well; it states the provider.
3. Usage: `usageDetails` are Langfuse's buckets or the provider's own object (`langfuse_usage.py`);
   the older `usage` may count something else than tokens, by its `unit`. Cost: the total, else the
   sum of its parts, in USD.
4. `level: ERROR` is a failure; its message is a sentence and stays where it is.
5. A create without end, usage and output only states that a call began (`unfinished`); an
   update alone knows no start (`start_unknown`). Both carry the same identity, `body.id`: the
   ledger makes one record of them.
6. Nested generations: the parents are remembered under ids made of Langfuse's, so a generation that
   repeats those below it is suppressed as any other.

`out.answer`: `successes` (`id`, `status`) and `errors` (`id`, `status`, `message`, `error`), as
lists of plain dictionaries.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.flags import START_UNKNOWN
from gateway.common.contract.flags import UNFINISHED as UNFINISHED_FLAG
from gateway.common.contract.outcomes import Rejection
from gateway.products.documents import Document
from gateway.products.fields import count_of, number_of, pick_fields
from gateway.products.items import ignore
from gateway.products.langfuse.events import Observation, ReadEvents, Trace, id_in, read_events
from gateway.products.reporting import Report, add_call, epoch_ms
from gateway.products.source import Snippet, Source, SourceRead, Thread
from gateway.rules.call import UNFINISHED
from gateway.rules.context import Context
from gateway.rules.conventions.langfuse_usage import read_usage
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json, object_in, text_in
from spool.record import Flag

_TRACE_NAMES: dict[str, tuple[str, ...]] = {
    "user": ("metadata.user_api_key_user_id", "userId", "metadata.langfuse_user_id"),
    "session": ("sessionId", "metadata.langfuse_session_id"),
    "team": ("metadata.user_api_key_team_id", "metadata.team_id", "metadata.team"),
    "project": ("metadata.project",),
    "environment": ("environment",),
    "label.virtual_key": ("metadata.user_api_key_alias",),
}
NAMES: dict[str, tuple[str, ...]] = {
    "request_model": ("model",),
    "provider": ("metadata.ls_provider",),
    "service_tier": ("modelParameters.service_tier",),
    "cache_hit": ("metadata.cache_hit",),
    **_TRACE_NAMES,
}
"""Over one observation, or one trace, as `events.FIELDS` has it."""

LANGFUSE = Convention("langfuse", own=NAMES, basis=inclusive)
TRACE = Convention("langfuse", own=_TRACE_NAMES)

_DEFAULT_ENVIRONMENT = "default"
"""What the SDKs write where no one set one."""
_TAG = re.compile(r"(env|environment|team|project):([\w.@-]{1,64})", re.ASCII)
_TAG_FIELDS = {"env": "environment"}
_MAX_TAGS = 50
_TOKENS = "TOKENS"
_UNITS = frozenset({"CHARACTERS", "MILLISECONDS", "SECONDS", "IMAGES", "REQUESTS"})
_LITELLM_ID = re.compile(r"time-\d{2}-\d{2}-\d{2}-\d{6}_([\w.:-]{1,256})", re.ASCII)
"""How LiteLLM's callback names a generation: the time, and the provider's id of the response."""
_VERSION = re.compile(r"\d[\w.+-]{0,31}", re.ASCII)
_LEDGER_TRACE = sha256(b"langfuse").digest()[:16]
_USAGE_COSTS = frozenset({"unit", "inputCost", "outputCost", "totalCost"})
_WANTED = 'the body must be {"batch": [...]}, a list of events as the Langfuse SDKs send them'
_MENDS = {
    "not_a_list": "batch must be a list of events",
    "not_an_object": "an event must be an object with id, type, timestamp and body",
    "not_an_event": "an event needs a type (text) and a body (object)",
    "no_id": "an observation needs body.id, a text of at most 800 characters",
    "invalid_time": "startTime, endTime or timestamp must be a time that a call can have",
}
MAX_ERRORS = 1000


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    """One call for each generation of the merged events."""
    batch = read_events(documents)
    if batch.rejected and len(documents) == 1 and not (batch.observations or batch.ignored):
        raise BadPayload(f"{_WANTED}; {_wrong(batch.rejected[0].rejection)}")
    calls = out.calls
    calls.items += len(batch.rejected) + len(batch.observations)
    for position in batch.ignored:
        ignore(out, position)
    calls.rejected += [refused.rejection for refused in batch.rejected]
    for trace_id, trace in batch.traces.items():
        out.threads.append(Thread(trace_id, _who_of_trace(trace), trace.at_ms))
    for observation in batch.observations.values():
        if observation.kind == "call":
            _add(out, observation, batch, context)
        else:
            calls.suppressed["not_a_call"] += 1
            calls.note_position(observation.position, "not_a_call")
            calls.links.append(_LEDGER_TRACE + _ledger_span(observation.id) + (_parent(observation) or bytes(8)))
    out.answer = {"successes": [{"id": x, "status": 201} for x in batch.accepted], "errors": _errors(batch)}


def _errors(batch: ReadEvents) -> list[dict[str, object]]:
    return [
        {
            "id": refused.event_id or "unknown",
            "status": 400,
            "message": "Invalid request data",
            "error": _wrong(refused.rejection),
        }
        for refused in batch.rejected[:MAX_ERRORS]
    ]


def _wrong(rejection: Rejection) -> str:
    return f"{rejection.position or 'the body'}: {_MENDS[rejection.reason]}"


def _add(out: SourceRead, observation: Observation, batch: ReadEvents, context: Context) -> None:
    """One call, or its rejection."""
    calls, report = out.calls, _report(observation, batch)
    rejected = len(calls.rejected)
    add_call(calls, report, LANGFUSE, observation.position, context)
    if len(calls.rejected) > rejected:
        batch.refuse(observation.event_ids, calls.rejected[-1])
        return
    call = calls.calls[-1]
    is_open = _is_open(observation)
    call.record["flags"] += _partial_flags(observation, report, is_open=is_open)
    if report.start_ms is None or "endTime" not in observation.body:
        call.record["duration_ms"] = None
    if report.trace_id:
        out.threads_of_calls[call.record["record_id"]] = report.trace_id
    calls.calls[-1] = call._replace(
        trace_id=_LEDGER_TRACE,
        span_id=_ledger_span(observation.id),
        parent_span_id=_parent(observation),
        marks=call.marks | (UNFINISHED if is_open else 0),
    )


def _report(observation: Observation, batch: ReadEvents) -> Report:
    body, version = observation.body, batch.sdk_version
    trace_id = text_in(body, "traceId") or ""
    began_ms, ended_ms = epoch_ms(body.get("startTime")), epoch_ms(body.get("endTime"))
    made_ms = observation.at_ms or None
    if began_ms is None and observation.is_created:
        began_ms = made_ms
    if began_ms is None:
        ended_ms = ended_ms or made_ms
    failed = _failed(observation)
    picked = _picked(observation, began_ms, failed=failed)
    if trace_id in batch.traces:
        picked.who = {**_who_of_trace(batch.traces[trace_id]), **picked.who}
    return Report(
        picked,
        event_id=observation.id,
        start_ms=began_ms,
        end_ms=ended_ms,
        failed=failed,
        trace_id=trace_id,
        version=version if version is not None and _VERSION.fullmatch(version) else None,
    )


def _failed(observation: Observation) -> bool:
    """Rule 4."""
    return observation.body.get("level") == "ERROR"


def _is_open(observation: Observation) -> bool:
    """Rule 5: no end is reported."""
    ends = ("endTime", "usage", "usageDetails", "costDetails")
    return not (_failed(observation) or observation.has_output or any(name in observation.body for name in ends))


def _partial_flags(observation: Observation, report: Report, *, is_open: bool) -> list[Flag]:
    """Rule 5."""
    starts, ends = report.start_ms is not None, "endTime" in observation.body
    flags: list[Flag] = [] if starts else [START_UNKNOWN]
    return [*flags, UNFINISHED_FLAG] if is_open or not (starts or ends) else flags


def _picked(observation: Observation, began_ms: int | None, *, failed: bool) -> Extracted:
    """Rules 2 and 3, and who called."""
    body = observation.body
    picked = pick_fields(body, LANGFUSE)
    picked.who = _who(picked, body)
    texts = picked.texts
    texts["request_id"] = observation.id
    made = _LITELLM_ID.fullmatch(observation.id)
    if made:
        texts["response_id"] = made[1]
    model = texts.get("request_model")
    if observation.is_embedding or (model is not None and "embed" in model.lower()):
        texts["operation"] = "embeddings"
    if model is not None and not failed and not _is_open(observation):
        texts["response_model"] = model
    _count(picked, body)
    cost = _cost(body)
    if cost is not None:
        picked.numbers["cost"] = cost
    first_ms = epoch_ms(body.get("completionStartTime"))
    if first_ms is not None and began_ms is not None and first_ms >= began_ms:
        picked.numbers["time_to_first_ms"] = float(first_ms - began_ms)
    return picked


def _who(picked: Extracted, body: Mapping[str, Json]) -> dict[str, str]:
    """What is reported user, session, team and environment; a tag such as `team:search`
    where no field states it.
    """
    who = dict(picked.who)
    if who.get("environment") == _DEFAULT_ENVIRONMENT:
        del who["environment"]
    tags = body.get("tags")
    for tag in tags[:_MAX_TAGS] if isinstance(tags, list) else ():
        found = _TAG.fullmatch(tag) if isinstance(tag, str) else None
        if found:
            who.setdefault(_TAG_FIELDS.get(found[1], found[1]), found[2])
    return who


def _who_of_trace(trace: Trace) -> dict[str, str]:
    return _who(pick_fields(trace.body, TRACE), trace.body)


def _count(picked: Extracted, body: Mapping[str, Json]) -> None:
    """Rule 3: `usageDetails`, else `usage`."""
    details, usage = object_in(body, "usageDetails"), object_in(body, "usage")
    unit = text_in(usage, "unit")
    if details or unit in {None, _TOKENS}:
        read = read_usage(details or {name: usage[name] for name in usage if name not in _USAGE_COSTS})
        picked.counts.update(read.counts)
        other: dict[str, int | float] = read.other
    else:
        suffix = unit.lower() if unit in _UNITS else "units"
        counts = {name: count_of(usage.get(name)) for name in ("input", "output", "total")}
        other = {f"{name}_{suffix}": count for name, count in counts.items() if count is not None}
    if other:
        picked.other = other


def _cost(body: Mapping[str, Json]) -> float | None:
    """Rule 3: the total, else the sum of its parts."""
    for costs, total, parts in (
        (object_in(body, "costDetails"), "total", None),
        (object_in(body, "usage"), "totalCost", ("inputCost", "outputCost")),
    ):
        whole = number_of(costs.get(total))
        if whole is not None:
            return whole
        amounts = [amount for name in parts or costs if (amount := number_of(costs.get(name))) is not None]
        if amounts:
            return sum(amounts)
    return None


@lru_cache(maxsize=4096)
def _ledger_span(observation_id: str) -> bytes:
    """Rule 6: what the ledger knows the observation by."""
    return sha256(observation_id.encode("utf-8", "replace")).digest()[:8]


def _parent(observation: Observation) -> bytes:
    """The same of the one above; b"" for none."""
    parent = id_in(observation.body, "parentObservationId")
    return _ledger_span(parent) if parent else b""


SOURCE = Source(
    name="langfuse",
    title="Langfuse SDKs",
    read=read,
    snippet=Snippet(
        "sh",
        "export LANGFUSE_HOST={url}\n"
        "export LANGFUSE_BASE_URL={url}   # how newer SDKs call it\n"
        "export LANGFUSE_PUBLIC_KEY=pk-any            # not looked at\n"
        "export LANGFUSE_SECRET_KEY={key}\n"
        "export LANGFUSE_MAX_RETRIES=10               # SDK 2; it has 3\n",
    ),
    retries=(
        "SDK 2 sends a batch LANGFUSE_MAX_RETRIES times (3) on 429, 5xx, a lost connection and a 207 that names errors; then, and on"
        " any other 4xx, it is lost without a word. Newer SDKs repeat on 429 and 503 for LANGFUSE_TIMEOUT (5 s)."
    ),
    answers="langfuse",
    native_paths=("/api/public/ingestion",),
    otlp_prefixes=("/api/public/otel", "/v1/sources/langfuse/api/public/otel"),
)
