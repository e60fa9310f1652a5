"""A request's events -> its observations and traces, each as Langfuse would
have it after all of them. Pure.

1. Events of one observation share `body.id`. Creates go before updates, each in the order of their
   timestamps; a later value goes over an earlier one, and null or an empty object over nothing
   (Langfuse: `processEventBatch.ts`, `IngestionService`).
2. Only the fields below are taken over; prompts, completions and free
   metadata are left where they are.
3. An event that is sent again overwrites itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gateway.common.contract.outcomes import Rejection
from gateway.products.documents import Document
from gateway.products.reporting import epoch_ms
from gateway.rules.texts import Json, object_in, text_in

Kind = Literal["call", "step"]

_CALLS = frozenset({"generation", "embedding"})
_STEPS = frozenset({"span", "agent", "tool", "chain", "retriever", "evaluator", "guardrail"})
_OBSERVATION = "observation"
_OBSERVATIONS = frozenset({*_CALLS, *_STEPS, _OBSERVATION})
"""Before `-create` and `-update`; scores, logs, events, and whatever
else there may be, report no usage."""
_VERBS = frozenset({"create", "update"})
_TRACE = "trace-create"
MAX_ID_CHARS = 800
"""Langfuse takes no longer ones."""

FIELDS = (
    "traceId",
    "parentObservationId",
    "startTime",
    "endTime",
    "completionStartTime",
    "model",
    "modelParameters",
    "usage",
    "usageDetails",
    "costDetails",
    "level",
    "environment",
    "userId",
    "sessionId",
    "tags",
)
METADATA = (
    "user_api_key_user_id",
    "user_api_key_team_id",
    "user_api_key_alias",
    "langfuse_user_id",
    "langfuse_session_id",
    "team",
    "team_id",
    "project",
    "ls_provider",
    "cache_hit",
)
"""What LiteLLM, LangChain and applications write there about who
called; all else in it is free text."""


class Event(NamedTuple):
    """One event of a batch, its envelope read."""

    position: str
    event_id: str
    """"" where it has none: it cannot be named in the answer then."""
    type: str
    at_ms: int
    """When it was made; 0 where it does not state it."""
    body: Mapping[str, Json]


@dataclass(slots=True)
class Observation:
    """One generation or step, as the events of this request state it."""

    id: str
    position: str
    kind: Kind = "step"
    is_embedding: bool = False
    is_created: bool = False
    """Its create is among the events, so its start is known."""
    has_output: bool = False
    at_ms: int = 0
    """When the last event about it was made."""
    event_ids: list[str] = field(default_factory=list)
    body: dict[str, Json] = field(default_factory=dict)
    """`FIELDS`, and `METADATA` under `metadata`."""


@dataclass(slots=True)
class Trace:
    """One trace, as the events of this request state it."""

    at_ms: int = 0
    """When the last event about it was made."""
    body: dict[str, Json] = field(default_factory=dict)
    """As of an observation."""


class RefusedEvent(NamedTuple):
    """One event that could not be read."""

    event_id: str
    """"" where it has none."""
    rejection: Rejection


@dataclass(slots=True)
class ReadEvents:
    """What the events of one request come to."""

    observations: dict[str, Observation] = field(default_factory=dict)
    traces: dict[str, Trace] = field(default_factory=dict)
    """By their ids, as the observations are."""
    ignored: list[str] = field(default_factory=list)
    """Positions of events that are about no observation."""
    accepted: list[str] = field(default_factory=list)
    """Ids of the events that were read, in their order."""
    rejected: list[RefusedEvent] = field(default_factory=list)
    sdk_version: str | None = None

    def refuse(self, event_ids: Sequence[str], rejection: Rejection) -> None:
        """The events of those ids were read, but what they state together cannot be."""
        gone = set(event_ids)
        self.accepted = [x for x in self.accepted if x not in gone]
        self.rejected += [RefusedEvent(x, rejection) for x in event_ids]


def read_events(documents: Sequence[Document]) -> ReadEvents:
    """All events of a request, merged. A document is a batch, or one event of it."""
    found, events = ReadEvents(), list[Event]()
    for document in documents:
        value = document.value
        if isinstance(value, dict) and "batch" in value:
            found.sdk_version = found.sdk_version or text_in(object_in(value, "metadata"), "sdk_version")
            _open_batch(value["batch"], f"{document.position}.batch".lstrip("."), events, found)
        else:
            _open(value, document.position, events, found)
    for event in sorted(events, key=lambda event: (event.type.endswith("-update"), event.at_ms)):
        _take(event, found)
    return found


def _open_batch(batch: Json, position: str, events: list[Event], found: ReadEvents) -> None:
    if not isinstance(batch, list):
        found.rejected.append(RefusedEvent("", Rejection("not_a_list", position)))
        return
    for at, value in enumerate(batch):
        _open(value, f"{position}[{at}]", events, found)
    if not batch:
        found.ignored.append(position)


def _open(value: Json, position: str, events: list[Event], found: ReadEvents) -> None:
    if not isinstance(value, dict):
        found.rejected.append(RefusedEvent("", Rejection("not_an_object", position)))
        return
    event_id = id_in(value, "id")
    kind, body = value.get("type"), value.get("body")
    if not isinstance(kind, str) or not isinstance(body, dict):
        found.rejected.append(RefusedEvent(event_id, Rejection("not_an_event", position)))
        return
    events.append(Event(position, event_id, kind, epoch_ms(value.get("timestamp")) or 0, body))
    if event_id:
        found.accepted.append(event_id)


def _take(event: Event, found: ReadEvents) -> None:
    """Add one event to what was reported before."""
    subject, _, verb = event.type.rpartition("-")
    if event.type == _TRACE:
        _take_trace(event, found)
    elif verb in _VERBS and subject in _OBSERVATIONS:
        _take_observation(event, subject, verb, found)
    else:
        found.ignored.append(event.position)


def _take_trace(event: Event, found: ReadEvents) -> None:
    found.ignored.append(event.position)
    trace_id = id_in(event.body, "id")
    if trace_id:
        trace = found.traces.setdefault(trace_id, Trace())
        trace.at_ms = event.at_ms
        _write_over(trace.body, event.body)


def _take_observation(event: Event, subject: str, verb: str, found: ReadEvents) -> None:
    own_id = id_in(event.body, "id", "generationId", "spanId") or event.event_id
    if not own_id:
        found.rejected.append(RefusedEvent("", Rejection("no_id", event.position)))
        return
    observation = found.observations.get(own_id)
    if observation is None:
        observation = found.observations[own_id] = Observation(own_id, event.position)
    if subject == _OBSERVATION:
        subject = (text_in(event.body, "type") or "").lower() or subject
    if subject in _CALLS or (subject == _OBSERVATION and _speaks_of_a_call(event.body)):
        observation.kind = "call"
    observation.is_embedding |= subject == "embedding"
    observation.is_created |= verb == "create"
    observation.has_output |= event.body.get("output") is not None or event.body.get("completion") is not None
    observation.at_ms = max(observation.at_ms, event.at_ms)
    if event.event_id:
        observation.event_ids.append(event.event_id)
    _write_over(observation.body, event.body)


def _speaks_of_a_call(body: Mapping[str, Json]) -> bool:
    return any(body.get(name) for name in ("model", "usage", "usageDetails"))


def _write_over(known: dict[str, Json], body: Mapping[str, Json]) -> None:
    """Rules 1 and 2."""
    for name in FIELDS:
        value = body.get(name)
        if value is not None and value != {}:
            known[name] = value
    sent = object_in(body, "metadata")
    kept = {name: value for name in METADATA if isinstance(value := sent.get(name), str | int | float)}
    if kept:
        known["metadata"] = {**object_in(known, "metadata"), **kept}


def id_in(value: Mapping[str, Json], *names: str) -> str:
    """The first id under *names*; "" where there is none that Langfuse would take."""
    found = text_in(value, *names) or ""
    return found if len(found) <= MAX_ID_CHARS else ""
