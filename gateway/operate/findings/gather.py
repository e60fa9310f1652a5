"""Asks for what the findings are made of: the same for `status` and the page."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gateway.operate import dead_letters, senders
from gateway.operate.findings.finding import Finding
from gateway.operate.findings.senders import of_senders
from gateway.operate.findings.status import of_status
from gateway.operate.operation import AnyOperation

Query = tuple[tuple[str, str], ...]
Ask = Callable[[AnyOperation, Query], Awaitable[Mapping[str, Any] | None]]
"""The answer of an operation; None where it is not there."""
SENDERS_TO_LOOK_AT: Final[Query] = (("warning", "silent"), ("warning", "missing_usage"), ("limit", "20"))
NEWEST_LETTERS: Final[Query] = (("sort_key", "buried_at"), ("sort_order", "desc"), ("limit", "50"))
URGENCY: Final = ("fault", "warning")


async def wrong_with(status: Mapping[str, Any], now_ms: int, ask: Ask) -> list[Finding]:
    """Faults and warnings, the faults first."""
    letters = await ask(dead_letters.LIST, NEWEST_LETTERS) if status.get("dead_letters") else None
    found = [*of_status(status, now_ms=now_ms, letters=() if letters is None else letters["dead_letters"])]
    answer = await ask(senders.LIST, SENDERS_TO_LOOK_AT)
    found += [] if answer is None else of_senders(answer)
    return sorted((each for each in found if each.level in URGENCY), key=lambda each: URGENCY.index(each.level))
