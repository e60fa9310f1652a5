"""The bodies of billing drops, read and checked: the Common Bill Format (wire contract 6.5) and
FOCUS. Pure.

A FOCUS body holds a part of one UTC day, with the manifest of the whole day
(`gateway.common.contract.billing`). Rows are charges as FOCUS 1.2 states them; columns of a
sender's own begin with `x_`.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from gateway.common.contract.billing import (
    DAY,
    FOCUS,
    FOCUS_VERSION,
    MAX_PARTS,
    MAX_ROWS,
    MONTH,
    REPLACE_DAILY,
    REVISION,
)
from gateway.common.contract.currencies import REMEDY, is_currency
from gateway.local_service.amounts import EXACT, parse_decimal
from gateway.local_service.checks import Fields, as_list, as_object, choice, present, text, whole
from gateway.local_service.errors import Invalid
from gateway.local_service.times import parse_utc

OPERATIONS: Final = ("replace_drop", "replace_hourly", "sum")
DEFAULT_OPERATION: Final = "replace_drop"
LINE_ITEM_TYPES: Final = (
    *("Usage", "Tax", "Support", "Purchase", "CommittedUsePurchase", "Discount", "Credit", "Fee", "Adjustment"),
)
_COSTS: Final = (
    "cost/cost",
    "cost/discounted_cost",
    "cost/amortized_cost",
    "cost/discounted_amortized_cost",
    "cost/on_demand_cost",
)
_NUMBERS: Final = frozenset({*_COSTS, "usage/amount"})
_COLUMNS: Final = _NUMBERS | {
    *("time/usage_start", "lineitem/type", "usage/units", "bill/invoice_id"),
    *("resource/id", "resource/service", "resource/account", "resource/region", "resource/usage_family"),
    *("action/operation", "action/usage_type", "action/region", "action/account"),
}
_FREE_COLUMN: Final = re.compile(r"(?:resource/tag:|k8s/).{1,256}", re.DOTALL)
_PLAIN_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)

FOCUS_COSTS: Final = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
FOCUS_TIMES: Final = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
FOCUS_TEXTS: Final = (
    *("BillingAccountId", "BillingCurrency", "ChargeCategory", "InvoiceIssuerName", "ProviderName", "PublisherName"),
    *("ServiceCategory", "ServiceName"),
)
FOCUS_COLUMNS: Final = frozenset({
    *FOCUS_COSTS, *FOCUS_TIMES, *FOCUS_TEXTS, "AvailabilityZone", "BillingAccountName", "BillingAccountType",
    "CapacityReservationId", "CapacityReservationStatus", "ChargeClass", "ChargeDescription", "ChargeFrequency",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus", "CommitmentDiscountType", "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit",
    "ContractedUnitPrice", "InvoiceId", "ListUnitPrice", "PricingCategory", "PricingCurrency",
    "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice",
    "PricingQuantity", "PricingUnit", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType",
    "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName",
    "SubAccountType", "Tags",
})  # fmt: skip
"""Of version 1.2."""
CHARGE_CATEGORIES: Final = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")


class Manifest(NamedTuple):
    """Of a day of one sender, in one of its parts."""

    day: str
    """YYYY-MM-DD, UTC."""
    source: str
    revision: str
    part: int
    """From 1."""
    parts: int
    row_count: int
    """Of all parts; as the costs."""
    costs: Mapping[str, Decimal]
    """Currency -> sum of `BilledCost`."""


class Drop(NamedTuple):
    month: str
    """YYYY-MM"""
    operation: str
    rows: tuple[Fields, ...]
    starts_at_ms: tuple[int, ...]
    """Of each row."""
    manifest: Manifest | None
    """None for the Common Bill Format."""

    @property
    def format(self) -> str:
        return "cbf" if self.manifest is None else FOCUS


def read_drop(body: Fields) -> Drop:
    """Raises Invalid with the row's position."""
    month = _month(text(body, "month"))
    if body.get("format") is None:
        return _cbf_drop(body, month)
    choice(body, "format", (FOCUS,))
    choice(body, "format_version", (FOCUS_VERSION,))
    choice(body, "operation", (REPLACE_DAILY,))
    return _focus_drop(body, month, _manifest(as_object(present(body, "manifest"), "manifest"), month))


def refuse_other_sums(rows: Iterable[Fields], manifest: Manifest) -> None:
    """Raises Invalid where the *rows* of all parts are not what the manifest states."""
    costs: dict[str, Decimal] = {}
    count = 0
    for row in rows:
        count += 1
        currency = str(row["BillingCurrency"])
        costs[currency] = EXACT.add(costs.get(currency, Decimal(0)), Decimal(str(row["BilledCost"])))
    if count != manifest.row_count:
        raise Invalid("manifest_mismatch", f"manifest.row_count: the parts hold {count} rows")
    if costs != manifest.costs:
        raise Invalid("manifest_mismatch", "manifest.costs: the sums of BilledCost are others")


def _month(value: str) -> str:
    """Both forms are seen in the wild: a full time, and YYYY-MM."""
    time = parse_utc(f"{value}-01" if MONTH.fullmatch(value) else value)
    if time is None:
        raise Invalid("invalid_month", "month: YYYY-MM or an ISO 8601 time is needed")
    return _month_of(time)


def _month_of(time: datetime) -> str:
    return f"{time.year:04}-{time.month:02}"


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


# ---- Common Bill Format


