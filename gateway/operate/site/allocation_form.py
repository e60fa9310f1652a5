"""The form of a target's allocation rules: fields of HTML <-> the body that the operations take.
Pure.

The fields of a rule end in its number, from 0 on. Its shares are lines of `name = percent`; a name
alone gets all.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from multidict import MultiMapping

from gateway.operate.site import filter_form
from gateway.operate.site.usage_figures import Amount
from gateway.usage.allocation.body import MAX_RULES

TEXTS: Final = ("note", "range", "version")
"""*version*: the number of the one that the form began with; empty for none."""
RANGE: Final = "last_30_days"
ALL: Final = "100"
MAX_DIGITS: Final = 3


class FormRule(NamedTuple):
    """A rule as the form holds it."""

    filter: str
    """Lines of `filter_form.text_of`; empty: every call without the target."""
    shares: str


EMPTY: Final = FormRule("", "")


def rule_of(rule: Mapping[str, Any]) -> FormRule:
    """A rule as the API states it."""
    shares = [f"{each['name']} = {each['percent']}" for each in rule["shares"]]
    return FormRule(filter_form.text_of(rule["match"]), filter_form.LINE.join(shares))


def values_of(rules: Sequence[FormRule], **texts: str) -> dict[str, str]:
    """What the form holds."""
    fields: dict[str, str] = {**dict.fromkeys(TEXTS, ""), "range": RANGE, **texts, "rules": str(len(rules))}
    for number, rule in enumerate(rules):
        fields |= {f"filter-{number}": rule.filter, f"shares-{number}": rule.shares}
    return fields


def rules_in(values: Mapping[str, str]) -> list[FormRule]:
    """The rules of what `values_of` made."""
    return [FormRule(values[f"filter-{n}"], values[f"shares-{n}"]) for n in range(int(values["rules"]))]


def typed_of(form: MultiMapping[str]) -> dict[str, str]:
    """The same of a form that was sent."""
    texts = {name: form.get(name, "").strip() for name in TEXTS}
    rules = [
        FormRule(filter_form.chosen(form, f"-{n}"), shares_text(form.get(f"shares-{n}", "")))
        for n in range(count_of(form.get("rules", "")))
    ]
    return values_of(rules, **texts)


def count_of(text: str) -> int:
    """At most one rule more than is allowed, which the operation refuses."""
    return min(number_in(text) or 0, MAX_RULES + 1)


def number_in(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    return int(text) if is_number else None


def shares_text(text: str) -> str:
    """Without empty lines."""
    return filter_form.LINE.join(line.strip() for line in text.splitlines() if line.strip())


def acted(values: Mapping[str, str], act: str) -> dict[str, str]:
    """The form after one of its buttons: `add`, `up-1`, `down-1`, `remove-1`, or any other."""
    rules, texts = rules_in(values), {name: values[name] for name in TEXTS}
    verb, _, text = act.partition("-")
    number = number_in(text)
    match verb:
        case "add":
            rules = with_rule(rules, EMPTY)
        case "up" if number and number < len(rules):
            rules.insert(number - 1, rules.pop(number))
        case "down" if number is not None and number < len(rules):
            rules.insert(number + 1, rules.pop(number))
        case "remove" if number is not None and number < len(rules):
            del rules[number]
    return values_of(rules, **texts)


def with_rule(rules: Sequence[FormRule], rule: FormRule) -> list[FormRule]:
    """*rule* is the last one, but before one that takes every call."""
    takes_rest = bool(rules) and not rules[-1].filter and bool(rule.filter)
    return [*rules[:-1], rule, rules[-1]] if takes_rest else [*rules, rule]


def body_of(values: Mapping[str, str]) -> dict[str, Any]:
    """The body of a version, of a preview without its range. Raises BadPayload."""
    return {"rules": [body_of_rule(rule) for rule in rules_in(values)], "note": values["note"]}


def body_of_rule(rule: FormRule) -> dict[str, Any]:
    lines = rule.shares.splitlines()
    shares = [share_of(line, is_alone=len(lines) == 1) for line in lines]
    return {
        "match": filter_form.filter_in(filter(None, rule.filter.split(filter_form.LINE))),
        "shares": shares,
    }


def share_of(line: str, *, is_alone: bool) -> dict[str, str]:
    name, is_pair, percent = line.rpartition("=")
    if not is_pair:
        return {"name": line.strip(), "percent": ALL if is_alone else ""}
    return {"name": name.strip(), "percent": percent.strip().removesuffix("%").strip()}


# ---- what is shown


class Moved(NamedTuple):
    """A name whose figures change."""

    name: str | None
    """None for calls without the target."""
    now: Mapping[str, Any] | None
    """Sums as the API states them; None where it has none."""
    then: Mapping[str, Any] | None


def moved_names(preview: Mapping[str, Any]) -> list[Moved]:
    """What a version of these rules would change, beside the rules that are applied now."""
    target = preview["target"]
    rows = [Moved(named(row, target), row["applied"], row["after"]) for row in preview["names"]]
    return [row for row in rows if row.now != row.then]


def named(row: Mapping[str, Any], target: str) -> str | None:
    absent = row.get("absent", {}).get(target)
    return row[target] if absent is None else None if absent == "unknown" else f"({absent})"


def amounts_of(sums: Mapping[str, Any]) -> list[Amount]:
    """US dollars first, then by name."""
    order = sorted(sums["costs"].items(), key=lambda item: (item[0] != "USD", item[0]))
    return [Amount(currency, Decimal(amount), Decimal(0)) for currency, amount in order]
