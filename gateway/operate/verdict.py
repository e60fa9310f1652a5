"""The operation that says what is wrong, why, what to do, and what is safe: as `status` and the top
of the page have it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypedDict

from gateway.common.wall_clock import wall_ms
from gateway.operate import dead_letters, senders
from gateway.operate.dead_letters import DeadLetterRequests
from gateway.operate.findings.finding import Finding
from gateway.operate.findings.gather import Query, wrong_with
from gateway.operate.findings.safe import safe_text
from gateway.operate.operation import AnyOperation, Operation, OperationAnswer, OperationCall
from gateway.operate.senders import SenderSource
from gateway.operate.site.usage_answers import SlowAnswers
from gateway.operate.spool_files import StatusSource


class FindingJson(TypedDict):
    level: Literal["fault", "warning"]
    what: str
    """`lane ai_telemetry`, `senders`, `dead letters`, …"""
    text: str
    why: str | None
    """The reason, in the upstream's words where it gave it."""
    remedy: str | None
    """What to do."""
    page: str | None
    """Path on the page where it is looked into or mended."""


class VerdictAnswer(TypedDict):
    state: Literal["well", "warnings", "faults"]
    safe: str
    """A sentence about what is kept and what is lost."""
    findings: list[FindingJson]
    """Faults first."""


class VerdictSource:
    """What the verdict is made of."""

    def __init__(
        self,
        status: StatusSource,
        letters: DeadLetterRequests | None,
        senders_of: SenderSource | None,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.status = status
        self._now_ms = now_ms
        self._stores = {dead_letters.LIST.id: letters, senders.LIST.id: senders_of}
        self._letters = SlowAnswers[Query, Mapping[str, Any] | None]()
        """To list dead letters counts all of them: where they are many, that is done seldom."""

    async def findings(self) -> list[Finding]:
        """Faults and warnings. Raises DatabaseUnavailable."""
        return await wrong_with(self.status(), self._now_ms(), self._answer)

    async def _answer(self, operation: AnyOperation, query: Query) -> Mapping[str, Any] | None:
        if (store := self._stores[operation.id]) is None:
            return None

        async def ask() -> Mapping[str, Any] | None:
            answer: Mapping[str, Any] | None = await operation.handler(store, operation.call(query=query))
            return answer

        return (await self._letters.answer(query, ask))[0] if operation is dead_letters.LIST else await ask()


async def show(source: VerdictSource, call: OperationCall[None]) -> VerdictAnswer:
    found = await source.findings()
    return {
        "state": "well" if not found else "faults" if found[0].level == "fault" else "warnings",
        "safe": safe_text(source.status()),
        "findings": [item(each) for each in found],
    }


def item(finding: Finding) -> FindingJson:
    return {
        "level": "fault" if finding.level == "fault" else "warning",
        "what": finding.what,
        "text": finding.text,
        "why": finding.why,
        "remedy": finding.remedy,
        "page": None if finding.step is None else finding.step.path,
    }


SHOW: Final = Operation(
    method="GET", path="/v2/verdict", id="showVerdict", tag="Health",
    summary="What is wrong, why, what to do, and what is safe meanwhile",
    handler=show, answer=OperationAnswer("As of now.", VerdictAnswer),
)  # fmt: skip
