"""LiteLLM's daily exports: CloudZero's billing format (CBF), and FOCUS. Rows sum up a day of one
key and model; they are no calls. Pure.

Read from captures of 1.106 and `litellm/integrations/cloudzero/`, `litellm/integrations/focus/`.

1. CBF: `{month, operation, data: [row]}`. Its path is one on which a cost service takes anyone's
   billing drops, so only rows that LiteLLM wrote are read: their `resource/id` begins with
   `czrn:litellm:`, or they name a model. Others are costs that may be of no AI at all. Numbers may
   be texts. `resource/tag:prompt_tokens` is inclusive; the tags of tokens are left out at 0.
   `cost/cost` 0 beside tokens is no price. `api_requests` counts failures too; rows without a
   success are not sent.
2. A day is sent again and again while it grows (every hour, by default), and may be sent again at
   any time: what was added is counted.
3. A row's identity is day, provider, team, model, alias of the model, key prefix and user. Rows
   that share it differ by endpoint only, which is not sent: they are added.
4. FOCUS is written as a CSV file with a fixed header. `ConsumedQuantity` is requests; there are no
   tokens. Where both exports come, CBF counts. Parquet, the exporter's other form, is not read.
"""

import csv
from collections.abc import Iterator, Mapping
from typing import Final

from gateway.products.fields import count_of, pick_fields, text_of
from gateway.products.items import at
from gateway.products.reporting import epoch_ms
from gateway.products.source import SourceRead
from gateway.products.sums import Sum, add_sums
from gateway.rules.context import Context
from gateway.rules.conventions.litellm import without_prefix
from gateway.rules.conventions.metric_tables import CLIENT_RANK
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.texts import Json, json_object

FOREIGN_ROW: Final = "foreign_billing_row"
"""Why a row is rejected that LiteLLM did not write."""
_DAY_MS = 24 * 3600 * 1000
_TAG = "resource/tag:"

CBF: Final = Convention(
    "litellm",
    own={
        "provider": ("resource/tag:provider", "resource/usage_family"),
        "request_model": ("resource/tag:model",),
        "input": ("resource/tag:prompt_tokens",),
        "output": ("resource/tag:completion_tokens",),
        "cache_read": ("resource/tag:cache_read_tokens",),
        "cache_creation": ("resource/tag:cache_creation_tokens",),
        "cost": ("cost/cost",),
        "team": ("action/operation", "resource/tag:team_alias"),
        "user": ("resource/tag:user_email",),
        "project": ("resource/tag:project_alias",),
        "label.virtual_key": ("resource/tag:api_key_alias",),
        "label.model_group": ("resource/tag:model_group", "resource/service"),
        "label.organization": ("resource/tag:organization_alias",),
        "label.team_name": ("resource/tag:team_alias",),
    },
    basis=inclusive,
)
_CBF_IDENTITY: Final = (
    "resource/id", "action/operation", "resource/usage_family", _TAG + "model", _TAG + "model_group",
    _TAG + "api_key_prefix", _TAG + "user_email",
)  # fmt: skip

FOCUS_COLUMNS: Final = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd",
    "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost",
    "InvoiceIssuerName", "InvoiceId", "ListCost", "ListUnitPrice", "AvailabilityZone", "PricingCurrency", "PricingCategory",
    "PricingQuantity", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice",
    "PricingUnit", "ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType",
    "ServiceCategory", "ServiceSubcategory", "ServiceName", "SubAccountId", "SubAccountName", "SubAccountType", "Tags",
)  # fmt: skip
"""As LiteLLM writes them: a line states them by their order."""
FOCUS: Final = Convention(
    "litellm",
    own={
        "provider": ("tags.custom_llm_provider", "ProviderName"),
        "request_model": ("tags.model", "ResourceId"),
        "cost": ("BilledCost",),
        "currency": ("BillingCurrency",),
        "team": ("SubAccountId", "tags.team_id"),
        "user": ("tags.user_id", "tags.user_email"),
        "label.virtual_key": ("tags.api_key_alias", "BillingAccountName"),
        "label.model_group": ("tags.model_group",),
        "label.organization": ("tags.organization_id",),
        "label.team_name": ("SubAccountName",),
    },
    basis=inclusive,
)


def is_cbf(document: Mapping[str, Json]) -> bool:
    return (isinstance(document.get("data"), list) and ("operation" in document or "month" in document)) or _is_row(
        document
    )


