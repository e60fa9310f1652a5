"""The gateway's command, made to end itself by kill -9 at a point of its own code: `python -m
tests.support.dying POINT NTH run …`.

NTH states at which passing of the point, counted from 1, so that a test can let it live
for a while. The code under test knows nothing of it: the function that stands at the
point is wrapped from here.
"""

import importlib
import inspect
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.cli.main import main


class Point(NamedTuple):
    module: str
    name: str
    """`function` or `Class.method` in the module."""
    after: bool
    """Die when it returns, else before it begins."""


POINTS = {
    "before a commit": Point("spool.sqlite.writer", "Writer.transaction", after=False),
    "inside a commit of chunks": Point("spool.sql.groups", "insert_chunk", after=True),
    "after a commit": Point("spool.sqlite.writer", "Writer.transaction", after=True),
    "inside a freeze": Point("spool.sql.rows", "freeze", after=True),
    "before a send": Point("exporters.cost_service.client", "CostServiceClient.post", after=False),
    "between answer and ack": Point("exporters.cost_service.client", "CostServiceClient.post", after=True),
    "inside an ack": Point("spool.sql.rows", "acked", after=True),
    "inside a release": Point("spool.sql.rows", "released", after=True),
    "inside a split": Point("spool.sql.rows", "split", after=True),
    "inside a settling": Point("spool.sql.rows", "settle", after=True),
    "inside a deletion": Point("spool.sql.rows", "reclaim", after=True),
    "upkeep: inside a vacuum": Point("spool.sqlite.room", "give_back_pages", after=True),
    "start: the file is open": Point("spool.sqlite.writer", "Writer._open_file", after=True),
    "start: lanes are opened": Point("spool.sql.rows", "open_lane", after=True),
    "start: evidence is read": Point("spool.sql.rows", "evidence", after=True),
    "start: the ledger is rebuilt": Point("gateway.pipeline.settle", "Settler.rebuild", after=True),
    "start: keys are open": Point("gateway.app.stores", "open_keys", after=True),
    "stop: a pump lands": Point("exporters.pump", "Pump._land", after=False),
    "stop: the spool closes": Point("spool.sqlite.spool", "SqliteSpool.close", after=False),
    "unit cost: inside a commit of records": Point("spool.sql.unit_totals", "apply", after=True),
    "unit cost: an id is noted": Point("spool.sql.metered", "take_repeat_key", after=True),
    "unit cost: inside a freeze": Point("spool.sql.unit_batches", "freeze", after=True),
    "unit cost: inside an ack": Point("spool.sql.unit_batches", "acked", after=True),
    "unit cost: inside a read": Point("spool.sql.unit_totals", "learn_base", after=True),
    "devices: before a commit": Point("gateway.common.storage.group_commit", "Commits._write_group", after=False),
    "devices: inside a first contact": Point("gateway.fleet.devices.changes", "insert", after=True),
    "devices: after a commit": Point("gateway.common.storage.group_commit", "Commits._write_group", after=True),
    "devices: in control.db and not in the spool": Point(
        "gateway.fleet.devices.intake", "DeviceIntake.admitted", after=True
    ),
    "devices: inside a claim": Point("gateway.fleet.devices.outbox", "claim", after=True),
    "devices: before a call": Point("exporters.cost_service.devices", "DeviceCalls.send", after=False),
    "devices: between answer and settling": Point("exporters.cost_service.devices", "DeviceCalls.send", after=True),
    "devices: inside the settling of an enrolment": Point("gateway.fleet.devices.outbox", "enrolled", after=True),
    "devices: inside the settling of a heartbeat": Point("gateway.fleet.devices.outbox", "beaten", after=True),
    "move: rows are in the cell": Point("gateway.app.cell.moving", "fill_cell", after=True),
    "move: the directory is marked": Point("gateway.app.cell.moving", "write_private", after=True),
    "move: rows are in files": Point("gateway.app.cell.moving", "fill_files", after=True),
    "move: the cell is marked": Point("gateway.stores.moving.cell_state", "leave", after=True),
    "move: behind the commit": Point("gateway.app.cell.moving", "_moved", after=False),
    "move: before files get their place": Point("gateway.cli.moving", "place", after=False),
    "service: before an answer": Point("gateway.local_service.web", "_handle", after=True),
}
AT_START = [name for name in POINTS if name.startswith("start: ")]
UNDER_LOAD = [name for name in POINTS if ": " not in name]
UNDER_ANY_LOAD = [*UNDER_LOAD, *(name for name in POINTS if name.startswith(("unit cost: ", "devices: ")))]
"""Also where only unit cost or devices come by."""


def die_at(point: Point, nth: int) -> None:
    """Wrap what stands at the point."""
    owner: Any = importlib.import_module(point.module)
    *path, name = point.name.split(".")
    for part in path:
        owner = getattr(owner, part)
    passed = 0

    def pass_by(*, after: bool) -> None:
        nonlocal passed
        if after == point.after:
            passed += 1
            if passed >= nth:
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, _wrapped(getattr(owner, name), pass_by))


def _wrapped(function: Callable[..., Any], pass_by: Callable[..., None]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **named: Any) -> Any:
        pass_by(after=False)
        result = function(*arguments, **named)
        pass_by(after=True)
        return result

    async def wrapped_async(*arguments: Any, **named: Any) -> Any:
        pass_by(after=False)
        result = await function(*arguments, **named)
        pass_by(after=True)
        return result

    return wrapped_async if inspect.iscoroutinefunction(function) else wrapped


if __name__ == "__main__":
    point, nth, *arguments = sys.argv[1:]
    die_at(POINTS[point], int(nth))
    sys.argv[1:] = arguments
    main()
