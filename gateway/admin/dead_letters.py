"""Dead letters and resends as the admin API and the commands have them: what may be asked, and what is answered.

`operate` answers one request on an `Operator`: the one of the running gateway, or the one on the files of a stopped one, so that a
command gives the same either way. `since` and `until` are a time, or a duration before now.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast, get_args

import orjson

from gateway.config.values import parse_duration_s
from gateway.contract.errors import BadPayload, NotFound
from gateway.lists.conventions import (
    BadListRequest,
    CursorPosition,
    Filterable,
    ListShape,
    Order,
    Sort,
    envelope,
    read_request,
)
from gateway.lists.keyset import keyset_page
from spool.clock import rfc3339_ms
from spool.dead_letters import Chosen, DeadLetter, ReasonCount, SortKey
from spool.dead_letters import Place as BesideLetter
from spool.record import Lane
from spool.store import DeadLetterSnapshot, DeadLetterStore

LIST_PATH: Final = "/v2/dead-letters"
REPLAY_PATH: Final = "/v2/dead-letters/replay"
DROP_PATH: Final = "/v2/dead-letters/drop"
REPLAY_DELIVERED_PATH: Final = "/v2/replay"

CHOICE_FIELDS: Final = frozenset({"lane", "reason", "since", "until", "id", "limit"})
MOST_IDS: Final = 1000
EARLIEST_MS: Final = -(2**62)


# ---- requests


async def operate(
    operator: DeadLetterStore,
    method: str,
    path: str,
    *,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
    now_ms: Callable[[], int],
) -> dict[str, Any]:
    """The answer to one request. Raises NotFound, BadListRequest, BadPayload, SpoolError."""
    fields = body or {}
    match method, path:
        case "GET", "/v2/dead-letters":
            return await listed(operator, query, now_ms())
        case "GET", _ if path.startswith(f"{LIST_PATH}/"):
            return await shown(operator, path.removeprefix(f"{LIST_PATH}/"))
        case "POST", "/v2/dead-letters/replay":
            return await replayed(operator, fields, now_ms())
        case "POST", "/v2/dead-letters/drop":
            return await dropped(operator, fields, now_ms())
        case "POST", "/v2/replay":
            only(fields, {"lane", "since"})
            if "since" not in fields:
                raise BadPayload("since: how far back to go is needed, such as 2h or 2026-01-05T10:00:00Z")
            since_ms = moment_ms("since", fields["since"], now_ms())
            return {"replayed": await operator.replay_delivered(texts(fields, "lane") or ("ai_telemetry",), since_ms)}
        case _:
            raise NotFound("there is nothing at this path")


async def listed(operator: DeadLetterStore, query: Sequence[tuple[str, str]], now_ms: int) -> dict[str, Any]:
    """The page of dead letters that *query* asks for, by the list conventions."""
    shape = list_shape(await operator.letter_lanes(), await operator.reasons())
    request = read_request(shape, query)
    try:
        chosen = chosen_in({name: list(values) for name, values in request.filters.items()}, now_ms)
    except BadPayload as error:
        raise BadListRequest(str(error)) from error
    key = cast("SortKey", request.sort.key)
    # Nothing may raise in there: the spool's writer would do its whole commit again.
    page = await operator.look(lambda letters: keyset_page(request, _Rows(letters, chosen, key)))
    return envelope(shape, request, page)


async def shown(operator: DeadLetterStore, id_text: str) -> dict[str, Any]:
    """One dead letter with its record."""
    id_ = int(id_text) if id_text.isascii() and id_text.isdigit() and len(id_text) < 19 else 0  # noqa: PLR2004 what SQLite can hold
    found = await operator.find(Chosen(ids=(id_,)), most=1)
    if not found:
        raise NotFound("there is no dead letter of this id; it may have been put back, dropped, or expired")
    return {**item(found[0]), "record": record_of(found[0])}


async def replayed(operator: DeadLetterStore, fields: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    only(fields, CHOICE_FIELDS)
    chosen = chosen_in(fields, now_ms)
    missing = await operator.missing(chosen.ids)
    requeued = await operator.replay_dead_letters(chosen, limit_in(fields))
    return {"replayed": requeued.replayed, "skipped": requeued.skipped, "missing": missing}


async def dropped(operator: DeadLetterStore, fields: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    only(fields, CHOICE_FIELDS | {"all"})
    chosen = chosen_in(fields, now_ms)
    if chosen.is_all and fields.get("all") is not True:
        raise BadPayload("all: to drop every dead letter, say true; else name some by lane, reason, since, until or id")
    missing = await operator.missing(chosen.ids)
    return {"dropped": await operator.drop_dead_letters(chosen, limit_in(fields)), "missing": missing}


# ---- the list


def list_shape(lanes: Sequence[Lane], reasons: Sequence[ReasonCount]) -> ListShape:
    """*lanes*: those that may be asked for; none where they are not known, as for the description of every gateway's list."""
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
    letters: DeadLetterSnapshot
    chosen: Chosen
    key: SortKey

    def count(self) -> int:
        return self.letters.count(self.chosen)

    def walk(self, order: Order, beyond: CursorPosition | None, most: int) -> Sequence[DeadLetter]:
        place = None if beyond is None else BesideLetter(*beyond)
        return self.letters.find(self.chosen, sort=self.key, descending=order == "desc", beyond=place, most=most)

    def place(self, row: DeadLetter) -> CursorPosition:
        values: dict[SortKey, str | int] = {"buried_at": row.buried_ms, "lane": row.lane, "reason": row.reason}
        return CursorPosition(values[self.key], row.id)

    def item(self, row: DeadLetter) -> object:
        return item(row)


