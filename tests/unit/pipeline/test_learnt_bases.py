"""What an instrumentation proved of its input is true of its other calls too."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.counting.bases import MAX_LEARNT, MAX_OF_KEY, Instrumentation, LearntBases, LearntBy
from gateway.pipeline.learnt_bases import KeptLearntBases
from gateway.rules.call import Call
from gateway.rules.extract import MAX_TEXT_CHARS
from tests.support.spool_rig import Rig
from tests.support.stores import SQL_HOMES, Home, home_of
from tests.unit.rules.spans import normalised

ACME = Instrumentation("acme.llm", "1.2", "anthropic")


def call(
    number: int,
    given: int,
    cached: int,
    *,
    key: str = "apps",
    version: str = "1.2",
    scope: str = "acme.llm",
    **more: Any,
) -> Call:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.usage.input_tokens": given,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": cached,
    }
    ids = {"trace_id": bytes([1] * 15 + [number]), "span_id": bytes([2] * 7 + [number])}
    (made,) = normalised({**attributes, **more}, scope=scope, version=version, **ids).calls
    made.record["attribution"]["key"] = key
    return made


def proof(number: int, **who: str) -> Call:
    """Its cached tokens are more than its input, so they are not in it."""
    return call(number, 20, 5_000, **who)


def counter_proof(number: int, **who: str) -> Call:
    """The provider's own object states the whole that was passed on."""
    native = (
        '{"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0}'
    )
    return call(number, 1_000, 900, **who, **{"gen_ai.usage.raw": native})


async def inputs(rig: Rig) -> dict[int, tuple[int, tuple[str, ...]]]:
    """Last byte of the span id -> input and the flags of the basis."""
    await rig.settle()
    return {
        int(record["trace"]["span_id"][-2:], 16): (
            record["usage"]["input_tokens"],
            tuple(flag for flag in record["flags"] if flag.startswith("basis")),
        )
        for record in await rig.records()
    }


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    opened = await Rig.opened(tmp_path / "data")
    yield opened
    await opened.close()


ASSUMED = (200, ("basis_assumed",))
LEARNT = (300, ("basis_learnt",))


async def test_without_any_proof_the_input_is_assumed_to_hold_the_cache(rig: Rig) -> None:
    await rig.send(call(1, 200, 100))
    assert await inputs(rig) == {1: ASSUMED}


@pytest.mark.parametrize("proof_first", [True, False])
async def test_a_proof_of_the_same_window_counts_in_any_order(rig: Rig, *, proof_first: bool) -> None:
    sent = [proof(1), call(2, 200, 100)]
    for each in sent if proof_first else sent[::-1]:
        await rig.send(each)
    assert await inputs(rig) == {1: (5_020, ()), 2: LEARNT}


async def test_a_proof_is_remembered_for_calls_that_come_later(rig: Rig) -> None:
    await rig.send(proof(1))
    await inputs(rig)
    await rig.send(call(2, 200, 100))
    assert await inputs(rig) == {2: LEARNT}


async def test_a_proof_that_settles_later_counts_as_soon_as_it_is_there(rig: Rig) -> None:
    await rig.send(call(1, 200, 100))
    await rig.settle(after_ms=1_000)
    await rig.send(proof(2))
    assert (await inputs(rig))[1] == LEARNT


async def test_another_version_provider_or_scope_proves_nothing(rig: Rig) -> None:
    await rig.send(proof(1, version="1.1"))
    await rig.send(call(2, 200, 100))
    assert (await inputs(rig))[2] == ASSUMED


async def test_another_key_is_believed_until_its_own_calls_show_something(rig: Rig) -> None:
    await rig.send(proof(1, key="others"))
    await rig.send(call(2, 200, 100))
    assert (await inputs(rig))[2] == LEARNT
    await rig.send(counter_proof(3))
    await rig.send(call(4, 200, 100), call(5, 200, 100, key="others"))
    found = await inputs(rig)
    assert (found[4], found[5]) == ((200, ("basis_learnt",)), LEARNT)


async def test_keys_that_contradict_each_other_show_nothing_to_a_third(rig: Rig) -> None:
    await rig.send(proof(1, key="one"), counter_proof(2, key="two"))
    await rig.send(call(3, 200, 100))
    assert (await inputs(rig))[3] == ASSUMED


