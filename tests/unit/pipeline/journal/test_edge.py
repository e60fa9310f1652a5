"""An edge answers when the journal has a payload, and not before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import structlog

from gateway.common.contract.intake import Sender
from gateway.fleet.senders.noting import NotingSenders
from gateway.pipeline.front import Front
from gateway.pipeline.journal import edge as edge_module
from gateway.pipeline.journal.edge import Edge
from gateway.pipeline.journal.form import read_row
from gateway.pipeline.journal.waiting import Waiting
from gateway.pipeline.parsing.parse import ParseRules, Payload
from gateway.pipeline.parsing.parser import Parser
from gateway.usage.pricing.prices import Prices
from spool.errors import SpoolError, SpoolFull
from tests.support.memory_journal import MemoryJournal
from tests.support.native import needs_native
from tests.support.polling import until_true
from tests.support.spans import call_span

SENDER = Sender("a key", "10.0.0.7")


class Rig:
    def __init__(self) -> None:
        self.journal, self.senders = MemoryJournal(), NotingSenders(lambda: 0)
        self.waiting = Waiting()
        self.unanswered_s = 0.0
        self.edge = Edge(
            self.journal,
            self.senders,
            max_bytes=1 << 20,
            waiting=self.waiting,
            unanswered_s=lambda: self.unanswered_s,
        )
        self.front = Front(self.edge, self.edge, Parser(ParseRules(Prices())), now_ms=lambda: 1_767_607_200_000)

    async def put(self, number: int) -> None:
        await self.front.put(Payload("traces", call_span(f"call {number}", (100, 20)), json=False), SENDER)

    def kept(self) -> list[str]:
        """Key of each payload that is in the journal."""
        entries = [entry for row in self.journal.rows for entry in read_row(row.body or b"")[0]]
        return [str(entry.sent_by.key) for entry in entries]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    running = asyncio.create_task(made.edge.run())
    await until_true(lambda: made.edge.fault is None, what="an edge that measured the journal")
    yield made
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_a_payload_is_answered_when_it_is_in_the_journal(rig: Rig) -> None:
    rig.journal.may_commit.clear()
    putting = asyncio.create_task(rig.put(1))
    await until_true(lambda: rig.journal.commits == 1, what="a commit under way")
    assert not putting.done()
    rig.journal.may_commit.set()
    await putting
    assert rig.kept() == ["a key"]


async def test_payloads_of_one_moment_share_a_row(rig: Rig) -> None:
    await asyncio.gather(*(rig.put(number) for number in range(20)))
    assert (len(rig.journal.rows), rig.journal.payloads) == (1, [20])


async def test_payloads_gather_while_commits_are_under_way(rig: Rig) -> None:
    rig.journal.may_commit.clear()
    putting = []
    for number in range(edge_module.MAX_COMMITS):
        putting.append(asyncio.create_task(rig.put(number)))
        await until_true(lambda n=number: rig.journal.commits == n + 1, what="one more commit")  # type: ignore[misc]  # the default binds the round's number
    later = [asyncio.create_task(rig.put(number)) for number in range(10, 20)]
    await until_true(lambda: rig.edge.gathered == 10, what="ten that wait")
    assert rig.journal.commits == edge_module.MAX_COMMITS
    rig.journal.may_commit.set()
    await asyncio.gather(*putting, *later)
    assert rig.journal.payloads == [1, 1, 1, 1, 10]


async def test_a_commit_that_fails_is_answered_with_a_time_to_come_again(rig: Rig) -> None:
    rig.journal.fails = True
    with pytest.raises(SpoolError, match="does not take anything now") as refused:
        await rig.put(1)
    assert refused.value.retry_after_s
    with pytest.raises(SpoolError, match="does not take anything now"):  # from now on before it is read
        rig.edge.admit(1)
    assert rig.edge.fault == "no primary"
    rig.journal.fails = False
    await until_true(lambda: rig.edge.fault is None, what="an edge that asked again")
    await rig.put(1)


async def test_why_nothing_is_kept_is_said_once_in_the_log(rig: Rig) -> None:
    with structlog.testing.capture_logs() as logged:
        for fails in (True, True, False, False):
            rig.journal.fails = fails
            await rig.edge.measure()
    assert [(each["log_level"], each.get("error")) for each in logged] == [("warning", "no primary"), ("info", None)]


async def test_a_full_journal_is_refused_before_anything_is_read(rig: Rig) -> None:
    rig.journal.size_bytes = 1 << 20
    await until_true(lambda: rig.edge.journal_bytes == 1 << 20, what="an edge that measured again")
    with pytest.raises(SpoolFull, match=r"spool\.max_bytes") as refused:
        await rig.put(1)
    assert refused.value.retry_after_s


async def test_more_than_a_slow_owner_counts_in_ten_minutes_is_refused(rig: Rig) -> None:
    """Although the journal may hold more; and Retry-After says when there is room again."""
    rig.waiting.bytes_per_s = 100.0
    rig.journal.size_bytes = 64_000
    await until_true(lambda: rig.edge.journal_bytes == 64_000, what="an edge that measured again")
    with pytest.raises(SpoolFull, match="ten minutes") as refused:
        await rig.put(1)
    assert 40 <= (refused.value.retry_after_s or 0) <= 60
    rig.waiting.bytes_per_s = None
    rig.journal.size_bytes = 63_999
    await until_true(lambda: rig.edge.journal_bytes == 63_999, what="an edge that measured again")
    await rig.put(2)


async def test_what_waits_in_memory_is_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_module, "MAX_WAITING_BYTES", 2_000)
    rig.journal.may_commit.clear()
    putting = [asyncio.create_task(rig.put(number)) for number in range(10)]
    await until_true(lambda: any(each.done() for each in putting), what="a payload that is refused")
    rig.journal.may_commit.set()
    ended = await asyncio.gather(*putting, return_exceptions=True)
    assert {type(each) for each in ended} == {type(None), SpoolFull}
    await rig.put(11)


async def test_senders_are_asked_to_come_again_while_no_commit_is_answered(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while all standbys are gone: the journal can be asked, and none of its commits ends."""
    monkeypatch.setattr(edge_module, "UNANSWERED_S", 0.05)
    rig.journal.may_commit.clear()
    under_way = []
    for number in range(edge_module.MAX_COMMITS):
        under_way.append(asyncio.create_task(rig.put(number)))
        await until_true(lambda n=number: rig.journal.commits == n + 1, what="one more commit")  # type: ignore[misc]  # the default binds the round's number
    gathered = [asyncio.create_task(rig.put(number)) for number in range(10, 20)]
    with structlog.testing.capture_logs() as logged:
        ended = await asyncio.gather(*under_way, *gathered, return_exceptions=True)
        assert {str(each) for each in ended} == {
            "the database of the cell does not take anything now; send the same again later"
        }
        await rig.edge.measure()
        assert "answered no commit" in (rig.edge.fault or "")
        with pytest.raises(SpoolError, match="does not take anything now") as refused:  # before it is read
            rig.edge.admit(1)
        assert refused.value.retry_after_s
        rig.journal.may_commit.set()
        await until_true(lambda: rig.edge.fault is None, what="an edge that hears of a commit")
    assert [each["log_level"] for each in logged] == ["warning", "info"]
    await until_true(lambda: rig.edge.waiting_bytes == 0, what="commits that ended")
    await rig.put(20)
    assert rig.journal.payloads == [1, 1, 1, 1, 1], "what waited for a commit to begin was dropped"


