"""The pages of single calls: the list with its filters, and one call with its reports."""

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway.operate import calls as operations
from gateway.operate.site import calls
from tests.support.calls import call
from tests.support.operations import perform
from tests.support.shown import shown, text_of
from tests.support.spool_rig import Rig

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
async def rig(tmp_path: Path) -> Any:
    rig = await Rig.opened(tmp_path)
    yield rig
    await rig.spool.close()


async def ask(rig: Rig, path: str = "", query: str = "") -> Any:
    return await perform(operations.OPERATIONS, rig.spool, "GET", f"/v2/calls{path}", query=parse_qsl(query))


async def listed(rig: Rig, query: str = "", cursor: str = "") -> str:
    return shown(calls.VIEW, calls.calls(await ask(rig, "", query), cursor))


async def one(rig: Rig, record_id: object) -> str:
    return shown(calls.DETAIL, calls.call((await ask(rig, f"/{record_id}"))["call"]))


async def test_a_row_leads_to_the_call_and_a_chip_drops_its_filter(rig: Rig) -> None:
    made = [call(f"{n}", trace=f"t{n}", team=f"team-{n % 2}", cost="0.125") for n in range(4)]
    await rig.send(*made)
    await rig.settle()
    html = await listed(rig, "team=team-1&model=gpt-4o&model=gpt-4o-mini")
    assert html.count('class="name"><a href="/calls/') == 2
    assert made[1].record["record_id"] in html
    assert made[0].record["record_id"] not in html
    assert "USD 0.125" in text_of(html)
    chips = [unescape(each) for each in re.findall(r'<a class="badge" href="([^"]*)"', html)]
    assert [dict(parse_qsl(urlsplit(chip).query)).get("team") for chip in chips].count(None) == 1
    assert len(chips) == 3


async def test_the_cursor_of_the_page_goes_with_the_link(rig: Rig) -> None:
    await rig.send(call("one"))
    await rig.settle()
    assert "?cursor=c-1%26" in await listed(rig, cursor="c-1&")
    assert calls.path_of(None) == ""


async def test_an_empty_list_says_whether_older_calls_may_follow(rig: Rig) -> None:
    answer = await ask(rig)
    assert "No call is kept." in text_of(shown(calls.VIEW, calls.calls(answer)))
    cursor = {**answer["pagination"]["cursor"], "next_cursor": "on", "has_next": True}
    more = {**answer, "pagination": {**answer["pagination"], "total_count": None, "cursor": cursor}}
    html = shown(calls.VIEW, calls.calls(more))
    assert "Older ones may follow." in html
    assert 'href="/calls?cursor=on">Older</a>' in html
    assert "None reports" not in html


async def test_a_call_says_why_it_was_counted_and_from_where_its_cost_is(rig: Rig) -> None:
    made = call("sdk", trace="a", response="r", team="core", cost="0.5")
    made.record["flags"] = ["late"]
    other = call("gw", trace="b", response="r", scope="litellm", team="core", cost="0.5")
    await rig.send(made, other)
    await rig.settle()
    (kept,) = (await ask(rig, "", "outcome=kept"))["calls"]
    text = text_of(await one(rig, kept["record_id"]))
    assert "kept because several reports of it were merged into one record." in text
    assert "Cost known from the sender states it" in text
    assert "the same response id duplicate another report has its response id" in text
    assert "the requested model; one name may be unknown" in text
    assert "usage.input_tokens 100 includes cache reads and cache writes" in text


async def test_names_are_escaped_and_a_missing_part_is_unknown(rig: Rig) -> None:
    made = call("bare", model=None, team=EVIL)
    made.record["flags"] = []
    made.record["provider"] = made.record["operation"] = None
    await rig.send(made)
    await rig.settle()
    html = await one(rig, made.record["record_id"])
    assert EVIL not in html
    assert "Call of an unknown model" in html
    assert "nothing about it is in doubt" in html
    assert "Give such calls a team" not in html


async def test_a_call_without_a_team_leads_to_the_rules_for_its_service(rig: Rig) -> None:
    made = call("bare")
    made.record["attribution"]["service_name"] = "batch"
    await rig.send(made)
    await rig.settle()
    html = await one(rig, made.record["record_id"])
    assert 'href="/allocation/team?add=rule&amp;service_name=batch#new-rule"' in html