def item(letter: DeadLetter) -> dict[str, Any]:
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
    """None for bytes that are no record: the spool itself set them aside."""
    try:
        record = orjson.loads(letter.record)
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


# ---- what a request holds


def only(fields: Mapping[str, Any], known: frozenset[str] | set[str]) -> None:
    """Raises BadPayload for a name that is none of the *known*: a filter that were passed over would choose too much."""
    if fields.keys() - known:
        raise BadPayload(f"the body may hold {', '.join(sorted(known))}, and nothing else")


def chosen_in(fields: Mapping[str, Any], now_ms: int) -> Chosen:
    return Chosen(
        lanes=texts(fields, "lane"),
        reasons=texts(fields, "reason"),
        since_ms=optional_moment_ms(fields, "since", now_ms),
        until_ms=optional_moment_ms(fields, "until", now_ms),
        ids=ids_in(fields),
    )


def texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """One text, or a list of them."""
    value = fields.get(name, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
        raise BadPayload(f"{name}: a text, or a list of texts, is needed")
    return tuple(values)


def ids_in(fields: Mapping[str, Any]) -> tuple[int, ...]:
    values = fields.get("id", [])
    values = values if isinstance(values, list) else [values]
    if not all(type(each) is int and 0 < each < 2**63 for each in values) or len(values) > MOST_IDS:
        raise BadPayload(f"id: whole numbers from 1 on are needed, at most {MOST_IDS}")
    return tuple(values)


def limit_in(fields: Mapping[str, Any]) -> int | None:
    limit = fields.get("limit")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise BadPayload("limit: a whole number from 1 on is needed")
    return limit


def optional_moment_ms(fields: Mapping[str, Any], name: str, now_ms: int) -> int | None:
    value = fields.get(name)
    if isinstance(value, list) and len(value) > 1:
        raise BadPayload(f"{name}: it stands more than once; one is needed")
    value = value[0] if isinstance(value, list) and value else value
    return None if value is None else moment_ms(name, value, now_ms)


def moment_ms(name: str, value: object, now_ms: int) -> int:
    """A time, or a duration before now. A time without an offset is UTC."""
    try:
        return max(EARLIEST_MS, now_ms - int(parse_duration_s(value) * 1000))
    except (ValueError, OverflowError):
        pass
    try:
        time = datetime.fromisoformat(value if isinstance(value, str) else "")
        return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadPayload(
            f"{name}: a duration such as 2h or 7d, or a time such as 2026-01-05T10:00:00Z, is needed"
        ) from None
