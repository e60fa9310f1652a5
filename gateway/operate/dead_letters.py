"""The operations on dead letters, and on records that were delivered and are to be sent again.

`since` and `until` are a time, or a duration before now.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple, TypedDict, cast, get_args

import orjson
from pydantic import AfterValidator, ConfigDict, Field

from gateway.common.body import Body
from gateway.common.contract.errors import BadPayload, NotFound
from gateway.common.contract.json_types import Count, Time
from gateway.common.lists.conventions import (
    BadListRequest,
    CursorPosition,
    Filterable,
    ListRequest,
    ListShape,
    Order,
    Sort,
    envelope,
    read_request,
)
from gateway.common.lists.keyset import keyset_page
from gateway.config.values import parse_duration_s
from gateway.operate.operation import Listed, Operation, OperationAnswer, OperationCall
from spool.clock import rfc3339_ms
from spool.dead_letters import Chosen, DeadLetter, LetterPage, ReasonCount, SortKey, place_of
from spool.dead_letters import Place as BesideLetter
from spool.record import AI_TELEMETRY, Lane
from spool.store import DeadLetterStore

MAX_IDS: Final = 1000
MAX_ID_CHARS: Final = 18
"""What SQLite can hold for sure."""
EARLIEST_MS: Final = -(2**62)
MOMENT: Final = "a duration such as 2h or 7d, or a time such as 2026-01-05T10:00:00Z,"


class DeadLetterRequests(NamedTuple):
    """What the operations work on."""

    letters: DeadLetterStore
    now_ms: Callable[[], int]
    """The spool's clock."""


# ---- bodies


def moment_ms(value: str, now_ms: int) -> int:
    """A time, or a duration before *now_ms*. A time without an offset is UTC. Raises ValueError."""
    try:
        return max(EARLIEST_MS, now_ms - int(parse_duration_s(value) * 1000))
    except (ValueError, OverflowError):
        pass
    try:
        time = datetime.fromisoformat(value)
        return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{MOMENT} is needed") from error


def _sound_moment(value: str | None) -> str | None:
    if value is not None:
        moment_ms(value, 0)
    return value


_MOMENTS: Final = {"examples": ["2026-01-05T10:00:00Z", "2h"]}
_Text = Annotated[str, Field(min_length=1)]
_Id = Annotated[int, Field(ge=1, lt=2**63)]
Texts = Annotated[_Text | list[_Text], Field(description="a text, or a list of texts,")]
Ids = Annotated[
    _Id | Annotated[list[_Id], Field(max_length=MAX_IDS)],
    Field(description=f"a whole number from 1 on, or a list of at most {MAX_IDS},"),
]
Moment = Annotated[str | None, AfterValidator(_sound_moment), Field(description=MOMENT, json_schema_extra=_MOMENTS)]


class Choice(Body):
    """Which dead letters; without a field, all of them."""

    model_config = ConfigDict(json_schema_extra={"example": {"lane": ["ai_telemetry"], "since": "2h"}})

    lane: Texts = Field(default=[])
    reason: Texts = Field(default=[])
    since: Moment = None
    until: Moment = None
    id: Ids = Field(default=[])
    limit: Annotated[int | None, Field(ge=1, description="a whole number from 1 on")] = None

    def chosen(self, now_ms: int) -> Chosen:
        return Chosen(
            lanes=_tuple_of(self.lane),
            reasons=_tuple_of(self.reason),
            since_ms=None if self.since is None else moment_ms(self.since, now_ms),
            until_ms=None if self.until is None else moment_ms(self.until, now_ms),
            ids=(self.id,) if isinstance(self.id, int) else tuple(self.id),
        )


