"""Ten questions about AI cost, each answered on the page in at most four clicks, wide and narrow,
in light and dark; and by API, command and MCP with the same figures to the last digit.

1. What did team search spend on Sonnet last week against the week before, by feature?
2. Which models cost most in the last 30 days?
3. Which users of team support had the most output written in the last 7 days?
4. What does each project cost by model?
5. In which hours of today was money spent?
6. Which services send calls without a team?
7. What does each provider cost this month, against the month before?
8. How many calls of team search failed in the last 7 days?
9. How much of Sonnet's input was read from the cache in the last 7 days?
10. How much of team search's budget is left this month?
"""

import asyncio
import json
import os
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from gateway.operate.site.words import NONE
from tests.support.browser import NARROW_PX, WIDE_PX, Browser, Programs, Scheme
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess
from tests.support.polling import wait_until_true

MAX_CLICKS: Final = 4
SONNET: Final = "claude-sonnet-4-5"
NOW: Final = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
DAYS: Final = 40
LOOKS: Final[tuple[tuple[int, Scheme, Scheme], ...]] = ((WIDE_PX, "light", "dark"), (NARROW_PX, "dark", "light"))
"""Width, the scheme of the walk, and the other one."""
BUDGET: Final[dict[str, Any]] = {
    "name": "Search", "amount": "200", "currency": "USD", "period": "month", "filter": {"team": ["search"]}
}  # fmt: skip


class Call(NamedTuple):
    at: datetime
    team: str | None
    project: str
    feature: str
    model: str
    provider: str
    user: str
    tokens: tuple[int, int, int]
    """Input, of it from the cache, output."""
    cost: str
    is_failed: bool


def calls() -> Iterator[Call]:
    """Six weeks of them, each of another mixture."""
    models = ((SONNET, "anthropic"), ("gpt-4o", "openai"), ("gpt-4o-mini", "openai"))
    for n in range(DAYS * 4):
        model, provider = models[n % 3]
        team = ("search", "support", "search", None)[n % 4]
        tokens = (1000 + n, 100 + n, 50 + n * 7 % 91)
        cost = f"0.0{n % 9 + 1}{n:04}"
        at = NOW - timedelta(hours=6 * n)
        yield Call(
            at,
            team,
            f"project-{n % 5}",
            f"feature-{n % 4}",
            model,
            provider,
            f"user-{n % 7}",
            tokens,
            cost,
            n % 11 == 0,
        )


CALLS: Final = tuple(calls())


def of_month() -> list[Call]:
    """Those that the budget counts."""
    return [call for call in CALLS if call.team == "search" and call.at >= NOW.replace(day=1, hour=0)]


def record_of(number: int, call: Call) -> dict[str, Any]:
    stamp = call.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    names = {
        "labels": {"feature": call.feature},
        "team": call.team,
        "project": call.project,
        "user": call.user,
        "service_name": f"service-{number % 3}",
    }
    used = dict(zip(("input_tokens", "cache_read_input_tokens", "output_tokens"), call.tokens, strict=True))
    return {
        "schema": "inference/1", "record_id": f"{number:032x}", "kind": "call", "billed": True, "operation": "chat",
        "source": {"format": "otlp.traces", "convention": "gen_ai"}, "provider": call.provider, "request_model": call.model,
        "started_at": stamp, "duration_ms": 5, "usage": {"status": "reported", **used},
        "cost": {"amount": call.cost, "currency": "USD", "source": "reported", "price_version": None},
        "status": "error" if call.is_failed else "ok", "attribution": names, "received_at": stamp, "flags": [],
    }  # fmt: skip


