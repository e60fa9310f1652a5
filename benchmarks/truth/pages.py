"""The stored totals, and docs/truth.md: its blocks are made of the stored totals alone; a test
compares.
"""

import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benchmarks.processes import PROJECT_ROOT
from benchmarks.side_by_side.pages import filled
from benchmarks.side_by_side.report import markdown
from benchmarks.truth.products import OURS, PRODUCTS
from benchmarks.truth.truths import LeftOut, Totals, Truth, is_cost_right, summary, verdict

RESULTS: Final = Path(__file__).with_name("results.json")
PAGE: Final = PROJECT_ROOT / "docs/truth.md"


@dataclass(slots=True)
class Results:
    """What was served and what is shown of it; scenarios in their order."""

    conditions: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason -> scenarios."""
    truths: dict[str, Truth] = field(default_factory=dict)
    shown: dict[str, dict[str, Totals]] = field(default_factory=dict)
    """Product -> scenario -> its totals; 0 and 0 where it shows nothing."""

    @classmethod
    def read(cls, path: Path) -> "Results":
        """As `write` wrote it. Raises FileNotFoundError."""
        stored = json.loads(path.read_text("utf-8"))
        truths = {name: Truth(*(Totals(*each) for each in row["served"])) for name, row in stored["scenarios"].items()}
        shown: dict[str, dict[str, Totals]] = {}
        for name, row in stored["scenarios"].items():
            for product, totals in row["shown"].items():
                shown.setdefault(product, {})[name] = Totals(*totals)
        return cls(stored["conditions"], stored["left_out"], truths, shown)

    def write(self, path: Path) -> None:
        """A line for each scenario: canonical and native totals, and those of each product."""
        lines = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps({'served': truth, 'shown': self._shown_of(name)})}"
            for name, truth in self.truths.items()
        )
        head = "".join(f" {json.dumps(key)}: {json.dumps(getattr(self, key))},\n" for key in ("conditions", "left_out"))
        path.write_text(f'{{\n{head} "scenarios": {{\n{lines}\n }}\n}}\n', "utf-8")

    def _shown_of(self, name: str) -> dict[str, Totals]:
        return {product: shown[name] for product, shown in self.shown.items() if name in shown}

    def pairs(self, product: str) -> list[tuple[Truth, Totals]]:
        """Of each scenario that the product was given."""
        shown = self.shown.get(product, {})
        return [(truth, shown[name]) for name, truth in self.truths.items() if name in shown]

    def right(self, product: str) -> set[str]:
        """Scenarios of which the product shows both sums right."""
        shown = self.shown.get(product, {})
        return {name for name, totals in shown.items() if verdict(self.truths[name], totals) == "exact"}


def conditions(product: str) -> dict[str, str]:
    """What the figures of *product* depend on; nothing names the machine."""
    package = PRODUCTS[product].package
    versions = {product: package.partition("==")[2]} if package else {}
    return {
        "day": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "prices": version("genai-prices"),
        **({OURS: version("ai-telemetry-gateway")} if product == OURS else versions),
    }


def counted(truths: Iterable[Truth | LeftOut]) -> dict[str, int]:
    """Reason -> how many scenarios are left out for it."""
    return dict(Counter(each.reason for each in truths if isinstance(each, LeftOut)))


def products_table(results: Results) -> str:
    """A row for each product."""
    rows = []
    for name in _measured(results):
        found = summary(results.pairs(name))
        rows.append(
            [
                _title(name, results),
                str(found.scenarios),
                f"{found.verdicts['exact']} ({found.verdicts['exact'] / found.scenarios:.1%})",
                str(found.native),
                *(str(found.verdicts[each]) for each in ("too high", "too low", "nothing")),
                "-" if found.overcount is None else f"{found.overcount:.2f}",
                f"{found.costs} of {found.known_costs}" if name != "sum" else "-",
            ]
        )
    head = ["product", "scenarios", "exact", "native", "too high", "too low", "nothing", "overcount", "cost within 2 %"]
    return markdown(head, rows)


def _measured(results: Results) -> list[str]:
    return [name for name in PRODUCTS if name in results.shown]


def _title(name: str, results: Results) -> str:
    return f"{PRODUCTS[name].title} {results.conditions.get(name, '')}".strip()


def conditions_line(results: Results) -> str:
    """When and with what it was measured, and which scenarios count."""
    stated, left = results.conditions, results.left_out
    reasons = "".join(f" {count} scenarios are left out: {reason}." for reason, count in sorted(left.items()))
    return (
        f"{stated['day']}, Python {stated['python']}, genai-prices {stated['prices']}."
        f" {len(results.truths)} scenarios have traces that hold what was served.{reasons}"
    )


def better(results: Results) -> str:
    """Where another product is right and ours is not."""
    return _differing(results, lambda name, other: name in results.right(other) - results.right(OURS), "totals")


def better_costs(results: Results) -> str:
    """Where the cost of another product is right and ours is not."""

    def is_better(name: str, other: str) -> bool:
        truth, shown = results.truths[name], results.shown
        is_ours = is_cost_right(truth, shown[OURS][name])
        return not is_ours and is_cost_right(truth, shown[other].get(name, Totals(0, 0)))

    return _differing(results, is_better, "costs")


def _differing(results: Results, is_better: Callable[[str, str], bool], what: str) -> str:
    """A row for each scenario of which another product is right; ours is not."""
    rows, ours = [], results.shown.get(OURS, {})
    for name, truth in results.truths.items():
        others = [other for other in _measured(results) if other != OURS and name in ours and is_better(name, other)]
        if others:
            shown = _shown(ours[name], what)
            rows.append([f"`{name}`", _shown(truth.canonical, what), shown, ", ".join(others)])
    head = ["scenario", "served", "this gateway", "right"]
    return markdown(head, rows) if rows else f"There is no scenario of which only others show the right {what}."


def _shown(totals: Totals, what: str) -> str:
    if what == "costs":
        return "-" if totals.cost is None else f"{totals.cost:.6f} USD"
    return f"{totals.input_tokens:,} in, {totals.output_tokens:,} out"


def clients_table(results: Results) -> str:
    """Scenarios of which both sums are right, by the client that sent them."""
    scenarios = Counter(name.split("/")[1] for name in results.truths)
    right = {product: Counter(name.split("/")[1] for name in results.right(product)) for product in _measured(results)}
    rows = [[f"`{client}`", str(of), *(str(right[each][client]) for each in right)] for client, of in scenarios.items()]
    return markdown(["client", "scenarios", *right], rows)


BLOCKS: Final[Mapping[str, Callable[[Results], str]]] = {
    "truth_conditions": conditions_line,
    "truth": products_table,
    "truth_better": better,
    "truth_better_costs": better_costs,
    "truth_clients": clients_table,
}


def with_blocks(page: str, results: Results) -> str:
    """*page* as *results* have it."""
    return filled(page, results, BLOCKS)


def write_page(results: Results) -> None:
    PAGE.write_text(with_blocks(PAGE.read_text("utf-8"), results), "utf-8")
