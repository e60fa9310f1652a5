"""The figures of the page equal what the upstream was sent, to the last digit: traces and logs of
the whole corpus, calls of a second currency and calls without a price, with the embedded service
and with an upstream elsewhere.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from gateway.app import Gateway
from gateway.common.model_versions import model_of
from gateway.common.wall_clock import wall_ms
from gateway.config.loader import load_config
from gateway.operate.openapi.document import gateway_document
from tests.support.corpus import scenarios
from tests.support.polling import until_true
from tests.support.running_gateway import options
from tests.support.upstream import Upstream, running_upstream

CORPUS_MS = int(datetime.fromisoformat("2026-11-21T12:00:00Z").timestamp() * 1000)
"""Within a day of every call of the corpus."""
SETTINGS: dict[str, object] = {"counting.settle": "0s"}
KEYS = [{"name": "a", "secret": "secret-of-the-upstream", "managed": ["send-ai-telemetry"]}]
NAMES = ("provider", "model")


@dataclass
class Sums:
    calls: int = 0
    without_usage: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    costs: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))

    def shown(self) -> "Shown":
        """As a row of the page has it; tokens are unknown where no call states them."""
        unknown = self.calls == self.without_usage
        tokens = [None if unknown else count for count in (self.input_tokens, self.output_tokens)]
        return (self.calls, *tokens, {name: cost for name, cost in self.costs.items() if cost})


Shown = tuple[int | None, int | None, int | None, dict[str, Decimal]]
"""Calls, input, output, cost by currency."""
Named = tuple[int, dict[str, Decimal]]
"""Calls, and cost by currency."""
Pair = tuple[str | None, str | None]
"""Provider and model."""


Cell = tuple[str, list[str]]
"""Its text, and the exact amounts in it."""


class Rows(HTMLParser):
    """Cells of the table on a page, and apart the dated names inside the models' rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[Cell]] = []
        self.names: list[list[Cell]] = []
        """Of each row, an item a name."""
        self._is_body = False
        self._cells: list[Cell] = []
        """Where text belongs."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        match tag:
            case "tbody":
                self._is_body = True
            case "tr" if self._is_body:
                self.rows.append([])
                self.names.append([])
            case "th" | "td" if self._is_body:
                self._cells = self.rows[-1]
                self._cells.append(("", []))
            case "details" if self._is_body:
                self._cells = []
            case "li" if self._is_body:
                self._cells = self.names[-1]
                self._cells.append(("", []))
            case "data" if self._is_body:
                self._cells[-1][1].append(dict(attrs)["title"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "tbody":
            self._is_body = False

    def handle_data(self, data: str) -> None:
        if self._is_body and self._cells:
            text, amounts = self._cells[-1]
            self._cells[-1] = (text + data, amounts)


def rows_of(html: str) -> Iterator[tuple[str, Shown, dict[str, Named]]]:
    """Name, figures, and figures of the dated names inside."""
    parser = Rows()
    parser.feed(html[html.index("<caption><span>Usage by") :])
    for (name, cost, calls, input_tokens, output_tokens, *_), inside in zip(parser.rows, parser.names, strict=True):
        shown = (count(calls[0]), count(input_tokens[0]), count(output_tokens[0]), costs_of(cost))
        yield name[0].strip(), shown, dict(map(named, inside))


def named(item: Cell) -> tuple[str, Named]:
    name, calls, *_ = item[0].split()
    return name, (int(calls.replace(",", "")), costs_of(item))


def costs_of(cell: Cell) -> dict[str, Decimal]:
    return {currency: Decimal(amount) for currency, amount in map(str.split, cell[1])}


def count(text: str) -> int | None:
    return None if text.strip() == "unknown" else int(text.replace(",", ""))


@asynccontextmanager
async def gateway_at_the_time_of_the_corpus(folder: Path, **more: object) -> AsyncIterator[Gateway]:
    ahead_ms = CORPUS_MS - wall_ms()
    gateway = await Gateway.start(
        load_config(None, options(folder, **SETTINGS, **more), {}), now_ms=lambda: wall_ms() + ahead_ms
    )
    try:
        yield gateway
    finally:
        await gateway.stop()


async def send_everything(gateway: Gateway, client: httpx.AsyncClient) -> None:
    """Return when all of it is delivered."""
    url = f"http://{gateway.ports.http}"
    for signal in ("traces", "logs"):
        for scenario in scenarios(signal):
            for payload in scenario.payloads:
                kind = "application/json" if payload.is_json else "application/x-protobuf"
                answer = await client.post(f"{url}/v1/{signal}", content=payload.body, headers={"Content-Type": kind})
                assert answer.status_code == 200
    answer = await client.post(f"{url}/v2/ai-telemetry/records", json=of_two_currencies())
    assert answer.json() == {"accepted": 4, "rejected": []}
    lane = lambda: gateway.status.lanes()["ai_telemetry"]  # noqa: E731
    await until_true(lambda: lane()["kept"] > 300 and not lane()["pending"], what="delivered")


def of_two_currencies() -> dict[str, Any]:
    """Records of another gateway: euros, dollars, and none, under one model and under two."""
    envelope: dict[str, Any] = gateway_document()["components"]["schemas"]["ForwardedRecords"]["example"]
    (record,) = envelope["records"]
    costs = [
        ("m-both", "100.001", "EUR"),
        ("m-both", "0.000000000000000001", "USD"),
        ("m-euro", "2.5", "EUR"),
        ("m-none", None, ""),
    ]
    made = []
    for n, (model, amount, currency) in enumerate(costs):
        cost = {"cost": {"amount": amount, "currency": currency, "source": "reported"}} if amount else {}
        started_at = datetime.fromtimestamp(CORPUS_MS / 1000 - 3600).astimezone().isoformat()
        more = {"record_id": f"{n:032x}", "provider": "forwarded", "request_model": model, "response_model": None}
        made.append({**record, **more, **cost, "started_at": started_at})
    return {**envelope, "records": made}


def truth_of(records: Iterable[Mapping[str, Any]]) -> dict[Pair, Sums]:
    """Sums over records as the upstream got them, by (provider, model)."""
    sums: dict[Pair, Sums] = defaultdict(Sums)
    for record in {each["record_id"]: each for each in records if each["billed"]}.values():
        found, usage = (
            sums[record.get("provider"), record.get("response_model") or record.get("request_model")],
            record["usage"],
        )
        found.calls += 1
        tokens = [usage.get(name) for name in ("input_tokens", "output_tokens")]
        found.without_usage += tokens == [None, None]
        found.input_tokens += tokens[0] or 0
        found.output_tokens += tokens[1] or 0
        if cost := record.get("cost"):
            found.costs[cost["currency"]] += Decimal(cost["amount"])
    return sums


def truth_of_summary(groups: Iterable[Mapping[str, Any]]) -> dict[Pair, Sums]:
    sums: dict[Pair, Sums] = {}
    for each in groups:
        costs = {"USD": each["cost"], **each.get("other_costs", {})}
        sums[each["provider"], each["model"]] = Sums(
            each["calls"], each["calls_without_usage"], each["input_tokens"], each["output_tokens"],
            {name: Decimal(cost) for name, cost in costs.items() if cost is not None},
        )  # fmt: skip
    return sums


async def shown_by_the_page(
    gateway: Gateway, client: httpx.AsyncClient, providers: Iterable[str | None]
) -> tuple[dict[Pair, Shown], dict[Pair, Named]]:
    """The lists of models, of each provider; and calls and costs by each name."""
    headers = {"Authorization": (gateway.config.data_dir / "viewer-token").read_text().strip()}
    models: dict[Pair, Shown] = {}
    names: dict[Pair, Named] = {}
    for provider in providers:
        narrowed = {"unknown": "provider"} if provider is None else {"provider": provider}
        query = urlencode({"group_by": "model", "range": "last_30_days", **narrowed})
        page = await client.get(f"http://{gateway.ports.admin}/usage?{query}", headers=headers)
        for name, shown, inside in rows_of(page.text):
            model = None if name == "unknown" else name
            models[provider, model] = shown
            calls, costs = shown[0], shown[-1]
            names |= {(provider, each): found for each, found in inside.items()} or {(provider, model): (calls, costs)}
    return models, names


def by_model(truth: Mapping[Pair, Sums]) -> dict[Pair, Sums]:
    """Dated names added to their models."""
    found: dict[Pair, Sums] = defaultdict(Sums)
    for (provider, name), sums in truth.items():
        model = found[provider, name and model_of(name)]
        model.calls += sums.calls
        model.without_usage += sums.without_usage
        model.input_tokens += sums.input_tokens
        model.output_tokens += sums.output_tokens
        for currency, cost in sums.costs.items():
            model.costs[currency] += cost
    return found


async def assert_the_page_shows(truth: Mapping[Pair, Sums], gateway: Gateway, client: httpx.AsyncClient) -> None:
    models, names = await shown_by_the_page(gateway, client, {provider for provider, _ in truth})
    assert models == {pair: sums.shown() for pair, sums in by_model(truth).items()}
    assert names == {pair: (sums.calls, sums.shown()[-1]) for pair, sums in truth.items()}
    assert len(truth) > len(models) > 20
    assert {name for sums in truth.values() for name in sums.costs} == {"USD", "EUR"}


async def test_with_the_embedded_service_the_page_equals_its_summary(tmp_path: Path) -> None:
    async with gateway_at_the_time_of_the_corpus(tmp_path) as gateway, httpx.AsyncClient(timeout=30) as client:
        await send_everything(gateway, client)
        key = (gateway.config.data_dir / "service-key").read_text().strip()
        url = f"http://{gateway.ports.service}/v2/ai-telemetry/summary?group_by=provider,model&limit=1000"
        summary = (await client.get(url, headers={"Authorization": key})).json()
        await assert_the_page_shows(truth_of_summary(summary["summary"]), gateway, client)


async def test_with_an_upstream_elsewhere_the_page_equals_what_that_was_sent(tmp_path: Path) -> None:
    async with running_upstream() as upstream:
        settings = {"upstream": {"base_url": upstream.base_url, "keys": KEYS}}
        async with (
            gateway_at_the_time_of_the_corpus(tmp_path, **settings) as gateway,
            httpx.AsyncClient(timeout=30) as client,
        ):
            await send_everything(gateway, client)
            await assert_the_page_shows(truth_of(records_sent_to(upstream)), gateway, client)


def records_sent_to(upstream: Upstream) -> Iterator[dict[str, Any]]:
    for seen in upstream.seen:
        if seen.path.endswith("/ai-telemetry/records"):
            packed = seen.headers.get("Content-Encoding") == "gzip"
            yield from json.loads(gzip.decompress(seen.body) if packed else seen.body)["records"]