async def test_a_gateway_to_which_nobody_sends_notices_that_no_commit_is_answered(rig: Rig) -> None:
    rig.unanswered_s = edge_module.UNANSWERED_S
    assert "answered no commit" in (rig.edge.fault or "")
    with pytest.raises(SpoolError, match="does not take anything now"):
        rig.edge.admit(1)
    rig.unanswered_s = 0.0
    assert rig.edge.fault is None


async def test_notes_of_senders_that_are_not_answered_are_noticed_as_well(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_module, "UNANSWERED_S", 0.05)
    rig.journal.may_commit.clear()
    rig.senders.refused(None, "litellm", "", "unauthenticated")
    await until_true(lambda: rig.edge.fault is not None, what="a fault")
    rig.journal.may_commit.set()
    await until_true(lambda: rig.edge.fault is None, what="an edge that hears of a commit")


async def test_one_commit_that_hangs_refuses_its_own_senders_alone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_module, "UNANSWERED_S", 1.0)
    rig.journal.may_commit.clear()
    hanging = asyncio.create_task(rig.put(1))
    await until_true(lambda: rig.journal.commits == 1, what="a commit under way")
    hangs, rig.journal.may_commit = rig.journal.may_commit, asyncio.Event()
    rig.journal.may_commit.set()
    while not hanging.done():
        await rig.put(2)
    with pytest.raises(SpoolError, match="does not take anything now"):
        await hanging
    assert rig.edge.fault is None
    hangs.set()
    await until_true(lambda: rig.edge.waiting_bytes == 0, what="its end")


async def test_a_stop_waits_for_what_was_taken(rig: Rig) -> None:
    rig.journal.may_commit.clear()
    putting = asyncio.create_task(rig.put(1))
    await until_true(lambda: rig.edge.waiting_bytes > 0, what="a payload that was read")
    closing = asyncio.create_task(rig.edge.close())
    await until_true(lambda: rig.journal.commits == 1, what="its commit")
    assert not closing.done()
    rig.journal.may_commit.set()
    await closing
    await putting
    assert rig.kept() == ["a key"]


async def test_what_senders_did_goes_along(rig: Rig) -> None:
    for _ in range(3):
        rig.senders.sent("a key", "otlp.traces", "sdk/1", [("app", 1, 2, 1, 0, 100)])
    rig.senders.refused(None, "litellm", "", "unauthenticated")
    await rig.put(1)
    _, notes = read_row(rig.journal.rows[0].body or b"")
    assert notes.sent == [(("a key", "otlp.traces", "sdk/1"), [("app", 3, 6, 3, 0, 300)])]
    assert notes.refused == [((None, "litellm", ""), "unauthenticated", 1)]
    rig.senders.refused(None, "litellm", "", "unauthenticated")
    await until_true(lambda: len(rig.journal.rows) == 2, what="a row of notes alone")


@needs_native
async def test_requests_that_are_read_together_are_one_payload_of_the_row(rig: Rig) -> None:
    for number in range(3):  # until their shape is known
        await rig.put(number)
    taken = rig.front.put_together([call_span(f"call {number}", (100, 20)) for number in range(10, 14)], SENDER)
    assert taken is not None
    assert not taken.left
    await taken.kept
    (entry,), _ = read_row(rig.journal.rows[-1].body or b"")
    assert (entry.payloads, entry.parsed.calls and len(entry.parsed.calls.records)) == (4, 4)