class DropChoice(Choice):
    """Dead letters to delete; all of them only where `all` is true."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "example": {"id": [1, 2]}})

    all: Annotated[bool, Field(description="true, to drop every dead letter, or false")] = False


class Resend(Body):
    """Delivered records to send again."""

    model_config = ConfigDict(json_schema_extra={"example": {"since": "2h"}})

    since: Annotated[
        str,
        AfterValidator(_sound_moment),
        Field(description=f"how far back to go, {MOMENT}", json_schema_extra=_MOMENTS),
    ]
    lane: Texts = Field(default=[])
    dry_run: Annotated[bool, Field(description="true, to count them and send none, or false")] = False


def _tuple_of(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


# ---- answers


class DeadLetterJson(TypedDict):
    id: int
    lane: Lane
    reason: str
    """The upstream's code."""
    message: str | None
    """The upstream's message."""
    buried_at: Time
    bytes: Count
    record_id: str | None


class DeadLetterWithRecord(DeadLetterJson):
    record: Mapping[str, Any] | None
    """As it would be sent. Null for bytes that are no record."""


class Replayed(TypedDict):
    replayed: Mapping[Lane, Count]
    """Lane -> records."""
    skipped: Count
    missing: Sequence[int]
    """Ids of the request that no dead letter has."""


class Dropped(TypedDict):
    dropped: Count
    missing: Sequence[int]
    """Ids of the request that no dead letter has."""


class Resent(TypedDict):
    replayed: Mapping[Lane, Count]
    """Lane -> records."""


class WouldResend(TypedDict):
    would_replay: Mapping[Lane, Count]
    """Lane -> records."""


# ---- handlers


async def listed(store: DeadLetterRequests, call: OperationCall[None]) -> dict[str, Any]:
    """The page of dead letters that the query asks for. Raises BadListRequest."""
    letters = store.letters
    shape = list_shape(await letters.letter_lanes(), await letters.reasons())
    request = read_request(shape, call.query)
    chosen = _filtered(request, store.now_ms())
    key = cast("SortKey", request.sort.key)
    position, order = request.position, request.sort.order
    found = await letters.page(
        chosen,
        sort=key,
        descending=(order == "desc") != (position is not None and position.backwards),
        beyond=None if position is None else BesideLetter(*position.place),
        most=request.limit + 1,
    )
    page = keyset_page(request, _Rows(found, key))
    return envelope(shape, request, page)


def _filtered(request: ListRequest, now_ms: int) -> Chosen:
    filters = request.filters

    def moment(name: str) -> int | None:
        values = filters.get(name, ())
        if len(values) > 1:
            raise BadListRequest(f"{name}: it is given more than once; one is needed")
        try:
            return moment_ms(values[0], now_ms) if values else None
        except ValueError as error:
            raise BadListRequest(f"{name}: {error}") from error

    return Chosen(filters.get("lane", ()), filters.get("reason", ()), moment("since"), moment("until"))


async def show(store: DeadLetterRequests, call: OperationCall[None]) -> DeadLetterWithRecord:
    text = call.path["id"]
    id_ = int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_ID_CHARS else 0
    found = await store.letters.find(Chosen(ids=(id_,)), most=1)
    if not found:
        raise NotFound("no dead letter has this id; it may have been replayed, dropped, or expired")
    return {**item(found[0]), "record": record_of(found[0])}


async def replay(store: DeadLetterRequests, call: OperationCall[Choice]) -> Replayed:
    chosen = call.body.chosen(store.now_ms())
    missing = await store.letters.missing(chosen.ids)
    requeued = await store.letters.replay_dead_letters(chosen, call.body.limit)
    return {"replayed": requeued.replayed, "skipped": requeued.skipped, "missing": missing}


async def drop(store: DeadLetterRequests, call: OperationCall[DropChoice]) -> Dropped:
    chosen = call.body.chosen(store.now_ms())
    if chosen.is_all and not call.body.all:
        raise BadPayload(
            "all: true is needed to drop every dead letter; else name some by lane, reason, since, until or id"
        )
    missing = await store.letters.missing(chosen.ids)
    return {"dropped": await store.letters.drop_dead_letters(chosen, call.body.limit), "missing": missing}


