"""The operations on the spool as a whole: its status, a check of all of it, a copy."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, TypedDict

from pydantic import ConfigDict, Field

from gateway.common.body import Body
from gateway.common.contract.json_types import Count
from gateway.observability.metrics import Status
from gateway.operate.operation import Operation, OperationAnswer, OperationCall
from spool.status import Verified


class SpoolFiles(Protocol):
    """The spool of the running gateway, or the files of a stopped one."""

    async def verify(self) -> Verified:
        """Read the whole file; a large spool takes minutes. Raises SpoolError."""

    async def back_up(self, to: Path) -> int:
        """Write a copy to *to*, whole or not at all; its bytes. Raises SpoolError."""

    async def acknowledge(self) -> int:
        """An operator has seen what the spool lost; how many losses were new. Raises SpoolError."""


class Backup(Body):
    """Where the copy goes; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    file: Annotated[str, Field(pattern="^/", description="the absolute path of the copy to write")]


class SpoolFinding(TypedDict):
    of: str
    text: str


class VerifiedSpool(TypedDict):
    ok: bool
    chunks: Count
    records: Count
    findings: Sequence[SpoolFinding]


class AcknowledgedLosses(TypedDict):
    acknowledged: Count
    """Salvages and losses that were new."""


class SpoolCopy(TypedDict):
    file: str
    bytes: Count


StatusSource = Callable[[], Mapping[str, Any]]
"""Reports the counts of a running gateway, or those in the files of a stopped one."""


async def verify(spool: SpoolFiles, call: OperationCall[None]) -> VerifiedSpool:
    verified = await spool.verify()
    return {
        "ok": not verified.findings,
        "chunks": verified.chunks,
        "records": verified.records,
        "findings": [{"of": finding.of, "text": finding.text} for finding in verified.findings],
    }


async def back_up(spool: SpoolFiles, call: OperationCall[Backup]) -> SpoolCopy:
    return {"file": call.body.file, "bytes": await spool.back_up(Path(call.body.file))}


async def acknowledge(spool: SpoolFiles, call: OperationCall[None]) -> AcknowledgedLosses:
    return {"acknowledged": await spool.acknowledge()}


async def show_status(source: StatusSource, call: OperationCall[None]) -> Mapping[str, Any]:
    return source()


VERIFY: Final = Operation(
    method="POST", path="/v2/spool/verify", id="verifySpool", tag="Spool",
    summary="Read all of the spool and report what is wrong; a large one takes minutes",
    handler=verify, answer=OperationAnswer("The spool was read.", VerifiedSpool),
)  # fmt: skip
BACK_UP: Final = Operation(
    method="POST", path="/v2/spool/backup", id="backUpSpool", tag="Spool",
    summary="Write a copy of the spool while it runs",
    handler=back_up, body=Backup, answer=OperationAnswer("The copy is on disk.", SpoolCopy),
)  # fmt: skip
ACKNOWLEDGE: Final = Operation(
    method="POST", path="/v2/spool/acknowledge", id="acknowledgeSpoolLosses", tag="Spool",
    summary="Confirm that an operator has seen what the spool lost: the gateway is no longer degraded by it",
    handler=acknowledge, answer=OperationAnswer("They are acknowledged.", AcknowledgedLosses),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[SpoolFiles, Any], ...]] = (VERIFY, BACK_UP, ACKNOWLEDGE)

STATUS: Final = Operation(
    method="GET", path="/v2/status", id="status", tag="Health", open="loopback",
    summary="The outcome of every item, and the state of each lane",
    handler=show_status, errors=(), answer=OperationAnswer("As of now.", Status),
)  # fmt: skip
