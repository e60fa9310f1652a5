"""The recipes: what is printed for each sender is executed, with the pinned and the newest
versions, over each transport. What the gateway counted is compared with what the provider served.

The results are kept in `recipes.json` and shown in `docs/senders/README.md`. A fast test fails
once a snippet was changed and not executed again.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

from genai_prices import Usage, calc_price

from benchmarks.processes import PROJECT_ROOT
from gateway.products.connecting import connection
from tests.clients.applications import Application
from tests.clients.catalogue import APPLICATIONS
from tests.clients.environments import Versions
from tests.clients.live import LiveOutcome, Way
from tests.support.mock_llm import Served

RESULTS: Final = Path(__file__).with_name("recipes.json")
PAGE: Final = PROJECT_ROOT / "docs/senders/README.md"
TABLE: Final = re.compile(r"(?<=<!-- recipes -->\n).*?(?=<!-- end of recipes -->)", re.DOTALL)
HEAD: Final = """\
| sender | versions | transport | calls | input tokens | from cache | output tokens | cost, USD |
|---|---|---|---|---|---|---|---|
"""
NAMES: Final = tuple(name for name, application in APPLICATIONS.items() if application.is_recipe)
ADDRESSES: Final = ("http://127.0.0.1:4318", "127.0.0.1:4317")
PRICED_AS: Final = {"aws.bedrock": "aws", "gcp.gemini": "google"}
"""Our provider -> that of the price list, where the names differ."""


class Sums(NamedTuple):
    """Of some calls."""

    calls: int
    input_tokens: int
    cache_read: int
    output_tokens: int
    cost: str | None
    """US dollars: a decimal. None where no call has a cost."""


class Recipe(NamedTuple):
    """One executed recipe."""

    application: str
    versions: Versions
    packages: str
    """`name version`, joined by commas."""
    transport: str
    counted: Sums
    served: Sums
    snippets: str
    """Fingerprint of what was executed."""

    @property
    def result(self) -> tuple[str, str, Sums, Sums]:
        return self.application, self.packages, self.counted, self.served

    @property
    def key(self) -> tuple[str, str, str]:
        return self.application, self.versions, self.transport


def ways(application: Application) -> Iterator[Way]:
    """All of its recipes."""
    for transport in application.transports:
        yield Way("pinned", transport)
        yield Way("newest", transport)


def recipe(name: str, way: Way, outcome: LiveOutcome) -> Recipe:
    return Recipe(
        name,
        way.versions,
        ", ".join(f"{package} {version}" for package, version in outcome.versions.items()),
        way.transport,
        of_records(outcome.delivered),
        of_served(outcome.served),
        fingerprint(APPLICATIONS[name].sender),
    )


def fingerprint(sender: str) -> str:
    """Of the snippets that are printed for *sender*."""
    found = connection(sender, *ADDRESSES)
    assert found is not None, sender
    return hashlib.sha256(json.dumps(found["snippets"]).encode()).hexdigest()[:12]


def of_served(served: Iterable[Served]) -> Sums:
    calls = list(served)
    return Sums(
        len(calls),
        sum(call["input_tokens"] or 0 for call in calls),
        sum(call["cache_read_tokens"] or 0 for call in calls),
        sum(call["output_tokens"] or 0 for call in calls),
        str(sum((price(call) for call in calls), Decimal(0))),
    )


def price(call: Served) -> Decimal:
    """What the price list asks for it, computed without the gateway; 0 where nothing was used."""
    if call["input_tokens"] is None:
        return Decimal(0)
    created = call["cache_creation_tokens"] or 0
    usage = Usage(
        input_tokens=call["input_tokens"],
        cache_read_tokens=call["cache_read_tokens"] or 0,
        cache_write_tokens=created,
        cache_write_1h_tokens=created // 3 if call["provider"] == "anthropic" else 0,  # as the provider states it
        output_tokens=call["output_tokens"] or 0,
    )
    provider = PRICED_AS.get(call["provider"], call["provider"])
    try:
        return calc_price(usage, call["response_model"] or "", provider_id=provider).total_price
    except LookupError:  # the list has not every dated name
        return calc_price(usage, call["request_model"], provider_id=provider).total_price


def of_records(records: Iterable[Mapping[str, Any]]) -> Sums:
    calls = [record for record in records if record["kind"] == "call" and record["billed"]]

    def total(field: str) -> int:
        return sum(call["usage"].get(field) or 0 for call in calls)

    costs = [Decimal(call["cost"]["amount"]) for call in calls if call.get("cost")]
    return Sums(
        len(calls),
        total("input_tokens"),
        total("cache_read_input_tokens"),
        total("output_tokens"),
        str(sum(costs)) if costs else None,
    )


class Row(NamedTuple):
    """Recipes with the same result."""

    application: str
    packages: str
    counted: Sums
    served: Sums
    versions: tuple[Versions, ...]
    transports: tuple[str, ...]


def rows(recipes: Iterable[Recipe]) -> list[Row]:
    """One for the versions, and then for the transports, of which the results are the same."""
    versions: dict[tuple[str, str, Sums, Sums, str], list[Versions]] = {}
    for each in recipes:
        versions.setdefault((*each.result, each.transport), []).append(each.versions)
    transports: dict[tuple[str, str, Sums, Sums, tuple[Versions, ...]], list[str]] = {}
    for (*result, transport), found in versions.items():
        transports.setdefault((*result, tuple(sorted(found, reverse=True))), []).append(transport)  # type: ignore[arg-type]
    return [Row(*key, tuple(found)) for key, found in transports.items()]


def line(row: Row) -> str:
    """Of the table."""
    sender = APPLICATIONS[row.application].sender
    figures = [cell(counted, served) for counted, served in zip(written(row.counted), written(row.served), strict=True)]
    versions = f"{', '.join(row.versions)}: {row.packages}"
    return f"| {' | '.join([f'[{sender}]({sender}.md)', versions, ', '.join(row.transports), *figures])} |\n"


def written(sums: Sums) -> list[str]:
    cost = "unknown" if sums.cost is None else f"{Decimal(sums.cost):.6f}"
    return [*(f"{count:,}" for count in sums[:-1]), cost]


def cell(counted: str, served: str) -> str:
    """What was counted; `… of …` where something else was served."""
    return counted if counted == served else f"**{counted} of {served}**"


def table(recipes: Sequence[Recipe]) -> str:
    order = list(APPLICATIONS)
    found = sorted(rows(recipes), key=lambda row: order.index(row.application))
    return f"\n{HEAD}{''.join(map(line, found))}\n"


def kept() -> list[Recipe]:
    """The recipes of earlier runs."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return [Recipe(**{**each, "counted": Sums(**each["counted"]), "served": Sums(**each["served"])}) for each in found]


def write(executed: Iterable[Recipe]) -> None:
    """Keep these in place of earlier runs of the same recipes, and show all in the page."""
    recipes = {each.key: each for each in [*kept(), *executed] if each.application in NAMES}
    stored = [
        {**each._asdict(), "counted": each.counted._asdict(), "served": each.served._asdict()}
        for each in recipes.values()
    ]
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    PAGE.write_text(TABLE.sub(lambda _: table(list(recipes.values())), PAGE.read_text()))