class Asked(NamedTuple):
    """One way to a gateway's own figures."""

    gateway: GatewayProcess
    admin: str
    viewer: str

    def api(self, path: str, body: object = None, *, token: str = "") -> Any:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": token or self.viewer, "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(path, content, headers), timeout=30) as answer:
            return json.load(answer)

    def are_counted(self) -> bool:
        """Whether the sums have every call, and the budget those of its month."""
        since = f"{NOW - timedelta(days=DAYS + 1):%Y-%m-%d}"
        counted = self.api(f"{self.gateway.admin_url}/v2/usage?from={since}&limit=1")["totals"]["calls"]
        (budget,) = self.api(f"{self.gateway.admin_url}/v2/budgets")["budgets"]
        return (counted, budget["state"]["calls"]) == (len(CALLS), len(of_month()))

    def command(self, *arguments: str) -> Any:
        ended = run_command(self.gateway, *arguments, "--json")
        assert ended.code == 0, ended.err
        return ended.json

    def tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return asyncio.run(self._called(name, arguments))

    async def _called(self, name: str, arguments: Mapping[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {self.viewer}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{self.gateway.admin_url}/mcp", http_client=http)
            async with Client(cast("Any", transport)) as client:
                return (await client.call_tool(name, dict(arguments))).structured_content

    def usage(self, query: str) -> Any:
        """The answer by API, command and MCP, which are the same."""
        pairs = parse_qsl(query)
        found = self.api(f"{self.gateway.admin_url}/v2/usage?{query}")
        options = [word for name, value in pairs for word in option_of(name, value)]
        arguments: dict[str, Any] = {}
        for name, value in pairs:
            arguments[name] = [value] if name in DIMENSIONS else value
        for other in (self.command("usage", *options), self.tool("show_usage", arguments)):
            assert {name: other[name] for name in COMPARED if name in found} == {
                name: found[name] for name in COMPARED if name in found
            }
        return found


DIMENSIONS: Final = ("team", "model")
COMPARED: Final = ("usage", "totals", "rest", "previous", "from", "to")


def option_of(name: str, value: str) -> tuple[str, ...]:
    if name == "sort_order":
        return ()  # the command puts the largest first
    if name in DIMENSIONS:
        return "--where", f"{name}={value}"
    if name == "unknown":
        return "--where", f"{value}="
    return ("--sort" if name == "sort_key" else f"--{name.replace('_', '-')}"), value


@pytest.fixture(scope="module")
def gateway(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(
        tmp_path_factory.mktemp("gateway"), config={"mcp": "on", "tags": {"feature": ["app.feature"]}}
    ) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def asked(gateway: GatewayProcess) -> Asked:
    admin, viewer = ((gateway.data_dir / f"{name}-token").read_text().strip() for name in ("admin", "viewer"))
    asked = Asked(gateway, admin, viewer)
    key = asked.command("keys", "create", "--name", "sender", "--scope", "ai-telemetry-ingest:ingest-ai-telemetry")
    records = [record_of(number, call) for number, call in enumerate(CALLS, 1)]
    envelope = {"schema": "ai-telemetry/1", "batch_id": "b", "gateway_id": "g", "records": records}
    asked.api(f"{gateway.intake_url}/v2/ai-telemetry/records", envelope, token=key["secret"])
    asked.api(f"{gateway.admin_url}/v2/budgets", BUDGET, token=admin)
    gateway.wait_until_delivered(at_least=len(CALLS))
    wait_until_true(asked.are_counted, what="every call in the sums and in the budget")
    return asked


class Walk:
    """A person who clicks, from the overview on."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.clicks = 0

    def press(self, *names: str) -> "Walk":
        for name in names:
            self.browser.press(name)
            self.clicks += 1
        return self

    def open(self, name: str) -> "Walk":
        self.browser.press_here(name)
        self.clicks += 1
        return self

    def choose(self, label: str, text: str) -> "Walk":
        """Two clicks: the menu, and what is in it."""
        before = self.browser.path
        self.browser.choose(label, text)
        self.browser.until(lambda: self.browser.path != before, "sent by itself")
        self.clicks += 2
        return self


ROWS: Final = """
const text = (node) => node.innerText.trim();
return [...document.querySelectorAll("[aria-label^='Usage by'] tbody tr")].map((row) => [
  [...row.querySelectorAll("th .part")].map(text),
  [...row.querySelectorAll("td")].map((cell) => (cell.querySelector("data")?.value ?? text(cell).split("\\n")[0])),
]);
"""


def table(browser: Browser) -> list[tuple[list[str], list[str]]]:
    """Names of each row, and its figures as exact as the page has them."""
    return [(names, cells) for names, cells in browser.driver.execute_script(ROWS)]


def row_of(row: Mapping[str, Any], names: list[str]) -> tuple[list[str], list[str]]:
    """The same of a row of an answer, without the column of differences and that of budgets."""
    before = [] if "previous" not in row else [cost_of(row["previous"])]
    figures = [f"{row[name]:,}" for name in ("calls", "input_tokens", "output_tokens")]
    return [row[name] or "unknown" for name in names], [cost_of(row), *before, *figures]


def cost_of(sums: Mapping[str, Any] | None) -> str:
    return NONE if sums is None else sums["costs"].get("USD", "unknown")


def explored(asked: Asked, query: str) -> Callable[[Browser], None]:
    """The table of Explore is the answer to *query*."""
    found = asked.usage(query)
    names = dict(parse_qsl(query))["group_by"].split(",")
    is_true(found, dict(parse_qsl(query)), names)

    def check(browser: Browser) -> None:
        shown = [(each, [*cells[:2], *cells[3:6]]) for each, cells in table(browser)]
        assert shown == [row_of(row, names) for row in found["usage"]]
        assert shown, query

    return check


FIELDS: Final[Mapping[str, Callable[[Call], str | None]]] = {
    "team": lambda call: call.team,
    "project": lambda call: call.project,
    "tag:feature": lambda call: call.feature,
    "model": lambda call: call.model,
    "provider": lambda call: call.provider,
    "user": lambda call: call.user,
    "service_name": lambda call: f"service-{(CALLS.index(call) + 1) % 3}",
}


def is_true(found: Mapping[str, Any], query: Mapping[str, str], names: list[str]) -> None:
    """The answer has what was sent, to the last digit."""
    start, end = (datetime.fromisoformat(found[each]) for each in ("from", "to"))
    sums: dict[tuple[str | None, ...], list[Any]] = defaultdict(lambda: [0, 0, Decimal(0)])
    for call in CALLS:
        is_kept = all(FIELDS[name](call) == query[name] for name in DIMENSIONS if name in query)
        is_unknown = query.get("unknown") is None or FIELDS[query["unknown"]](call) is None
        if start <= call.at < end and is_kept and is_unknown:
            group = sums[tuple(FIELDS[name](call) for name in names)]
            for at, amount in enumerate((1, call.tokens[0], Decimal(call.cost))):
                group[at] += amount
    assert {
        tuple(row[name] for name in names): [row["calls"], row["input_tokens"], Decimal(row["costs"]["USD"])]
        for row in found["usage"]
    } == sums


def hours(asked: Asked, query: str) -> Callable[[Browser], None]:
    found = asked.usage(query)["usage"]

    def check(browser: Browser) -> None:
        rows = browser.all("#over-time tbody tr")
        shown = {
            row.find_element("css selector", "th").text: sum(
                Decimal(each.get_attribute("value") or "0") for each in row.find_elements("css selector", "data")
            )
            for row in rows
        }
        assert shown == {row["start"][11:16]: Decimal(row["costs"]["USD"]) for row in found}
        assert shown

    return check


def headline(
    asked: Asked, query: str, title: str, text: Callable[[Mapping[str, Any]], str]
) -> Callable[[Browser], None]:
    """A figure of the overview."""

    totals = asked.usage(query)["totals"]

    def check(browser: Browser) -> None:
        (figure,) = [each.text for each in browser.all(".stats > div") if each.text.startswith(f"{title}\n")]
        assert text(totals) in figure

    return check


def budget(asked: Asked) -> Callable[[Browser], None]:
    listed = asked.api(f"{asked.gateway.admin_url}/v2/budgets")["budgets"][0]
    left = listed["state"]["remaining"]
    assert left == asked.command("budgets", "show", "Search")["budget"]["state"]["remaining"]
    assert left == asked.tool("read_budget", {"budget_id": listed["id"]})["budget"]["state"]["remaining"]
    assert Decimal(left) == Decimal(BUDGET["amount"]) - sum(Decimal(call.cost) for call in of_month())

    def check(browser: Browser) -> None:
        assert left in [each.get_attribute("value") for each in browser.all("dl.pairs data")]

    return check


WEEK: Final = "range=last_7_days"
QUESTIONS: Final[Mapping[str, tuple[Callable[[Walk], Walk], Callable[[Asked], Callable[[Browser], None]]]]] = {
    "1 Sonnet of search by feature": (
        lambda walk: walk.press("Explore", "Last week", "search", SONNET),
        lambda asked: explored(
            asked, f"range=last_week&compare=previous&team=search&model={SONNET}&group_by=tag:feature"
        ),
    ),
    "2 models of 30 days": (
        lambda walk: walk.press("Explore", "30 days", "Model"),
        lambda asked: explored(asked, "range=last_30_days&compare=previous&group_by=model"),
    ),
    "3 users of support by output": (
        lambda walk: walk.press("Explore", "support", "User", "Output tokens"),
        lambda asked: explored(
            asked, f"{WEEK}&compare=previous&team=support&group_by=user&sort_key=output_tokens&sort_order=desc"
        ),
    ),
    "4 projects by model": (
        lambda walk: walk.press("Explore", "Project").choose("Then by", "Model"),
        lambda asked: explored(asked, f"{WEEK}&compare=previous&group_by=project,model&limit=50"),
    ),
    "5 hours of today": (
        lambda walk: walk.press("Explore", "Today").open("Cost in USD as a table"),
        lambda asked: hours(asked, "range=today&interval=hour"),
    ),
    "6 services without a team": (
        lambda walk: walk.press("Explore", "unknown", "Service"),
        lambda asked: explored(asked, f"{WEEK}&compare=previous&unknown=team&group_by=service_name"),
    ),
    "7 providers of this month": (
        lambda walk: walk.press("Explore", "This month", "Provider"),
        lambda asked: explored(asked, "range=this_month&compare=previous&group_by=provider"),
    ),
    "8 failures of search": (
        lambda walk: walk.press("7 days", "search"),
        lambda asked: headline(
            asked, f"{WEEK}&team=search", "Failed calls", lambda sums: f"\n{sums['failed_calls']:,}\n"
        ),
    ),
    "9 cache reads of Sonnet": (
        lambda walk: walk.press("7 days", SONNET),
        lambda asked: headline(
            asked,
            f"{WEEK}&model={SONNET}",
            "Input read from cache",
            lambda sums: f"\n{sums['cache_read_tokens']:,} tokens",
        ),
    ),
    "10 budget of search": (lambda walk: walk.press("Budgets", "Search"), budget),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_takes_at_most_four_clicks_and_has_one_answer(
    name: str, browser: Browser, asked: Asked, gateway: GatewayProcess
) -> None:
    walk, check = QUESTIONS[name]
    browser.log_in(gateway)
    answered = check(asked)
    for width_px, scheme, other in LOOKS:
        browser.show_as(scheme, width_px)
        browser.visit("/?range=today")
        taken = walk(Walk(browser))
        assert taken.clicks <= MAX_CLICKS
        answered(browser)
        assert browser.audit() == []
        keep(browser, f"{name}-{scheme}-{width_px}")
        browser.show_as(other, width_px)
        assert browser.overflow_px() == 0
        keep(browser, f"{name}-{other}-{width_px}")


def keep(browser: Browser, name: str) -> None:
    if folder := os.environ.get("BROWSER_TEST_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.png").write_bytes(browser.picture())
