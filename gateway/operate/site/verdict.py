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

MAX_OPEN: Final = 4
"""Findings that are shown at once; the others are folded."""
MAX_FINDINGS: Final = 40


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
        return None if store is None else await ask(request, operation, store, query=query)

    return await wrong_with(parts.status(), parts.now_ms(), answer)