async def test_proofs_of_one_key_that_contradict_each_other_are_found_and_show_nothing(rig: Rig) -> None:
    await rig.send(proof(1), counter_proof(2))
    await rig.send(call(3, 200, 100))
    assert (await inputs(rig))[3] == ASSUMED
    assert [by for by, proofs in rig.counting.bases.all() if proofs.excludes is None] == [LearntBy(ACME, "apps")]


async def test_another_report_of_the_call_is_a_proof_too(rig: Rig) -> None:
    answer = {"gen_ai.response.id": "msg-1"}
    await rig.send(call(1, 1_000, 300, scope="other.sdk", **answer), call(2, 700, 300, **answer))
    assert list((await inputs(rig)).values()) == [(1_000, ())]
    await rig.send(call(3, 200, 100))
    assert await inputs(rig) == {3: LEARNT}
    await rig.send(call(4, 200, 100, scope="other.sdk"))
    assert await inputs(rig) == {4: (200, ("basis_learnt",))}


async def test_calls_that_settle_are_learnt_of_again_after_a_restart(rig: Rig) -> None:
    await rig.send(proof(1), call(2, 200, 100))
    await rig.reopen()
    assert await inputs(rig) == {1: (5_020, ()), 2: LEARNT}


async def test_what_was_learnt_is_kept_over_a_restart(home: Home) -> None:
    kept = await KeptLearntBases.open(await home.learnt_bases())
    kept.bases.note(LearntBy(ACME, "apps"), 7, excludes=True, now_ms=1_000)
    kept.bases.note(LearntBy(ACME, "others"), 7, excludes=False, now_ms=2_000)
    await kept.write()
    again = (await KeptLearntBases.open(await home.learnt_bases())).bases
    assert list(again.all()) == [
        (by, each)
        for by, each in again.all()
        if (by.key, each.exclusive, each.inclusive) in {("apps", 1, 0), ("others", 0, 1)}
    ]
    assert (again.excludes(LearntBy(ACME, "apps")), again.knows(7), len(again)) == (True, True, 2)


@pytest.fixture(params=SQL_HOMES)
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Home]:
    async with home_of(request.param, tmp_path) as home:
        yield home


async def test_names_may_be_as_long_as_a_record_takes_them(home: Home) -> None:
    """An index of Postgres takes 2,700 bytes."""
    long = "".join(chr(0x4E00 + n * n * 7919 % 20_000) for n in range(4 * MAX_TEXT_CHARS))
    library, version, provider, key = (long[n::4] for n in range(4))
    by = LearntBy(Instrumentation(library, version, provider), key)
    kept = await KeptLearntBases.open(await home.learnt_bases())
    for n in range(2):
        kept.bases.note(by, 7, excludes=True, now_ms=n * 3_600_000)
        await kept.write()
    again = (await KeptLearntBases.open(await home.learnt_bases())).bases
    assert [(each, proofs.exclusive) for each, proofs in again.all()] == [(by, 2)]


async def test_what_is_forgotten_is_forgotten_on_disk_too(home: Home) -> None:
    kept = await KeptLearntBases.open(await home.learnt_bases())
    for number in range(MAX_OF_KEY + 1):
        kept.bases.note(LearntBy(ACME._replace(version=str(number)), "apps"), 7, excludes=True, now_ms=number)
        await kept.write()
    again = (await KeptLearntBases.open(await home.learnt_bases())).bases
    assert len(again) == len(kept.bases) == MAX_OF_KEY
    assert again.excludes(LearntBy(ACME._replace(version="0"), "apps")) is None


def test_the_senders_of_one_key_cannot_make_those_of_another_forgotten() -> None:
    bases = LearntBases()
    bases.note(LearntBy(ACME, "apps"), 7, excludes=True, now_ms=0)
    for number in range(3 * MAX_LEARNT):
        bases.note(LearntBy(ACME._replace(library=f"lib-{number}"), "loud"), number, excludes=True, now_ms=number)
    assert bases.excludes(LearntBy(ACME, "apps"))
    for number in range(3 * MAX_LEARNT):
        bases.note(LearntBy(ACME, f"key-{number}"), 7, excludes=True, now_ms=number)
    assert len(bases) == MAX_LEARNT
