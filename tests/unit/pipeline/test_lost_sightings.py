"""Who reported what is known of payloads that are on disk, and of no other: a payload that was lost
suppresses no metrics, and one that came again still does after a restart.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from spool.errors import SpoolError
from tests.support.metrics import Export, export
from tests.support.metrics_rig import MetricsRig
from tests.support.spans import call_span


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[MetricsRig]:
    rig = await MetricsRig(tmp_path / "data").open()
    yield rig
    await rig.close()


async def break_commits(rig: MetricsRig, table: str) -> None:
    """From now on every commit that writes into *table* fails."""
    await _run(rig, f"CREATE TRIGGER broken BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'broken'); END")


async def mend_commits(rig: MetricsRig) -> None:
    await _run(rig, "DROP TRIGGER broken")
    if rig.counting.recovery is not None:
        await rig.counting.recovery


async def _run(rig: MetricsRig, sql: str) -> None:
    await rig.spool.ask(lambda connection, _: connection.execute(sql))


def by_shape(tokens: int) -> Export:
    """A metric that counts where no table knows another one of its source."""
    return Export(scope="acme").point(
        tokens, "input", name="acme.tokens", kind="sum", labels={"model": "gpt-4o"}, type_name="acme.token.type"
    )


async def lose(rig: MetricsRig, *, calls: bool) -> None:
    await break_commits(rig, "chunk" if calls else "held")
    with pytest.raises(SpoolError):
        await report(rig, calls=calls)
    await mend_commits(rig)


async def report(rig: MetricsRig, *, calls: bool) -> None:
    if calls:
        await rig.traces(call_span("a", (100, 20)))
    else:
        await rig.metrics(export(100, 20))


both = pytest.mark.parametrize("calls", [True, False], ids=["calls", "a better metric"])


@both
async def test_what_was_lost_suppresses_no_metrics_of_its_source(rig: MetricsRig, *, calls: bool) -> None:
    await lose(rig, calls=calls)
    await rig.metrics(by_shape(999))
    await rig.settle()
    assert await rig.used() == (999, 0)


@both
async def test_what_came_again_suppresses_them_after_a_restart_too(rig: MetricsRig, *, calls: bool) -> None:
    await lose(rig, calls=calls)
    await report(rig, calls=calls)
    await rig.reopen()
    await rig.metrics(by_shape(999))
    await rig.settle()
    assert await rig.used() == (100, 20)
