"""What LiteLLM's `lago` and `openmeter` callbacks send: one event a success, with the
wholes of its usage. Pure.

Read from captures of 1.106 and `litellm/integrations/lago.py`, `openmeter.py`.

1. Lago: `transaction_id` is new for each event: the report's identity, and no call's. It states no
   time. Whom `external_subscription_id` names is the proxy's setting (`LAGO_API_CHARGE_BY`: end
   user, user or team), so it is a label; it goes the way of users, for it may be one.
2. OpenMeter: a CloudEvent (1.0). `id` is the provider's response id, LiteLLM's own UUID for
   embeddings. `time` is when it was sent, right after the call's end. `subject` is the user.
3. Neither states provider, cache, reasoning, or failures. Where they run beside `generic_api`,
   OpenMeter's are found by their response id, and Lago's as co-instrumented spans.
"""

import re
from collections.abc import Mapping
from typing import Final

from gateway.products.fields import pick_fields, text_of
from gateway.products.reporting import Report, content_id, epoch_ms
from gateway.rules.context import Context
from gateway.rules.conventions.litellm import without_prefix
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

LAGO: Final = Convention(
    "litellm",
    own={
        "request_model": ("event.properties.model",),
        "request_id": ("event.transaction_id",),
        "input": ("event.properties.prompt_tokens",),
        "output": ("event.properties.completion_tokens",),
        "total": ("event.properties.total_tokens",),
        "cost": ("event.properties.response_cost",),
        "subscription": ("event.external_subscription_id",),
    },
    basis=inclusive,
)
OPENMETER: Final = Convention(
    "litellm",
    own={
        "request_model": ("data.model",),
        "response_id": ("id",),
        "input": ("data.prompt_tokens",),
        "output": ("data.completion_tokens",),
        "total": ("data.total_tokens",),
        "cost": ("data.cost",),
        "user": ("subject",),
    },
    basis=inclusive,
)


def is_lago(document: Mapping[str, Json]) -> bool:
    event = document.get("event")
    return isinstance(event, dict) and "transaction_id" in event


def is_cloud_event(document: Mapping[str, Json]) -> bool:
    return "specversion" in document and isinstance(document.get("data"), dict)


def lago_report(document: dict[str, Json], context: Context) -> Report:
    picked = _picked(document, LAGO)
    subscription = picked.texts.pop("subscription", None)
    kept = context.users.apply(subscription) if subscription is not None else None
    if kept is not None:
        picked.who["label.subscription"] = kept
    identity = picked.texts.get("request_id") or content_id(subscription, *sorted(picked.counts.items()))
    return Report(picked, event_id=identity, channel="lago")


def openmeter_report(document: dict[str, Json]) -> Report:
    picked = _picked(document, OPENMETER)
    own = picked.texts.get("response_id", "")
    if _UUID.fullmatch(own):
        picked.texts["request_id"] = picked.texts.pop("response_id")
    when = epoch_ms(document.get("time"))
    identity = content_id(text_of(document.get("source")), own, when)
    return Report(picked, event_id=identity, end_ms=when, channel="openmeter")


def _picked(document: dict[str, Json], convention: Convention) -> Extracted:
    """The values; zeros on both sides are unknown, and so is a cost of 0."""
    picked = pick_fields(document, convention)
    if not picked.counts.get("input") and not picked.counts.get("output"):
        picked.counts.pop("input", None)
        picked.counts.pop("output", None)
    if not picked.numbers.get("cost"):
        picked.numbers.pop("cost", None)
    model = picked.texts.get("request_model")
    if model is not None:
        picked.texts["request_model"] = without_prefix(model, picked.texts)
    return picked