def _cbf_drop(body: Fields, month: str) -> Drop:
    operation = DEFAULT_OPERATION if body.get("operation") is None else choice(body, "operation", OPERATIONS)
    rows, starts = [], []
    for index, value in enumerate(_data(body, least=1)):
        try:
            row = as_object(value, "row")
            starts.append(_cbf_start(row, month))
            rows.append(row)
        except Invalid as error:
            raise Invalid(error.code, f"data[{index}]: {error}") from error
    return Drop(month, operation, tuple(rows), tuple(starts), None)


def _data(body: Fields, *, least: int) -> list[object]:
    rows = as_list(present(body, "data"), "data")
    if not least <= len(rows) <= MAX_ROWS:
        raise Invalid("invalid_data", f"data: {least} to {MAX_ROWS} rows are needed")
    return rows


def _cbf_start(row: Fields, month: str) -> int:
    """When a sound row begins, in milliseconds since 1970."""
    for name, value in row.items():
        _check_cell(name, value)
    time = _usage_start(text(row, "time/usage_start"), month)
    present(row, "cost/cost")
    if "lineitem/type" in row:
        choice(row, "lineitem/type", LINE_ITEM_TYPES)
    if "resource/id" not in row and any(name.startswith("resource/tag:") for name in row):
        raise Invalid("missing_resource/id", "resource/id: needed beside a tag")
    return _ms(time)


def _check_cell(name: str, value: object) -> None:
    if name not in _COLUMNS and _FREE_COLUMN.fullmatch(name) is None:
        raise Invalid("unknown_column", "a column is not one of the Common Bill Format")
    if not isinstance(value, str):
        raise Invalid(f"invalid_{name}", f"{name}: all values are strings")
    if name in _NUMBERS:
        _check_number(name, value)


def _check_number(name: str, value: object) -> None:
    if not isinstance(value, str) or _PLAIN_NUMBER.fullmatch(value) is None or parse_decimal(value) is None:
        raise Invalid(f"invalid_{name}", f"{name}: a plain decimal without exponent is needed, as text")


def _usage_start(value: str, month: str) -> datetime:
    time = parse_utc(value)
    if time is None or (time.minute, time.second, time.microsecond) != (0, 0, 0):
        raise Invalid("invalid_time/usage_start", "time/usage_start: a full hour in UTC is needed")
    if _month_of(time) != month:
        raise Invalid("invalid_time/usage_start", "time/usage_start: it is outside the month of the request")
    return time


# ---- FOCUS


def _focus_drop(body: Fields, month: str, manifest: Manifest) -> Drop:
    rows, starts = [], []
    for index, value in enumerate(_data(body, least=0)):
        try:
            row = as_object(value, "row")
            starts.append(_focus_start(row, manifest.day))
            rows.append(row)
        except Invalid as error:
            raise Invalid(error.code, f"data[{index}]: {error}") from error
    return Drop(month, REPLACE_DAILY, tuple(rows), tuple(starts), manifest)


def _manifest(fields: Fields, month: str) -> Manifest:
    day, revision = text(fields, "day"), text(fields, "revision")
    if DAY.fullmatch(day) is None or parse_utc(day) is None or not day.startswith(month):
        raise Invalid("invalid_day", "manifest.day: a day of the month is needed, as YYYY-MM-DD")
    if REVISION.fullmatch(revision) is None:
        raise Invalid("invalid_revision", "manifest.revision: 64 hexadecimal digits are needed")
    part, parts = whole(fields, "part"), whole(fields, "parts")
    if not 1 <= part <= parts <= MAX_PARTS:
        raise Invalid("invalid_part", f"manifest.part: from 1 to manifest.parts, which is {MAX_PARTS} at most")
    costs = as_object(present(fields, "costs"), "costs")
    for currency, amount in costs.items():
        _check_currency(currency)
        _check_number("costs", amount)
    sums = {currency: Decimal(str(amount)) for currency, amount in costs.items()}
    return Manifest(day, text(fields, "source"), revision, part, parts, whole(fields, "row_count"), sums)


def _focus_start(row: Fields, day: str) -> int:
    """When a sound row of *day* begins, in milliseconds since 1970."""
    for name in row:
        if name not in FOCUS_COLUMNS and not name.startswith("x_"):
            raise Invalid("unknown_column", f"a column is not one of FOCUS {FOCUS_VERSION}, and does not begin with x_")
    for name in FOCUS_COSTS:
        _check_number(name, present(row, name))
    for name in FOCUS_TEXTS:
        text(row, name)
    choice(row, "ChargeCategory", CHARGE_CATEGORIES)
    _check_currency(row["BillingCurrency"])
    times = {name: _time(row, name) for name in FOCUS_TIMES}
    first = datetime.fromisoformat(day).replace(tzinfo=UTC)
    start, end = times["ChargePeriodStart"], times["ChargePeriodEnd"]
    if not (first <= start < end and end - first <= timedelta(days=1)):
        raise Invalid("invalid_ChargePeriodStart", "ChargePeriodStart: the charge is outside manifest.day")
    if not times["BillingPeriodStart"] <= start < end <= times["BillingPeriodEnd"]:
        raise Invalid("invalid_BillingPeriodStart", "BillingPeriodStart: the charge is outside its billing period")
    return _ms(start)


def _check_currency(value: object) -> None:
    if not isinstance(value, str) or not is_currency(value):
        raise Invalid("invalid_BillingCurrency", f"BillingCurrency: {REMEDY} is needed")


def _time(row: Fields, name: str) -> datetime:
    time = parse_utc(text(row, name))
    if time is None:
        raise Invalid(f"invalid_{name}", f"{name}: an ISO 8601 time is needed")
    return time
