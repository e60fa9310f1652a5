"""Views and forms call the operations of the API, so that the two cannot differ."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from aiohttp import web

from gateway.access.errors import KeyRefused, NoSuchKey
from gateway.access.operators import OPERATOR
from gateway.common.contract.errors import GatewayError, NotFound
from gateway.common.lists.conventions import BadListRequest
from gateway.operate.calling import perform
from gateway.operate.operation import AnyOperation
from gateway.operate.parts import BY, reach_of
from gateway.operate.site.view import FormFault
from gateway.serve.answers import answer_for
from gateway.usage.insights.changes import InsightError, NoSuchComment, NoSuchInsight
from spool.errors import NoSuchLane

MENDABLE = (GatewayError, KeyRefused, InsightError, BadListRequest, NoSuchLane)
"""What the person at a form can correct, or repeat later."""
GONE = (NotFound, NoSuchKey, NoSuchInsight, NoSuchComment)
"""Then there is no page with the form any more."""


async def ask(
    request: web.Request,
    operation: AnyOperation,
    store: Any,
    *,
    query: Collection[tuple[str, str]] | None = None,
    path: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The answer of an *operation* that reads, with the parameters of the request's path and its
    query, unless *path* or *query* is given. Raises NotFound where the gateway has no such store.
    """
    found = await perform(
        operation,
        present(store),
        path=request.match_info if path is None else path,
        query=query_of(request) if query is None else tuple(query),
        reach=reach_of(request),
    )
    return dict(found or {})


async def change(
    request: web.Request,
    operation: AnyOperation,
    store: Any,
    fields: Mapping[str, Any],
    typed: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    path: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The answer of an *operation* that changes something, with *fields* as its body.

    Raises FormFault for what the person can correct; the form then holds *typed* again. *names*:
    name in the body -> in the form, where they differ. *path*: parameters of the operation's path,
    where they are not those of the request's.
    """
    try:
        return dict(
            await perform(
                operation,
                present(store),
                path=request.match_info if path is None else path,
                fields=fields,
                by=request.get(BY, OPERATOR),
                reach=reach_of(request),
            )
            or {}
        )
    except GONE:
        raise
    except MENDABLE as error:
        raise form_fault(error, typed or {}, names or {}) from None


def present(store: Any) -> Any:
    """Raises NotFound."""
    if store is None:
        raise NotFound("this gateway does not keep them")
    return store


def query_of(request: web.Request) -> tuple[tuple[str, str], ...]:
    """The parameters that hold something: a form in a browser sends empty fields too."""
    return tuple((name, value) for name, value in request.query.items() if value)


def form_fault(error: Exception, typed: Mapping[str, str], names: Mapping[str, str]) -> FormFault:
    status = error.status if isinstance(error, InsightError) else answer_for(error).status
    fields = {names.get(name, name): text for name, text in faults_by_field(str(error)).items()}
    message = "Nothing was changed. See the fields marked below." if fields else str(error)
    return FormFault(message, fields, typed, status)


def faults_by_field(text: str) -> dict[str, str]:
    """Name of a field -> what is wrong with it, in a text as the bodies word it (`name: 3 to 256
    characters are needed; scopes, managed: …`); `limits.bytes_per_minute` is named by its last
    part, any other by its first. Empty for a text that names none.
    """
    found: dict[str, str] = {}
    latest: list[str] = []
    for piece in text.split("; "):
        head, is_fault, rest = piece.partition(": ")
        if is_fault and (names := field_names(head)):
            latest = names
            rest = line_of(head) + rest
            found |= {name: f"{found[name]}; {rest}" if name in found else rest for name in names}
        elif latest:
            found |= {name: f"{found[name]}; {piece}" for name in latest}
        else:
            return {}
    return found


def field_names(head: str) -> list[str]:
    """Empty where *head* holds anything but names of fields."""
    names = [field_name(name) for name in head.split(", ")]
    return names if all(name.replace("-", "_").isidentifier() and name.islower() for name in names) else []


def field_name(name: str) -> str:
    place = _IN_LIST.fullmatch(name)
    return name.removeprefix("limits.").split(".")[0] if place is None else f"{place[2]}-{place[1]}"


def line_of(head: str) -> str:
    """Which line of its field a fault is of; empty where that is not named."""
    place = _IN_LIST.fullmatch(head)
    return "" if place is None or place[3] is None else f"line {int(place[3]) + 1}: "


_IN_LIST: Final = re.compile(r"\w+\[(\d+)\]\.(\w+)(?:\[(\d+)\].*)?")
