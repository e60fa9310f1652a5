"""Senders: who sends, when it did last, what is missing or refused, and what to do about it."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from gateway.operate import senders as operations
from gateway.operate.parts import STORES
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask
from gateway.operate.site.view import View

PATH: Final = "/senders"


async def load(request: web.Request) -> dict[str, Any]:
    return senders(await ask(request, operations.LIST, request.app[STORES].senders))


def senders(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of an answer of the list."""
    return {"list": listing(PATH, answer, shown=("warning", "key", "format", "service_name"))}


VIEW: Final = View(path=PATH, title="Senders", template="senders.html", load=load)