async def resend(store: DeadLetterRequests, call: OperationCall[Resend]) -> Resent | WouldResend:
    since_ms = moment_ms(call.body.since, store.now_ms())
    lanes = _tuple_of(call.body.lane) or (AI_TELEMETRY,)
    if call.body.dry_run:
        return {"would_replay": await store.letters.count_delivered(lanes, since_ms)}
    return {"replayed": await store.letters.replay_delivered(lanes, since_ms)}


# ---- the list


def list_shape(lanes: Sequence[Lane], reasons: Sequence[ReasonCount]) -> ListShape:
    """*lanes*: the valid values of the filter; empty where they are
    not known, as in the description.
    """
    codes = tuple(dict.fromkeys(reason.reason for reason in reasons))
    return ListShape(
        root="dead_letters",
        sort_keys=get_args(SortKey),
        default_sort=Sort("buried_at", "asc"),
        filters=(
            Filterable("lane", tuple(lanes), is_open=not lanes),
            Filterable("reason", codes, is_open=True),
            Filterable("since", (), ("timestamp", "duration"), is_open=True),
            Filterable("until", (), ("timestamp", "duration"), is_open=True),
        ),
    )


@dataclass(frozen=True)
class _Rows:
    """The rows that `keyset_page` asks for, which were read before."""

    found: LetterPage
    key: SortKey

    def count(self) -> int:
        return self.found.total

    def walk(self, order: Order, beyond: CursorPosition | None, most: int) -> Sequence[DeadLetter]:
        return self.found.letters

    def is_any(self, order: Order, beyond: CursorPosition) -> bool:
        return not self.found.is_first

    def place(self, row: DeadLetter) -> CursorPosition:
        return CursorPosition(*place_of(row, self.key))

    def item(self, row: DeadLetter) -> object:
        return item(row)


def item(letter: DeadLetter) -> DeadLetterJson:
    """An item of the list."""
    record = record_of(letter)
    return {
        "id": letter.id,
        "lane": letter.lane,
        "reason": letter.reason,
        "message": letter.message,
        "buried_at": rfc3339_ms(letter.buried_ms),
        "bytes": letter.size_bytes,
        "record_id": record.get("record_id") if record is not None else None,
    }


def record_of(letter: DeadLetter) -> dict[str, Any] | None:
    """None for bytes that are no record: the spool dead-lettered them itself."""
    try:
        record = orjson.loads(letter.record)
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


# ---- the table

LETTERS: Final = "/v2/dead-letters"
RESEND_PATH: Final = "/v2/replay"

_TAG: Final = "Dead letters"

LIST: Final = Operation(
    method="GET", path=LETTERS, id="listDeadLetters", summary="Dead letters", tag=_TAG,
    handler=listed, answer=Listed(list_shape([], []), DeadLetterJson),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=LETTERS + "/{id}", id="readDeadLetter", tag=_TAG,
    summary="One dead letter with its record, which holds no prompt",
    handler=show, parameters={"id": {"type": "integer", "minimum": 1}},
    answer=OperationAnswer("The dead letter.", DeadLetterWithRecord),
)  # fmt: skip
REPLAY: Final = Operation(
    method="POST", path=LETTERS + "/replay", id="replayDeadLetters", tag=_TAG,
    summary="Make dead letters pending again; without a choice, all of them",
    handler=replay, body=Choice, is_body_needed=False,
    answer=OperationAnswer("They are pending.", Replayed),
)  # fmt: skip
DROP: Final = Operation(
    method="POST", path=LETTERS + "/drop", id="dropDeadLetters", tag=_TAG,
    summary="Delete dead letters for good; they stay counted",
    handler=drop, body=DropChoice, answer=OperationAnswer("They are deleted.", Dropped),
)  # fmt: skip
RESEND: Final = Operation(
    method="POST", path=RESEND_PATH, id="replayDelivered", tag=_TAG,
    summary="Send delivered records once more, as far as they are still on disk",
    handler=resend, body=Resend,
    answer=OperationAnswer("They are to be sent; of a dry run, how many would be.", Resent | WouldResend),
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[DeadLetterRequests, Any], ...]] = (LIST, SHOW, REPLAY, DROP, RESEND)
