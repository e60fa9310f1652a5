"""Senders: who sends, when it did last, what is missing or refused, and what to do about it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from gateway.counting.readings import SHOWN_BASES, InputReading
from gateway.operate import senders as operations
from gateway.operate.parts import PARTS, stores_of
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask
from gateway.operate.site.view import View

PATH: Final = "/senders"
MAX_READINGS: Final = 50


async def load(request: web.Request) -> dict[str, Any]:
    answer = await ask(request, operations.LIST, stores_of(request).senders)
    return senders(answer, request.app[PARTS].status().get("input_readings", ()))


def senders(answer: Mapping[str, Any], readings: Sequence[InputReading] = ()) -> dict[str, Any]:
    """The template's context of an answer of the list."""
    return {
        "list": listing(PATH, answer, shown=("warning", "key", "format", "service_name")),
        "readings": [{**each, "shown": SHOWN_BASES[each["basis"]]} for each in readings[:MAX_READINGS]],
        "more_readings": max(0, len(readings) - MAX_READINGS),
    }


VIEW: Final = View(path=PATH, title="Senders", template="senders.html", load=load)
