"""What the overview makes of usage: figures, charts, tables."""

import re
from collections.abc import Sequence
from decimal import Decimal

import pytest

from gateway.common.contract.errors import BadPayload
from gateway.operate.role import Role
from gateway.operate.site import overview, words
from gateway.operate.site.charts import HEIGHT, PLOT_HEIGHT, Series, bar_chart, nice_top
from gateway.operate.site.registry import VIEWS
from gateway.operate.site.usage_answers import Usage
from gateway.operate.site.usage_figures import charts_of, every_bucket
from gateway.operate.site.usage_question import DEFAULT, RANGES, Filter, Question, question_of
from gateway.usage.sums.figures import Breakdown, Bucket, Group, UsageSums
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import TimeRange
from tests.support.shown import shown, text_of
from tests.unit.operate.test_admin import figures

NOW_MS = 1_767_607_200_000  # 2026-01-05 10:00 UTC
NOTHING = UsageSums()
WEEK = Question(RANGES[2])


def sums(calls: int = 4, **fields: object) -> UsageSums:
    made = {
        "input_tokens": 1200, "output_tokens": 300, "cacheable_tokens": 1000, "cached_tokens": 250, "cache_read_tokens": 250,
        "costs": {"USD": Decimal("1.23456")},
    }  # fmt: skip
    return UsageSums(calls, **{**made, **fields})  # type: ignore[arg-type]  # the test's own keywords


def breakdown(groups: Sequence[tuple[Name, UsageSums]], count: int = 0, rest: UsageSums | None = None) -> Breakdown:
    made = tuple(Group((name,), each) for name, each in groups)
    return Breakdown(made, count or len(made), rest, sums())


def text(total: UsageSums, by: Breakdown | None = None, question: Question = WEEK, **status: object) -> str:
    asked = Usage(total, [Bucket(NOW_MS - HOUR_MS, total)], {} if by is None else {"model": by}, NOW_MS - 5000)
    return text_of(shown(overview.VIEW, overview.overview(figures(**status), [], [], question, asked, NOW_MS)))


def test_every_currency_is_a_figure_of_its_own() -> None:
    found = text(sums(costs={"USD": Decimal("1.25"), "EUR": Decimal("100.001")}))
    assert "Cost USD 1.25 EUR 100.00" in found
    assert "101.25" not in found
    assert "Cost in USD" in found
    assert "Cost in EUR" in found


def test_a_cost_that_no_call_has_is_unknown_and_not_0() -> None:
    found = text(sums(costs={}, calls_without_cost=4, calls_without_price=4))
    assert "Cost unknown 4 calls without a cost (100.0 %)" in found
    assert "Calls without a price 4 100.0 % of calls" in found
    assert "0.00" not in found


def test_tokens_that_no_call_states_are_unknown() -> None:
    found = text(sums(input_tokens=None, output_tokens=None, cacheable_tokens=None, calls_without_usage=4))
    assert "Input tokens unknown Output tokens unknown Input read from cache unknown" in found
    assert "Calls without usage 4 100.0 % of calls" in found


def test_an_hour_without_a_call_used_and_cost_nothing() -> None:
    stated = UsageSums(calls=2, input_tokens=9, output_tokens=3, cache_read_tokens=4, costs={"USD": Decimal("0.5")})
    silent = UsageSums(calls=1, calls_without_cost=1, calls_without_usage=1)
    there = [Bucket(0, stated), Bucket(2 * HOUR_MS, silent)]
    buckets = every_bucket(there, TimeRange(0, 3), "hour", 3 * HOUR_MS - 1)
    cost, used, _ = charts_of(buckets, stated, "hour")
    assert [bar.title for bar in cost.bars] == ["00:00: cost 0.5000", "01:00: cost 0.00", "02:00: cost unknown"]
    assert [bar.title.partition(": ")[2] for bar in used.bars] == [
        "input 5, cache reads 4, output 3",
        "input 0, cache reads 0, output 0",
        "input unknown, cache reads unknown, output unknown",
    ]


