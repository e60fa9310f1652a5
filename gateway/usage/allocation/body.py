"""Bodies that make versions of allocation rules, and ask what rules would move. Pure."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from gateway.common.body import Body, RefusedValue
from gateway.common.contract.tags import NAME, PREFIX
from gateway.usage.allocation.rules_json import rule_of
from gateway.usage.sums.allocation import Rule
from gateway.usage.sums.ranges import RANGES
from gateway.usage.sums.saved_filter import SavedFilter
from gateway.usage.sums.splitting import PERCENT_DECIMALS
from gateway.usage.sums.tally import MAX_NAME_CHARS

TARGETS: Final = ("team", "project")
"""Dimensions that can be allocated, besides tags."""
MAX_RULES: Final = 100
MAX_SHARES: Final = 50
MAX_NOTE_CHARS: Final = 200
_HUNDRED: Final = Decimal(100)
_PERCENT: Final = re.compile(rf"[0-9]{{1,3}}(\.[0-9]{{1,{PERCENT_DECIMALS}}})?")
_TIME: Final = r"\d{4}-\d\d-\d\d(T\d\d:\d\d)?"


class ShareBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: Annotated[
        str, Field(min_length=1, max_length=MAX_NAME_CHARS, description=f"a name of 1 to {MAX_NAME_CHARS} characters")
    ]
    percent: Annotated[
        str,
        Field(
            pattern=f"^{_PERCENT.pattern}$",
            description=f"a number as text, such as 60 or 33.4, of at most {PERCENT_DECIMALS} decimals",
        ),
    ]


class RuleBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    match: SavedFilter = Field(default_factory=dict)
    shares: Annotated[
        list[ShareBody],
        Field(
            min_length=1,
            max_length=MAX_SHARES,
            description=f"a list of 1 to {MAX_SHARES} shares, each with a name and its percent,",
        ),
    ]


Target = Annotated[
    str,
    Field(pattern=f"^({'|'.join(TARGETS)}|{PREFIX}{NAME})$", description=f"one of {', '.join(TARGETS)}, {PREFIX}NAME"),
]
Rules = Annotated[
    list[RuleBody],
    Field(
        max_length=MAX_RULES,
        description=(
            f"a list of at most {MAX_RULES} rules, each with `match` (dimension -> names) and `shares` (1 to"
            f" {MAX_SHARES} of name and percent, as text of at most {PERCENT_DECIMALS} decimals),"
        ),
    ),
]
Note = Annotated[str, Field(max_length=MAX_NOTE_CHARS, description=f"text of at most {MAX_NOTE_CHARS} characters")]
EXAMPLE_RULES: Final[Any] = [
    {"match": {"key": ["batch"]}, "shares": [{"name": "search", "percent": "60"}, {"name": "chat", "percent": "40"}]}
]


class NewVersion(Body):
    """Without rules nothing is allocated from then on."""

    model_config = ConfigDict(json_schema_extra={"example": {"rules": EXAMPLE_RULES, "note": "as agreed in May"}})

    rules: Rules
    note: Note = ""

    @field_validator("rules", mode="wrap")
    @classmethod
    def placed_faults(cls, rules: object, handler: ValidatorFunctionWrapHandler) -> list[RuleBody]:
        """A fault inside a rule names its place, such as `rules[0].shares[1].percent`."""
        try:
            checked: list[RuleBody] = handler(rules)
        except ValidationError as error:
            faults = [_fault_at(each["loc"]) for each in error.errors(include_url=False, include_input=False)]
            if not all(faults):
                raise
            raise RefusedValue("; ".join(dict.fromkeys(filter(None, faults)))) from None
        return checked

    @field_validator("rules")
    @classmethod
    def whole_shares(cls, rules: list[RuleBody]) -> list[RuleBody]:
        for number, rule in enumerate(rules):
            _check_shares(number, rule.shares)
        return rules

    def as_rules(self) -> tuple[Rule, ...]:
        return tuple(rule_of(rule.model_dump()) for rule in self.rules)


class NewDefinition(NewVersion):
    """The first version of a target's rules."""

    model_config = ConfigDict(json_schema_extra={"example": {"target": "team", "rules": EXAMPLE_RULES}})

    target: Target

    @model_validator(mode="after")
    def target_is_not_matched(self) -> "NewDefinition":
        check_match(self.target, self.rules)
        return self


class Preview(NewDefinition):
    """Rules that are not applied: what they would move."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"target": "team", "rules": EXAMPLE_RULES, "range": "last_month"}}
    )

    range: Annotated[
        str,
        Field(
            pattern=f"^({'|'.join(RANGES)}|{_TIME}/{_TIME})$",
            description=f"one of {', '.join(RANGES)}, or two times such as 2026-11-02/2026-11-09,",
        ),
    ] = "last_30_days"


def check_match(target: str, rules: Sequence[RuleBody]) -> None:
    """Raises RefusedValue for a rule that looks at the target."""
    for number, rule in enumerate(rules):
        if target in rule.match:
            raise RefusedValue(
                f"rules[{number}].match: only calls without a {target} are allocated: leave {target} out"
            )


def _fault_at(place: Sequence[int | str]) -> str | None:
    """The fault of one part of a rule; None for one of the list, or of a rule that has other
    parts.
    """
    match place:
        case [int(rule), "shares", int(share), "name" | "percent" as part, *_]:
            return f"rules[{rule}].shares[{share}].{part}: {ShareBody.model_fields[part].description} is needed"
        case [int(rule), "match" | "shares" as part, *_]:
            return f"rules[{rule}].{part}: {RuleBody.model_fields[part].description} is needed"
        case _:
            return None


def _check_shares(number: int, shares: Sequence[ShareBody]) -> None:
    percents = [Decimal(share.percent) for share in shares]
    if not all(percents):
        raise RefusedValue(f"rules[{number}].shares: a percent above 0 is needed: leave the others out")
    if (total := sum(percents)) != _HUNDRED:
        raise RefusedValue(f"rules[{number}].shares: they add up to {total:f}; 100 is needed")
    if len({share.name for share in shares}) < len(shares):
        raise RefusedValue(f"rules[{number}].shares: each name once is needed")
