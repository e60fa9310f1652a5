"""The older payload that `generic_api_use_v1` sends: twelve fields,
each made a text by Python. Pure.

Read from `_get_v1_logging_payload` (`litellm/integrations/generic_api/generic_api_callback.py`,
1.106): `id, call_type, cache_hit, startTime, endTime, model, user, modelParameters, messages,
response, usage, metadata, cost`.

1. `usage` is the repr of LiteLLM's Usage object (`Usage(completion_tokens=340, …,
   prompt_tokens_details=PromptTokensDetailsWrapper(…))`). Inclusive, as in the newer payload.
2. Times are `str(datetime)` without an offset, in the zone of the proxy: UTC here. A proxy in
   another zone reports wrong times.
3. Only successes are sent: of a failure the callback breaks on its missing usage. There
   is no call id and no provider.
4. Of the repr of `metadata` four names are read, each only where it stands there once; nothing of
   `messages`, `response`, `modelParameters` is.
"""

import re
from collections.abc import Mapping
from typing import Final

from gateway.common.operations import like
from gateway.products.fields import number_of
from gateway.products.litellm.call_types import CallType, call_type
from gateway.products.reporting import Report, content_id, epoch_ms
from gateway.rules.conventions.litellm import without_prefix
from gateway.rules.conventions.native import add_parts, add_wholes
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted
from gateway.rules.texts import Json

MAX_REPR_CHARS: Final = 64 * 1024
"""Of a longer text nothing is read."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DETAILS = re.compile(r"(\w+_details)=\w*\(([^()]{0,2000})\)")
_COUNT = re.compile(r"(\w{1,64})=(\d{1,13})(?=[,)\s]|$)")
_NONE = frozenset({"", "None", "none"})
_WHO: Final = (
    ("user", "user_api_key_user_id"),
    ("team", "user_api_key_team_id"),
    ("label.virtual_key", "user_api_key_alias"),
    ("label.model_group", "model_group"),
)


def is_older(document: Mapping[str, Json]) -> bool:
    return "modelParameters" in document and isinstance(document.get("usage"), str)


def older_report(document: Mapping[str, Json]) -> Report | CallType:
    """The report of a call; the type of a document that reports none."""
    kind = call_type(_text(document, "call_type").removeprefix("litellm."))
    if kind.kind in {"step", "other"}:
        return kind
    picked = Extracted()
    usage = usage_in(_text(document, "usage"))
    add_wholes(picked, usage)
    add_parts(picked, usage)
    if not picked.counts.get("input") and not picked.counts.get("output"):
        picked.counts.clear()
    if kind.kind != "call" and not picked.counts:
        return kind
    texts = picked.texts
    texts["operation"] = kind.operation
    model = without_prefix(_text(document, "model"), texts)
    if model:
        texts["request_model"] = model[:MAX_TEXT_CHARS]
    own = _text(document, "id")
    if own and not _UUID.fullmatch(own):
        texts["response_id"] = own[:MAX_TEXT_CHARS]
    cost = number_of(_text(document, "cost"))
    if cost:
        picked.numbers["cost"] = cost
    cached = _text(document, "cache_hit")
    if cached == "True":
        picked.numbers["cache_hit"] = like(1.0, cached)
        texts.pop("response_id", None)
    _read_who(document, picked)
    start, end = _text(document, "startTime"), _text(document, "endTime")
    return Report(
        picked,
        event_id=content_id(own, start[:64], model),
        start_ms=epoch_ms(start),
        end_ms=epoch_ms(end),
        channel="v1",
    )


def _text(document: Mapping[str, Json], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) and value not in _NONE and len(value) <= MAX_REPR_CHARS else ""


def usage_in(text: str) -> dict[str, Json]:
    """The numbers in the repr of a Usage object, as the object it was."""
    usage: dict[str, Json] = {}
    for name, inner in _DETAILS.findall(text):
        usage[name] = {part: int(count) for part, count in _COUNT.findall(inner)}
    for name, count in _COUNT.findall(_DETAILS.sub("", text)):
        usage.setdefault(name, int(count))
    return usage


def _read_who(document: Mapping[str, Json], picked: Extracted) -> None:
    """Rule 4."""
    metadata = _text(document, "metadata")
    for field, name in _WHO:
        mark = f"'{name}': '"
        if metadata.count(mark) == 1:
            found = metadata.partition(mark)[2].partition("'")[0]
            if found and found not in _NONE:
                picked.who[field] = found[:MAX_TEXT_CHARS]
    user = _text(document, "user")
    if user:
        picked.who.setdefault("user", user[:MAX_TEXT_CHARS])
