"""What is wrong with a cell by its owner's status, and what to do. Pure."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.common.plural import plural
from gateway.observability.metrics import CellStatus

BEHIND_S: Final = 10.0
"""For so long a full journal is ordinary: after a takeover, or for a burst."""


class CellFault(NamedTuple):
    text: str
    remedy: str
    stops_counting: bool = False


def cell_faults(cell: CellStatus, max_bytes: int | None) -> Iterator[CellFault]:
    """*max_bytes*: `spool.max_bytes`; None where it is unknown."""
    if cell["owner"] is None:
        yield CellFault(
            "no gateway owns the cell: nothing is counted or delivered",
            "a gateway takes it within seconds; if none does, run `telemetry-gateway doctor`",
            stops_counting=True,
        )
    yield from _of_journal(cell, max_bytes)
    for member in cell["members"]:
        if not member["alive"]:
            yield CellFault(
                f"gateway {member['name']} of the cell has been silent for {_shown(member['silent_s'])}",
                "start it again; one that is gone for good is forgotten after a day",
            )
    releases = sorted({member["release"] for member in cell["members"] if member["alive"]})
    if len(releases) > 1:
        text = f"the gateways of the cell are of different releases: {', '.join(releases)}"
        yield CellFault(text, "upgrade all of them to one release, one after the other")


def _of_journal(cell: CellStatus, max_bytes: int | None) -> Iterator[CellFault]:
    behind_s, used = cell["behind_s"], cell["journal_bytes"]
    if behind_s is not None and behind_s > BEHIND_S:
        yield CellFault(
            f"the owner of the cell has been behind for {_shown(behind_s)}: more waits in the journal than it counts",
            "look at its log and its CPU, and at the database; nothing is lost meanwhile",
        )
    if max_bytes is not None and used > max_bytes // 2:
        text = f"the journal of the cell takes {used >> 20} MiB; senders are refused above {max_bytes >> 20} MiB"
        yield CellFault(text, "see why the owner does not keep up, or raise spool.max_bytes")


def _shown(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else plural(int(seconds // 60), "minute", "minutes")  # noqa: PLR2004 - two minutes
