"""CPU and time of each kind of question about usage: `python -m benchmarks.questions`.

The store is the worst that a month makes: 1,000,000 calls of 60,000 models, as many users and
devices, 300 teams, 900 projects and three currencies, so that each hour and day is at its bounds.
Each question is asked twice: first on a new connection, then again. `--store FOLDER` keeps the
store, and uses it again; `--dsn` fills a schema of Postgres in place of a file, and the CPU is then
that of the gateway alone.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import orjson

from gateway.common.storage.database import Database
from gateway.operate.site.explore_answers import explored
from gateway.operate.site.usage_answers import asked as overview
from gateway.operate.site.usage_question import question_of
from gateway.stores.postgres.database import PostgresDatabase
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.sums.allocation import Definition, Rule
from gateway.usage.sums.answer_json import answer_json
from gateway.usage.sums.answering import answered
from gateway.usage.sums.home import Counted
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.request import read_question
from gateway.usage.sums.splitting import Share
from gateway.usage.sums.tally import Tally
from gateway.usage.sums.timespan import BadRange

NOW_MS: Final = int(datetime(2026, 11, 24, 10, 30, tzinfo=UTC).timestamp()) * 1000
PER_COMMIT: Final = 20_000
SOURCE: Final = "questions"
QUESTIONS: Final = {
    "totals and days, 30 days": "range=last_30_days&interval=day",
    "hours, 24 hours": "range=last_24_hours&interval=hour",
    "hours of one team, 24 hours": "range=last_24_hours&interval=hour&team=team-7",
    "by provider, 24 hours": "range=last_24_hours&group_by=provider",
    "by model, 24 hours": "range=last_24_hours&group_by=model",
    "by model and provider, 24 hours": "range=last_24_hours",
    "by team, 24 hours": "range=last_24_hours&group_by=team",
    "by user, 24 hours": "range=last_24_hours&group_by=user",
    "by user, 24 hours, compared": "range=last_24_hours&group_by=user&compare=previous",
    "by model of one team, 24 hours": "range=last_24_hours&group_by=model&team=team-7",
    "by team, then project, 24 hours": "range=last_24_hours&group_by=team,project",
    "by model, then user, 24 hours": "range=last_24_hours&group_by=model,user",
    "by user, 24 hours, a search": "range=last_24_hours&group_by=user&search=0077",
    "by team, 7 days": "range=last_7_days&group_by=team",
    "by user, 7 days": "range=last_7_days&group_by=user",
    "by user, 7 days of Berlin": "range=last_7_days&group_by=user&time_zone=Europe/Berlin",
    "by model of one team, 7 days": "range=last_7_days&group_by=model&team=team-7",
    "by team, then project, 7 days": "range=last_7_days&group_by=team,project",
    "by model, 30 days": "range=last_30_days&group_by=model",
    "by user, 30 days, compared": "range=last_30_days&group_by=user&compare=previous",
    "by model of one team, 30 days": "range=last_30_days&group_by=model&team=team-7",
    "by team, then project, 30 days": "range=last_30_days&group_by=team,project",
    "by model, then user, 30 days": "range=last_30_days&group_by=model,user",
    "days of Berlin of one team, 30 days": "range=last_30_days&interval=day&time_zone=Europe/Berlin&team=team-7",
    "days of one team, 30 days": "range=last_30_days&interval=day&team=team-7",
    "days of one team and model, 30 days": "range=last_30_days&interval=day&team=team-7&model=model-00007",
    "by team, 24 hours, latency": "range=last_24_hours&group_by=team&latency=true",
    "by team, 30 days, latency": "range=last_30_days&group_by=team&latency=true",
    "by team, then project, 30 days, latency": "range=last_30_days&group_by=team,project&latency=true",
    "by user, 30 days, a search": "range=last_30_days&group_by=user&search=0077",
}
"""What it is, and its parameters of `GET /v2/usage`."""


OF_TAGS: Final = {
    "by feature, 24 hours": "range=last_24_hours&group_by=tag:feature",
    "by feature, 30 days": "range=last_30_days&group_by=tag:feature",
    "by feature of one team, 7 days": "range=last_7_days&group_by=tag:feature&team=team-7",
    "by team, then feature, 30 days": "range=last_30_days&group_by=team,tag:feature",
    "by model of one feature, 30 days": "range=last_30_days&group_by=model&tag=feature%3Dfeature-7",
    "days of one feature, 30 days": "range=last_30_days&interval=day&tag=feature%3Dfeature-7",
    "allocated by key and service, 24 hours": "range=last_24_hours&group_by=tag:cost_center",
    "allocated by key and service, 30 days": "range=last_30_days&group_by=tag:cost_center",
    "allocated, then by provider, 30 days": "range=last_30_days&group_by=tag:cost_center,provider",
    "days of one allocated, 30 days": "range=last_30_days&interval=day&tag=cost_center%3Dcenter-1",
}
"""Asked with `--tags`. Ten rules give a cost centre, which no call brings, by key and service."""
TAGS: Final = ("feature", "customer", "cost_center")
RULES: Final = tuple(
    Rule(
        {"key": (f"key-{n}",), "service_name": tuple(f"service-{m}" for m in range(25))},
        (Share(f"center-{n}", Decimal("60.5")), Share("center-0", Decimal("39.5"))),
    )
    for n in range(1, 11)
)

PAGES: Final = {
    "Explore by user, 24 hours": "range=last_24_hours&group_by=user&compare=previous",
    "Explore by team, 24 hours": "range=last_24_hours&group_by=team&compare=previous",
    "Explore by model, then user, 24 hours": "range=last_24_hours&group_by=model,user&compare=previous",
    "Explore by team, 7 days": "range=last_7_days&group_by=team&compare=previous",
    "Explore by team, 7 days of Berlin": "range=last_7_days&group_by=team&compare=previous&time_zone=Europe/Berlin",
    "Explore by user, 30 days": "range=last_30_days&group_by=user&compare=previous",
    "Explore by team, then project, 30 days": "range=last_30_days&group_by=team,project&compare=previous",
}
PAGES_OF_TAGS: Final = {
    "Explore by feature, 30 days": "range=last_30_days&group_by=tag:feature&compare=previous",
    "Explore, allocated, 30 days": "range=last_30_days&group_by=tag:cost_center&compare=previous",
}
OVERVIEWS: Final = {
    "Overview, today": "range=today",
    "Overview, 24 hours": "range=24h",
    "Overview, 24 hours of one team": "range=24h&team=team-7",
    "Overview, 7 days": "range=7d",
    "Overview, 30 days": "range=30d",
    "Overview, 30 days of one team": "range=30d&team=team-7",
}


class Cost(NamedTuple):
    cpu_ms: float
    wall_ms: float


def records(count: int, names: int, days: int, tags: int) -> Iterator[bytes]:
    """Calls of the last *days* days in order: each model in turn, with a user and a device of its
    own. *tags*: values of the tag feature, a tenth of them of the tag customer; 0 for neither.
    """
    for n in range(count):
        name = f"{n % names:05}"
        at_ms = NOW_MS - (count - n) * days * 86_400_000 // count
        at = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        cost = {"amount": f"0.{n % 9999:06}", "currency": ("USD", "EUR", "GBP")[n % 3], "source": "estimated"}
        record = {
            "kind": "call", "billed": True, "status": "ok", "operation": "chat", "started_at": at,
            "duration_ms": 200 + n * 7919 % 30_000, "time_to_first_token_ms": 50 + n % 900,
            "provider": f"provider-{n % 70}", "response_model": f"model-{name}",
            "usage": {"status": "reported", "input_tokens": n % 5000, "output_tokens": n % 700, "cache_read_input_tokens": n % 90},
            "attribution": {
                "team": f"team-{n % 300}", "project": f"project-{n % 900}", "user": f"user-{name}",
                "device_id": f"device-{name}", "service_name": f"service-{n % 50}", "key": f"key-{n % 20}",
            },
            "source": {"format": "otlp.traces"}, "cost": cost if n % 10 else None,
        }  # fmt: skip
        if tags:
            labels = {"feature": f"feature-{n % tags}", "customer": f"customer-{n % max(1, tags // 10)}"}
            record["attribution"] = {**record["attribution"], "labels": labels}  # type: ignore[dict-item]  # it is one
        yield orjson.dumps(record)


async def fill(sums: SqlSums, options: argparse.Namespace) -> Cost:
    """As the follower does, some thousand records a commit; what it cost."""
    left = records(options.records, options.names, options.days, options.tags)
    tags = TAGS if options.tags else ()
    await sums.begin(NOW_MS, tags)
    spent = Cost(0, 0)
    number = 0
    while page := list(islice(left, PER_COMMIT)):
        number += 1
        began, tally = _now(), Tally(tags=tags)
        now_ms = NOW_MS - (options.records - number * PER_COMMIT) * options.days * 86_400_000 // options.records
        tally.add(page, now_ms=now_ms)
        await sums.store(Counted(tally, SOURCE, number, now_ms, now_ms, now_ms))
        spent = Cost(*(mine + more for mine, more in zip(spent, _since(began), strict=True)))
    return spent


async def asked(sums: SqlSums, query: str) -> Cost:
    """What one question costs, from its parameters to its JSON."""
    began = _now()
    question = read_question(parse_qsl(query), NOW_MS)
    async with _queries(sums).apart() as apart:
        json.dumps(answer_json(question, await answered(apart, question)))
    return _since(began)


async def explored_by(sums: SqlSums, query: str) -> Cost:
    """What a page of Explore asks: the groups, the period before, and a chart of the first five."""
    began = _now()
    await explored(_queries(sums), read_question(parse_qsl(query), NOW_MS), "auto")
    return _since(began)


async def overviewed(sums: SqlSums, query: str) -> Cost:
    """What the overview asks: totals, a chart, and a table of each of six dimensions."""
    began = _now()
    await overview(_queries(sums), question_of(parse_qsl(query)), NOW_MS)
    return _since(began)


def _queries(sums: SqlSums) -> UsageQueries:
    queries = UsageQueries(sums, now_ms=lambda: NOW_MS, tags=TAGS)
    queries.allocation = lambda: [Definition("tag:cost_center", 1, RULES)]
    return queries


def _now() -> Cost:
    return Cost(time.process_time() * 1000, time.perf_counter() * 1000)


def _since(began: Cost) -> Cost:
    now = _now()
    return Cost(now.cpu_ms - began.cpu_ms, now.wall_ms - began.wall_ms)


@asynccontextmanager
async def opened(folder: Path | None, dsn: str | None) -> AsyncIterator[SqlSums]:
    async with AsyncExitStack() as stack:
        if dsn is not None:
            postgres = await PostgresDatabase.open(dsn, durability="storage")
            stack.push_async_callback(postgres.close)
            yield await SqlSums.open(postgres)
            return
        kept = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = await Database.open(kept / "control.db")
        stack.push_async_callback(database.close)
        yield await SqlSums.open(database)


async def measure(options: argparse.Namespace) -> int:
    async with opened(options.store, options.dsn) as sums:
        if await sums.counted_through(SOURCE) == 0:
            spent = await fill(sums, options)
            print(f"{spent.cpu_ms * 1000 / options.records:.1f} µs of CPU a record to store")
        print(f"{'question':40} {'first: CPU':>10} {'time':>6}  {'again: CPU':>10} {'time':>6}  ms")
        worst = 0.0
        for questions, ask in (
            (QUESTIONS, asked),
            (OF_TAGS if options.tags else {}, asked),
            (PAGES, explored_by),
            (PAGES_OF_TAGS if options.tags else {}, explored_by),
            (OVERVIEWS, overviewed),
        ):
            for name, query in questions.items():
                if options.only in name:
                    try:
                        first = await ask(sums, query)
                    except BadRange:
                        print(f"{name:40} not all of its hours are kept")
                        continue
                    again = min([await ask(sums, query) for _ in range(3)])
                    worst = max(worst, again.cpu_ms)
                    print(
                        f"{name:40} {first.cpu_ms:10.0f} {first.wall_ms:6.0f}  {again.cpu_ms:10.0f} {again.wall_ms:6.0f}"
                    )
        print(f"{'the most':40} {'':18} {worst:10.0f}")
    return 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--names", type=int, default=60_000)
    parser.add_argument("--days", type=int, default=30, help="in which the calls are")
    parser.add_argument("--tags", type=int, default=0, help="values of the tag feature")
    parser.add_argument("--store", type=Path, metavar="FOLDER")
    parser.add_argument("--dsn")
    parser.add_argument("--only", default="", help="a part of the names of questions")
    return asyncio.run(measure(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
