"""Dead letters: counts by lane and reason, the list, each record, and to replay or drop a choice of
them after a page that states their number.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from gateway.common.contract.errors import BadPayload
from gateway.common.lists.conventions import BadListRequest
from gateway.common.plural import plural
from gateway.operate import dead_letters as operations
from gateway.operate.dead_letters import Choice, DeadLetterRequests
from gateway.operate.parts import stores_of
from gateway.operate.role import Role
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask, change, present, query_of
from gateway.operate.site.view import Action, View, posted, see
from spool.clock import rfc3339_ms
from spool.dead_letters import Chosen, ReasonCount

LIST: Final = "/dead-letters"
FILTERS: Final = ("lane", "reason", "since", "until")
MAX_REASONS: Final = 50
MAX_FIELDS: Final = 300
"""Of a record, which may be a usage event with metadata of its own."""

Pairs = Sequence[tuple[str, str]]


async def load(request: web.Request) -> dict[str, Any]:
    store = store_of(request)
    answer = await ask(request, operations.LIST, store)
    found = listing(LIST, answer, shown=FILTERS)
    return {**counts(await store.letters.reasons()), "list": found, "all_of_them": urlencode(found.current)}


def counts(reasons: Sequence[ReasonCount]) -> dict[str, Any]:
    """The template's context about the reasons."""
    return {
        "reasons": [{**each._asdict(), "url": url_of(each)} for each in reasons[:MAX_REASONS]],
        "further_reasons": max(0, len(reasons) - MAX_REASONS),
    }


def url_of(each: ReasonCount) -> str:
    return f"{LIST}?{urlencode({'lane': each.lane, 'reason': each.reason})}"


async def load_one(request: web.Request) -> dict[str, Any]:
    letter = await ask(request, operations.SHOW, store_of(request), query=())
    fields = list(leaves(letter["record"] or {}))
    return {"letter": letter, "fields": fields[:MAX_FIELDS], "further_fields": max(0, len(fields) - MAX_FIELDS)}


def leaves(record: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    """(`usage.input_tokens`, value as text) of what is set."""
    for key, value in record.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{name}{key}.")
        elif isinstance(value, list):
            yield from [(f"{name}{key}", ", ".join(map(str, value)))] if value else []
        elif value is not None:
            yield f"{name}{key}", str(value).lower() if isinstance(value, bool) else str(value)


# ---- replay and drop


async def load_replay(request: web.Request) -> dict[str, Any]:
    return await confirmation(request, "replay")


async def load_drop(request: web.Request) -> dict[str, Any]:
    return await confirmation(request, "drop")


async def confirmation(request: web.Request, verb: str) -> dict[str, Any]:
    """How many the choice of the query holds, and the fields that the form sends.

    A choice by lane, reason or time ends now: what is set aside after its number was stated is not
    in it.
    """
    store, pairs = store_of(request), query_of(request)
    if not any(name == "id" for name, _ in pairs) and not any(name == "until" for name, _ in pairs):
        pairs = (*pairs, ("until", rfc3339_ms(store.now_ms())))
    chosen = chosen_by(pairs, store.now_ms())
    count = await store.letters.count(chosen)
    return {"verb": verb, "count": count, "choice": pairs}


async def replay(request: web.Request) -> web.Response:
    answer = await change(request, operations.REPLAY, store_of(request), body_of(pairs_of(request)))
    replayed = sum(answer["replayed"].values())
    text = f"{plural(replayed, 'record is', 'records are')} pending again."
    if answer["skipped"]:
        text += f" {plural(answer['skipped'], 'record was', 'records were')} skipped. The lane is not set up, or the bytes are damaged."
    return see(request, LIST, text)


async def drop(request: web.Request) -> web.Response:
    answer = await change(request, operations.DROP, store_of(request), body_of(pairs_of(request)))
    return see(request, LIST, f"{plural(answer['dropped'], 'dead letter was', 'dead letters were')} dropped.")


def pairs_of(request: web.Request) -> Pairs:
    return [(name, value) for name, value in posted(request).items() if value]


def chosen_by(pairs: Pairs, now_ms: int) -> Chosen:
    """Raises BadListRequest, as the list does."""
    try:
        return Choice.checked(body_of(pairs)).chosen(now_ms)
    except BadPayload as error:
        raise BadListRequest(str(error)) from error


def body_of(pairs: Pairs) -> dict[str, Any]:
    """The fields of a query or form as the operations take them; an id that is no number stays a
    text, which they refuse.
    """
    body: dict[str, Any] = {}
    for name, value in pairs:
        if name in ("since", "until"):
            body[name] = value
        else:
            is_number = name == "id" and value.isascii() and value.isdecimal() and len(value) <= operations.MAX_ID_CHARS
            body.setdefault(name, []).append(int(value) if is_number else value)
    return body


def store_of(request: web.Request) -> DeadLetterRequests:
    store: DeadLetterRequests = present(stores_of(request).dead_letters)
    return store


VIEW: Final = View(path=LIST, title="Dead letters", template="dead_letters.html", load=load)
ONE: Final = View(
    path=LIST + "/{id}",
    title="Dead letter",
    template="dead_letter.html",
    load=load_one,
    in_navigation=False,
    below=LIST,
)
REPLAY: Final = View(
    path=LIST + "/replay", title="Replay dead letters", template="dead_letters_confirm.html", load=load_replay,
    role=Role.OPERATOR, in_navigation=False, below=LIST,
)  # fmt: skip
DROP: Final = View(
    path=LIST + "/drop", title="Drop dead letters", template="dead_letters_confirm.html", load=load_drop,
    role=Role.OPERATOR, in_navigation=False, below=LIST,
)  # fmt: skip
VIEWS: Final = (VIEW, REPLAY, DROP, ONE)
"""`ONE` matches every segment, so it is the last."""
ACTIONS: Final = (
    Action(path=LIST + "/replay", title="Replay dead letters", handler=replay, view=VIEW),
    Action(path=LIST + "/drop", title="Drop dead letters", handler=drop, view=VIEW),
)