def _is_row(document: Mapping[str, Json]) -> bool:
    return "time/usage_start" in document


def is_focus(document: Mapping[str, Json]) -> bool:
    return "BilledCost" in document and "ChargePeriodStart" in document


def add_daily(rows: list[tuple[str, dict[str, Json]]], out: SourceRead, context: Context) -> None:
    """Add the days of *rows*: (position, CBF envelope, CBF row or FOCUS row)."""
    cbf = [one for position, row in rows if not is_focus(row) for one in _cbf_sums(position, row, out)]
    add_sums(out, cbf, CBF, context)
    add_sums(
        out, [_focus_sum(position, row) for position, row in rows if is_focus(row)], FOCUS, context, rank=CLIENT_RANK
    )


def _is_of_litellm(row: Mapping[str, Json]) -> bool:
    return text_of(row.get("resource/id")).startswith("czrn:litellm:") or _TAG + "model" in row


def _cbf_sums(position: str, document: dict[str, Json], out: SourceRead) -> Iterator[Sum]:
    if _is_row(document):
        if _is_of_litellm(document):
            yield _cbf_sum(position, document)
        else:
            out.measured.reject(FOREIGN_ROW, position)
        return
    data = document.get("data")
    for number, row in enumerate(data if isinstance(data, list) else ()):
        place = at(position, f"data[{number}]")
        if not isinstance(row, dict):
            out.measured.reject("not_an_object", place)
        elif _is_of_litellm(row):
            yield _cbf_sum(place, row)
        else:
            out.measured.reject(FOREIGN_ROW, place)


def _cbf_sum(position: str, row: dict[str, Json]) -> Sum:
    picked = pick_fields(row, CBF)
    if not picked.numbers.get("cost"):
        picked.numbers.pop("cost", None)
    _without_provider(picked.texts)
    start_ms = epoch_ms(row.get("time/usage_start"))
    return Sum(
        identity=("cbf", *(text_of(row.get(name)) for name in _CBF_IDENTITY)),
        picked=picked,
        start_ms=start_ms,
        end_ms=None if start_ms is None else start_ms + _DAY_MS,
        position=position,
        calls=count_of(row.get(_TAG + "api_requests")),
    )


def _without_provider(texts: dict[str, str]) -> None:
    model = texts.get("request_model")
    if model is not None:
        texts["request_model"] = without_prefix(model, texts)


def read_line(line: str) -> Json:
    """A row of LiteLLM's FOCUS export; its header is no row.

    Raises ValueError where it is neither.
    """
    try:
        cells = next(csv.reader([line]))
    except (csv.Error, StopIteration) as error:
        raise ValueError("no line of CSV") from error
    if tuple(cells) == FOCUS_COLUMNS:
        return []
    if len(cells) != len(FOCUS_COLUMNS):
        raise ValueError("no row of LiteLLM's FOCUS export")
    row: dict[str, Json] = dict(zip(FOCUS_COLUMNS, cells, strict=True))
    if epoch_ms(row["ChargePeriodStart"]) is None or epoch_ms(row["ChargePeriodEnd"]) is None:
        raise ValueError("no row of LiteLLM's FOCUS export")
    return row


def _focus_sum(position: str, row: dict[str, Json]) -> Sum:
    picked = pick_fields({**row, "tags": _tags(row.get("Tags"))}, FOCUS)
    if not picked.numbers.get("cost"):
        picked.numbers.pop("cost", None)
    _without_provider(picked.texts)
    quantity = text_of(row.get("ConsumedQuantity")).partition(".")[0]
    return Sum(
        identity=(
            "focus",
            *(text_of(row.get(name)) for name in ("BillingAccountId", "ProviderName", "ResourceId", "SubAccountId")),
            picked.texts.get("request_model", ""),
            picked.who.get("label.model_group", ""),
            picked.who.get("user", ""),
        ),
        picked=picked,
        start_ms=epoch_ms(row.get("ChargePeriodStart")),
        end_ms=epoch_ms(row.get("ChargePeriodEnd")),
        position=position,
        calls=count_of(quantity) if row.get("ConsumedUnit") == "Requests" else None,
    )


def _tags(value: Json) -> Json:
    if not isinstance(value, str):
        return value if isinstance(value, dict) else {}
    return dict(json_object(value))
