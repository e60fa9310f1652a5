"""Histories of usage made by hand; every value that a test does not name is an ordinary one."""

from collections.abc import Iterable

from gateway.usage.sums.history import History, Model, Usage
from gateway.usage.sums.tally import PICO

NOW_HOUR = 490_000
"""Some hour; all hours of the builders are reported back from it."""


def used(ago: int, **fields: object) -> Usage:
    """What one series used *ago* hours before now; `cost` in
    whole units in place of `cost_pico`.
    """
    cost = fields.pop("cost", None)
    made: dict[str, object] = {
        "provider": "openai", "model": "gpt-4o", "team": "", "service_name": "app", "currency": "", "cost_source": "",
        "calls": 10, **fields,
    }  # fmt: skip
    if isinstance(cost, int | float):
        made |= {"currency": fields.get("currency", "USD"), "cost_source": "estimated", "cost_pico": round(cost * PICO)}
    return Usage(hour=NOW_HOUR - ago, **made)  # type: ignore[arg-type]  # the test's own keywords


def days(first: int, last: int, **fields: object) -> list[Usage]:
    """The same in each hour of the days *first* to *last* before
    now; day 0 is the last 24 hours.
    """
    return [used(ago, **fields) for day in range(last, first + 1) for ago in range(day * 24, day * 24 + 24)]


def history(*usage: Usage | Iterable[Usage], models: Iterable[Model] = (), began_ago: int = 30 * 24) -> History:
    rows = [row for each in usage for row in ([each] if isinstance(each, Usage) else each)]
    return History(NOW_HOUR, rows, list(models), NOW_HOUR - began_ago)
