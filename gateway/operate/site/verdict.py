"""The top of the overview: what is wrong, why, what to do, and what is safe meanwhile."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from gateway.observability.metrics import Status
from gateway.operate import dead_letters, senders
from gateway.operate.findings.finding import Finding
from gateway.operate.findings.gather import Query, wrong_with
from gateway.operate.findings.safe import safe_text
from gateway.operate.operation import AnyOperation
from gateway.operate.parts import PARTS, stores_of
from gateway.operate.site.operating import ask
from gateway.operate.site.usage_answers import SlowAnswers

MAX_OPEN: Final = 4
"""Findings that are shown at once; the others are folded."""
MAX_FINDINGS: Final = 40
LETTERS: Final = web.AppKey("letters", SlowAnswers[Query, Mapping[str, Any]])
"""To list dead letters counts all of them: a live page does that seldom where they are many."""


def verdict(found: Sequence[Finding], status: Status) -> dict[str, Any]:
    """The template's context."""
    shown = found[:MAX_FINDINGS]
    return {
        "is_fault": any(each.level == "fault" for each in found),
        "findings": shown[:MAX_OPEN],
        "further_findings": shown[MAX_OPEN:],
        "safe": safe_text(status),
    }


async def findings_of(request: web.Request) -> list[Finding]:
    """As `status` names them."""
    stores, parts = stores_of(request), request.app[PARTS]
    asked = {senders.LIST.id: stores.senders, dead_letters.LIST.id: stores.dead_letters}

    async def answer(operation: AnyOperation, query: Query) -> Mapping[str, Any] | None:
        store = asked[operation.id]
        if store is None:
            return None
        if operation is not dead_letters.LIST:
            return await ask(request, operation, store, query=query)
        kept, _ = await request.app[LETTERS].answer(query, lambda: ask(request, operation, store, query=query))
        return kept

    return await wrong_with(parts.status(), parts.now_ms(), answer)