def test_shares_and_the_time_of_the_figures_are_stated() -> None:
    found = text(sums(failed_calls=1, calls_without_price=1, estimated_costs={"USD": Decimal("0.5")}))
    assert "Failed calls 1 25.0 % of calls" in found
    assert "Input read from cache 25.0 %" in found
    assert "USD 0.5000 of it estimated by the price list" in found
    assert "Calls counted through 2026-01-05 09:59:55 UTC" in found


def test_a_table_has_the_largest_the_rest_and_a_link_to_all() -> None:
    by = breakdown([("m-1", sums()), (Absent.UNKNOWN, sums(costs={}))], 70, sums(7, costs={"USD": Decimal("0.5")}))
    html = shown(
        overview.VIEW, overview.overview(figures(), [], [], WEEK, Usage(sums(), [], {"model": by}, None), NOW_MS)
    )
    path = "/usage?range=last_7_days&amp;time_zone=UTC&amp;compare=previous&amp;group_by=model"
    assert f'href="{path}">All 70<' in html
    assert 'href="/?range=7d&amp;model=m-1"><span class="short">m-1</span></a>' in html
    assert 'href="/?range=7d&amp;without=model"><span class="short">unknown</span></a>' in html
    assert "68 more USD 0.5000 7 1,200 300" in text_of(html)


def test_what_is_folded_is_no_group_of_its_own() -> None:
    found = text(sums(), breakdown([("m-1", sums())], rest=sums(3)))
    assert "other USD 1.23 3" in found
    assert "0 more" not in found


def test_a_dimension_with_one_name_is_a_line() -> None:
    by = {
        "team": breakdown([("core", sums())]),
        "project": breakdown([(Absent.UNKNOWN, sums())]),
        "user": breakdown([(Absent.UNKNOWN, sums())]),
    }
    asked = Usage(sums(), [], by, None)  # type: ignore[arg-type]  # names of dimensions
    html = shown(overview.VIEW, overview.overview(figures(), [], [], WEEK, asked, NOW_MS))
    assert "All calls have the team core . No call names its project or user. Give these calls a project" in text_of(
        html
    )
    assert 'href="/allocation/project?add=rule#new-rule"' in html
    assert '<h2 id="by-team"' not in html


def test_the_page_helps_where_nothing_came_yet() -> None:
    edge = {**figures()["edge"], "received": 0, "kept": 0, "duplicate": 0, "suppressed": 0, "rejected": 0, "ignored": 0}
    assert "Nothing received yet" in text(NOTHING, edge=edge)
    found = text(NOTHING)
    assert "No call in this time." in found
    assert "Nothing received yet" not in found


def test_names_are_escaped_also_in_links() -> None:
    evil = "<img src=x onerror=alert(1)>\"'&=#?"
    usage_of = Usage(
        sums(costs={evil[:16]: Decimal(1)}), [], {"model": breakdown([(evil, sums()), ("m", sums())])}, None
    )
    question = Question(DEFAULT, (Filter("team", evil),))
    html = shown(overview.VIEW, overview.overview(figures(), [], [], question, usage_of, NOW_MS))
    assert "<img src=x" not in html
    path, _ = re.findall(r'href="(/\?[^"]*model=[^"]*)"', html)
    assert path.startswith(
        "/?range=today&amp;team=%3Cimg+src%3Dx+onerror%3Dalert%281%29%3E%22%27%26%3D%23%3F&amp;model=%3Cimg"
    )


def test_a_hundred_thousand_currencies_do_not_fill_the_page() -> None:
    costs = {f"X{n:05}": Decimal(n + 1) for n in range(100_000)}
    usage_of = Usage(sums(costs=costs), [Bucket(NOW_MS, sums(costs=costs))], {}, None)
    html = shown(overview.VIEW, overview.overview(figures(), [], [], WEEK, usage_of, NOW_MS))
    assert len(html) < 40_000
    assert "99,994 more currencies" in html


@pytest.mark.parametrize(
    ("query", "filters"),
    [
        ([("range", "7d")], ()),
        ([("range", "7d"), ("team", "a"), ("model", "=&?")], (Filter("team", "a"), Filter("model", "=&?"))),
        ([("range", "7d"), ("without", "user")], (Filter("user", Absent.UNKNOWN),)),
        ([("range", "7d"), ("user", "unknown"), ("by", "team")], (Filter("user", "unknown"),)),
    ],
)
def test_a_link_holds_the_question(query: list[tuple[str, str]], filters: tuple[Filter, ...]) -> None:
    asked = question_of(query)
    assert asked == Question(RANGES[2], filters)
    path = asked.path()
    assert path.startswith("/?range=7d")


