"""Calls: those that the spool still keeps, and each with why it was counted so."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from aiohttp import web

from gateway.operate import calls as operations
from gateway.operate.parts import stores_of
from gateway.operate.site.allocation_links import GiveLink, link_to
from gateway.operate.site.dead_letters import leaves
from gateway.operate.site.listing import Query, listing
from gateway.operate.site.operating import ask
from gateway.operate.site.view import View
from spool.record import FIELDS

LIST: Final = "/calls"
ONE: Final = LIST + "/{record_id}"
FILTERS: Final = ("outcome", "provider", "model", "team", "project", "key", "service", "device", "tag", "record_id")
RELATIONS: Final[Mapping[str, str]] = {
    "same_span": "the same span, or the same report again",
    "response_id": "the same response id",
    "request_id": "the same request id",
    "above": "the span above it",
    "below": "a span below it",
    "same_trace": "the same trace",
    "same_time": "the same service, at the same time",
}
OF_ONE_CALL: Final = frozenset({"same_span", "response_id", "request_id", "same_time"})
_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")


def plain(text: str) -> str:
    """A line of the docs without its marks."""
    return _LINK.sub(r"\1", text).replace("`", "")


_MEANINGS: Final = {".".join(field.path): plain(field.row.means) for field in FIELDS}


async def load(request: web.Request) -> dict[str, Any]:
    answer = await ask(request, operations.LIST, stores_of(request).calls)
    return calls(answer, request.query.get("cursor", ""))


def calls(answer: Mapping[str, Any], cursor: str = "") -> dict[str, Any]:
    """The template's context of an answer of the list; *cursor*: that led to it."""
    found = listing(LIST, answer, shown=FILTERS)
    return {
        "list": found,
        "rows": [{**each, "path": path_of(each["record_id"], cursor)} for each in found.items],
        "chosen": [(shown_name(name), value, without(found.current, (name, value))) for name, value in found.current],
        "names": {"record_id": "Record id"},
    }


def shown_name(name: str) -> str:
    return name.replace("_", " ").capitalize()


def without(current: Query, gone: tuple[str, str]) -> str:
    left = [pair for pair in current if pair != gone]
    return f"{LIST}?{urlencode(left)}" if left else LIST


async def load_one(request: web.Request) -> dict[str, Any]:
    """Raises NotFound."""
    return call((await ask(request, operations.SHOW, stores_of(request).calls))["call"])


def call(found: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of one call."""
    related = [
        {**each, "path": path_of(each["record_id"]), "shares": RELATIONS[each["relation"]]} for each in found["related"]
    ]
    return {
        "call": found,
        "record": found["record"],
        "source": found["record"].get("source") or {},
        "reports_found": [each for each in related if each["relation"] in OF_ONE_CALL],
        "around": [each for each in related if each["relation"] not in OF_ONE_CALL],
        "fields": list(fields_of(found["record"])),
        "give": give_to(found),
    }


def give_to(found: Mapping[str, Any]) -> GiveLink | None:
    """To the rules for calls of its service and key; None where it has a team."""
    names = [(dimension, found[field]) for dimension, field in (("service_name", "service"), ("key", "key"))]
    return None if found["team"] else link_to("team", [each for each in names if each[1]])


def fields_of(record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name, value and meaning of what is set."""
    for name, value in leaves(record):
        parent = name.rpartition(".")[0]
        yield name, value, _MEANINGS.get(name) or _MEANINGS.get(parent, "")


def path_of(record_id: str | None, cursor: str = "") -> str:
    """Empty for a record without an id, which no gateway writes."""
    if not record_id:
        return ""
    path = ONE.format(record_id=quote(record_id, safe=""))
    return f"{path}?{urlencode({'cursor': cursor})}" if cursor else path


VIEW: Final = View(
    path=LIST,
    title="Calls",
    template="calls.html",
    load=load,
    in_navigation=False,
    below="/usage",
    is_live=False,
    honours_limits=True,
)
DETAIL: Final = View(
    path=ONE,
    title="Call",
    template="call.html",
    load=load_one,
    in_navigation=False,
    below="/usage",
    is_live=False,
    honours_limits=True,
)
VIEWS: Final = (VIEW, DETAIL)
