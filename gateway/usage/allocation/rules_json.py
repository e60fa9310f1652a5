"""Rules of allocation in JSON: in bodies, answers and columns. Pure."""

import json
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, TypedDict

from gateway.common.contract.json_types import Schema, Time
from gateway.usage.sums.allocation import Definition, Rule
from gateway.usage.sums.figures import money_text
from gateway.usage.sums.saved_filter import ShownFilter, kept_filter
from gateway.usage.sums.splitting import Share
from spool.clock import rfc3339_ms


class ShareJson(TypedDict):
    name: str
    percent: Annotated[str, Schema(examples=("60", "33.333333"))]


class RuleJson(TypedDict):
    match: ShownFilter
    """Dimension -> names, null for an unknown one. A call has any of the names of each; an empty
    object matches every call."""
    shares: list[ShareJson]
    """They add up to 100. The first one also gets what rounding leaves over of money."""


class DefinitionJson(TypedDict):
    target: Annotated[str, Schema(examples=("team", "project", "tag:customer"))]
    version: int
    rules: list[RuleJson]
    """In their order: a call without the target belongs to the first that it matches."""
    note: str
    created_at: Time
    created_by: str


def definition_json(definition: Definition) -> DefinitionJson:
    return {
        "target": definition.target,
        "version": definition.version,
        "rules": [rule_json(rule) for rule in definition.rules],
        "note": definition.note,
        "created_at": rfc3339_ms(definition.created_at_ms),
        "created_by": definition.created_by,
    }


def rule_json(rule: Rule) -> RuleJson:
    return {
        "match": {dimension: list(names) for dimension, names in rule.match.items()},
        "shares": [{"name": name, "percent": money_text(percent)} for name, percent in rule.shares],
    }


def rule_of(item: Mapping[str, Any]) -> Rule:
    """What `rule_json` made, or a body holds."""
    shares = [Share(each["name"], Decimal(each["percent"])) for each in item["shares"]]
    return Rule(kept_filter(item["match"]), tuple(shares))


def rules_text(rules: Sequence[Rule]) -> str:
    """As a column has them."""
    return json.dumps([rule_json(rule) for rule in rules], ensure_ascii=False)


def rules_in(text: str) -> tuple[Rule, ...]:
    """What `rules_text` wrote."""
    return tuple(map(rule_of, json.loads(text)))


def without_users(definition: Definition, users: Collection[str]) -> Definition | None:
    """*definition* whose rules name none of *users*; a rule that would name no user any more is
    left out, as it would match every one. None where it names none.
    """
    kept = [rule for each in definition.rules if (rule := _without_users(each, users)) is not None]
    same = len(kept) == len(definition.rules) and all(
        mine.match == theirs.match for mine, theirs in zip(kept, definition.rules, strict=True)
    )
    return None if same else definition._replace(rules=tuple(kept))


def _without_users(rule: Rule, users: Collection[str]) -> Rule | None:
    if "user" not in rule.match:
        return rule
    left = tuple(name for name in rule.match["user"] if name not in users)
    return Rule({**rule.match, "user": left}, rule.shares) if left else None