@pytest.mark.parametrize(("name", "value"), [("range", "1h"), ("without", "prompt")])
def test_a_question_that_cannot_be_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadPayload, match="one of"):
        question_of([(name, value)])


# ---- charts and words


def test_bars_are_as_high_as_their_values() -> None:
    series = [Series("a", "c1", [1, 2, None]), Series("b", "c2", [3, 0, 5])]
    chart = bar_chart("x", "Calls", "11", ["10:00", "11:00", "12:00"], series, str)
    heights = [[(each.colour, each.height) for each in bar.rects] for bar in chart.bars]
    unit = PLOT_HEIGHT / 5
    expected = [[("c1", unit), ("c2", 3 * unit)], [("c1", 2 * unit)], [("c2", 5 * unit)]]
    assert [[name for name, _ in bar] for bar in heights] == [[name for name, _ in bar] for bar in expected]
    assert [n for bar in heights for _, n in bar] == pytest.approx([n for bar in expected for _, n in bar], abs=0.02)
    assert all(0 <= each.y <= HEIGHT for bar in chart.bars for each in bar.rects)
    assert chart.description == "Calls from 10:00 to 12:00: 11 in all; most at 12:00, 5."
    assert chart.bars[2].title == "12:00: a None, b 5"


@pytest.mark.parametrize(
    ("most", "top"),
    [("0", "1"), ("1", "1"), ("3", "4"), ("9", "10"), ("0.0013", "0.002"), ("4100", "5000"), ("1E+30", "1E+30")],
)
def test_the_scale_ends_at_a_round_number(most: str, top: str) -> None:
    assert nice_top(Decimal(most)) == Decimal(top)


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        ("0", "0.00"), ("0.000001234", "0.0000012"), ("0.0456", "0.0456"), ("12.345", "12.34"), ("1234567.5", "1,234,567.50"),
        ("-3.5", "-3.50"), ("1E-18", "0.0000000000000000010"),
    ],
)  # fmt: skip
def test_no_amount_is_written_as_0_but_0(amount: str, written: str) -> None:
    assert words.money(Decimal(amount)) == written


@pytest.mark.parametrize(
    ("n", "written"), [(0, "0"), (999, "999"), (1500, "1.5 k"), (2_000_000, "2 M"), (None, "unknown")]
)
def test_a_scale_is_written_short(n: int | None, written: str) -> None:
    assert words.short(n) == written


@pytest.mark.parametrize(
    ("part", "whole", "written"), [(0, 0, words.NONE), (0, 5, "0.0 %"), (1, 100_000, "< 0.1 %"), (1, 3, "33.3 %")]
)
def test_a_share_that_is_not_0_is_not_written_as_0(part: int, whole: int, written: str) -> None:
    assert words.share(part, whole) == written


def test_a_viewer_sees_the_overview_and_no_more_views_than_it_may() -> None:
    html = shown(
        overview.VIEW, overview.overview(figures(), [], [], WEEK, Usage(sums(), [], {}, None), NOW_MS), Role.VIEWER
    )
    assert ">Viewer<" in html
    assert 'action="/logout"' in html


def test_every_link_of_the_overview_leads_to_a_view() -> None:
    by = breakdown([("m-1", sums())], 70)
    edge = dict.fromkeys(figures()["edge"], 0)
    contexts = [
        overview.overview(figures(), [], [], WEEK, Usage(sums(), [], {"model": by}, None), NOW_MS),
        overview.overview(figures(edge=edge), [], [], WEEK, Usage(NOTHING, [], {}, None), NOW_MS),
    ]
    paths = {view.path for view in VIEWS}
    for context in contexts:
        links = re.findall(r'<a [^>]*href="([^"?]*)', shown(overview.VIEW, context))
        assert not [link for link in links if link != "#content" and link not in paths]
