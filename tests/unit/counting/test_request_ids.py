"""Reports that share a request id, a gateway's own or the provider's: one call, where no
answer's id distinguishes them.
"""

import pytest

from gateway.counting.calls.digest import DIGEST_BYTES, digest_rows, of_this_size, unpack_fact
from gateway.rules.call import Call
from tests.support.calls import call
from tests.support.spool_rig import Rig

pytestmark = pytest.mark.usefixtures("each_ledger")


def callback(
    name: str, *, response: str | None = None, failed: bool = False, tokens: tuple[int | None, int | None] = (100, 20)
) -> Call:
    """What a gateway's own push reports the call `c1`."""
    return call(name, trace="", event=name, request="c1", response=response, failed=failed, tokens=tokens,
                service="push", scope="litellm/", cost="0.01", team="blue")  # fmt: skip


def span(
    name: str,
    *,
    request: str = "c1",
    response: str | None = None,
    failed: bool = False,
    tokens: tuple[int | None, int | None] = (100, 20),
    at: tuple[int, int] = (0, 1000),
) -> Call:
    """What the same gateway's spans state."""
    return call(
        name, trace=name, request=request, response=response, failed=failed, tokens=tokens, at=at, service="litellm"
    )


@pytest.mark.parametrize("is_push_first", [True, False])
@pytest.mark.parametrize("is_between", [True, False])
async def test_a_push_and_a_span_of_one_request_are_one_call(
    rig: Rig, *, is_push_first: bool, is_between: bool
) -> None:
    """An embedding has no response id; a restart in between changes nothing."""
    both = [callback("p"), span("s")]
    for report in both if is_push_first else reversed(both):
        await rig.send(report)
        if is_between:
            await rig.reopen()
    await rig.settle()
    (record,) = await rig.records()
    assert (record["cost"]["amount"], record["attribution"]["team"]) == ("0.01", "blue")
    assert rig.spool.reasons()["duplicate.request_id"] == 1


async def test_only_one_of_them_knows_the_response(rig: Rig) -> None:
    await rig.send(callback("lago"), span("s", response="chatcmpl-1"))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_late_span_of_a_forwarded_push_is_a_duplicate_also_after_a_restart(rig: Rig) -> None:
    await rig.send(callback("p"))
    await rig.settle()
    assert len(await rig.records()) == 1
    await rig.reopen()
    await rig.send(span("s"))
    await rig.settle()
    assert await rig.records() == []


async def test_the_failed_and_the_successful_attempt_of_a_fallback_are_two_calls_reported_twice(rig: Rig) -> None:
    nothing = (None, None)
    await rig.send(callback("p1", failed=True, tokens=nothing), callback("p2", response="r"))
    await rig.send(span("s1", failed=True, tokens=nothing), span("s2", response="r"))
    await rig.settle()
    records = await rig.records()
    assert sorted(record["status"] for record in records) == ["error", "ok"]
    assert not any(record["flags"] for record in records)


async def test_two_attempts_of_one_way_of_telling_are_two_calls(rig: Rig) -> None:
    await rig.send(callback("p1", failed=True), callback("p2", failed=True))
    await rig.settle()
    assert len(await rig.records()) == 2


@pytest.mark.parametrize(
    "other",
    [
        span("s", response="another"),
        span("s", tokens=(101, 20)),
        span("s", at=(60_000, 61_000)),
        span("s", request="c2"),
    ],
    ids=["another response", "other usage", "another time", "another request"],
)
async def test_what_contradicts_stays_a_call_of_its_own(rig: Rig, other: Call) -> None:
    await rig.send(callback("p", response="r"), other)
    await rig.settle()
    assert len(await rig.records()) == 2


def test_rows_that_an_earlier_release_wrote_are_read() -> None:
    rows = digest_rows([span("a", request="", response="r"), span("b", request="", response="q")])
    n = DIGEST_BYTES
    older = b"".join(rows[at : at + n - 32] + rows[at + n - 24 : at + n - 8] for at in (0, n))
    assert of_this_size(older, 2) == rows
    assert of_this_size(rows, 2) == rows
    assert unpack_fact(of_this_size(older, 2), 1) == unpack_fact(rows, 1)
