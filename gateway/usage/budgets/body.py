"""Bodies that create and change budgets. Pure."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gateway.common.body import Body, RefusedValue
from gateway.common.contract.budgets import Measure
from gateway.common.contract.currencies import REMEDY, is_currency
from gateway.common.contract.errors import BadPayload
from gateway.common.one_line import MAX_CHARS, OneLine
from gateway.usage.budgets.budget import MEASURES, PERIODS, Period
from gateway.usage.sums.saved_filter import SavedFilter

MAX_PERCENT: Final = 1000
MAX_THRESHOLDS: Final = 10
_AMOUNT: Final = r"^[0-9]{1,12}(\.[0-9]{1,12})?$"


def _above_zero(text: str) -> str:
    if not Decimal(text):
        raise RefusedValue("amount: a number above 0 is needed")
    return text


def _known_currency(code: str) -> str:
    if not is_currency(code):
        raise RefusedValue(f"currency: {REMEDY} is needed")
    return code


Percent = Annotated[int, Field(ge=1, le=MAX_PERCENT, description=f"a whole number of percent from 1 to {MAX_PERCENT}")]


class ThresholdBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    of: Measure
    percent: Percent


Amount = Annotated[
    str,
    Field(pattern=_AMOUNT, description='a decimal number above 0 as text such as "1000" or "12.50"'),
    AfterValidator(_above_zero),
]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$", description=REMEDY), AfterValidator(_known_currency)]
PeriodWord = Annotated[Period, Field(description=f"one of {', '.join(PERIODS)}")]
Thresholds = Annotated[
    list[ThresholdBody],
    Field(
        max_length=MAX_THRESHOLDS,
        description=(
            f"a list of at most {MAX_THRESHOLDS} objects with `of` ({' or '.join(MEASURES)}) and `percent`, a whole"
            f" number from 1 to {MAX_PERCENT},"
        ),
    ),
]
StopAt = Annotated[
    Percent | None, Field(description=f"a whole number of percent from 1 to {MAX_PERCENT}, or null for never,")
]
WebhookName = Annotated[
    Annotated[str, Field(min_length=1, max_length=MAX_CHARS)] | None,
    Field(description="a name in budgets.webhooks of the configuration, or null for budgets.webhook,"),
]

DEFAULT_THRESHOLDS: Final[Sequence[ThresholdBody]] = (
    ThresholdBody(of="actual", percent=50),
    ThresholdBody(of="actual", percent=80),
    ThresholdBody(of="actual", percent=100),
    ThresholdBody(of="forecast", percent=100),
)
EXAMPLE: Final[dict[str, Any]] = {
    "name": "Core team, January",
    "amount": "1000",
    "currency": "USD",
    "period": "month",
    "filter": {"team": ["core"]},
    "thresholds": [{"of": "actual", "percent": 80}, {"of": "forecast", "percent": 100}],
    "stop_at": 120,
}


class NewBudget(Body):
    """Without `thresholds` these are 50, 80 and 100 % of the spend, and 100 % of the forecast."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    name: OneLine
    amount: Amount
    currency: Currency
    period: PeriodWord
    filter: SavedFilter = Field(default_factory=dict)
    thresholds: Thresholds = Field(default_factory=lambda: list(DEFAULT_THRESHOLDS))
    stop_at: StopAt = None
    webhook: WebhookName = None


class BudgetChange(Body):
    """Absent fields stay."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "example": {"amount": "1500"}})

    name: OneLine = ""
    amount: Amount = ""
    currency: Currency = ""
    period: PeriodWord = "month"
    filter: SavedFilter = Field(default_factory=dict)
    thresholds: Thresholds = Field(default_factory=list)
    stop_at: StopAt = None
    webhook: WebhookName = None


def fields_of(body: Body, webhooks: Collection[str]) -> dict[str, Any]:
    """The fields that *body* states, of a new budget with the defaults. Raises BadPayload."""
    fields: Mapping[str, Any] = body.model_dump(exclude_unset=isinstance(body, BudgetChange))
    if not fields:
        raise BadPayload(f"body: one of {', '.join(BudgetChange.model_fields)} is needed")
    if (webhook := fields.get("webhook")) is not None and webhook not in webhooks:
        known = ", ".join(sorted(webhooks)) or "it has none"
        raise BadPayload(f"webhook: a name in budgets.webhooks of the configuration is needed ({known})")
    return dict(fields)
