"""The form of a budget: fields of HTML <-> the body that the operations take. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from multidict import MultiMapping

from gateway.operate.site import filter_form
from gateway.operate.site.view import FormFault
from gateway.usage.budgets.body import DEFAULT_THRESHOLDS
from gateway.usage.budgets.budget import MEASURES
from gateway.usage.sums.grains import Dimension

TEXTS: Final = ("name", "amount", "currency", "period", "stop_at", *MEASURES)
NAMES: Final[Mapping[str, str]] = {"thresholds": "actual"}
"""Name in the body -> in the form, where they differ."""
WEBHOOK: Final = "webhook"
"""A field that is there only where several are configured; without it a budget keeps its own."""
NOTHING_CHANGED: Final = "Nothing was changed. See the fields marked below."
PERCENTS: Final = "whole numbers of percent with commas between, such as 50, 80, 100, are needed"
MAX_DIGITS: Final = 6


def values_of_new(kept: filter_form.Names, currency: str) -> dict[str, str]:
    """What the form of a new budget for calls of *kept* holds."""
    given = [each.model_dump() for each in DEFAULT_THRESHOLDS]
    return {
        "name": name_for(kept),
        "amount": "",
        "currency": currency,
        "period": "month",
        "stop_at": "",
        WEBHOOK: "",
        "filter": filter_form.text_of(kept),
        **percents(given),
    }


def name_for(kept: Mapping[Dimension, Any]) -> str:
    names = [name or f"unknown {dimension}" for dimension, names in kept.items() for name in names]
    return " · ".join(names)[:100] or "All calls"


def values_of(budget: Mapping[str, Any]) -> dict[str, str]:
    """What the form holds for *budget*, as the API states it."""
    texts = {
        name: "" if budget[name] is None else str(budget[name]) for name in (*TEXTS, WEBHOOK) if name not in MEASURES
    }
    return {**texts, "filter": filter_form.text_of(budget["filter"]), **percents(budget["thresholds"])}


def percents(thresholds: Any) -> dict[str, str]:
    """Measure -> its percentages, as a field holds them."""
    return {of: ", ".join(str(each["percent"]) for each in thresholds if each["of"] == of) for of in MEASURES}


def typed_of(form: MultiMapping[str]) -> dict[str, str]:
    """The same of a form that was sent."""
    texts = {name: form.get(name, "").strip() for name in TEXTS}
    return {**texts, **({WEBHOOK: form[WEBHOOK]} if WEBHOOK in form else {}), "filter": filter_form.chosen(form)}


def body_of(typed: Mapping[str, str]) -> dict[str, Any]:
    """The body for a new budget, or for a change. Raises FormFault, BadPayload."""
    return {
        "name": typed["name"],
        "amount": typed["amount"],
        "currency": typed["currency"].upper(),
        "period": typed["period"],
        "filter": filter_form.filter_in(filter(None, typed["filter"].split(filter_form.LINE))),
        "thresholds": [{"of": of, "percent": each} for of in MEASURES for each in percents_in(typed, of)],
        "stop_at": one_percent_in(typed, "stop_at"),
        **({WEBHOOK: typed[WEBHOOK] or None} if WEBHOOK in typed else {}),
    }


def one_percent_in(typed: Mapping[str, str], name: str) -> int | None:
    """None where it is empty. Raises FormFault."""
    found = percents_in(typed, name)
    if len(found) > 1:
        raise FormFault(NOTHING_CHANGED, {name: "one whole number of percent is needed"}, typed)
    return found[0] if found else None


def percents_in(typed: Mapping[str, str], name: str) -> list[int]:
    texts = [text.strip().removesuffix("%").strip() for text in typed[name].split(",") if text.strip()]
    if not all(text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS for text in texts):
        raise FormFault(NOTHING_CHANGED, {name: PERCENTS}, typed)
    return [int(text) for text in texts]
