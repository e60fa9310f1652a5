"""Paths and header names of the cost management service: two presets, every name of
them open to the operator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Preset:
    """Paths are relative to the base URL; `{device_id}` and `{connection_id}` are filled in,
    percent-encoded."""

    ai_telemetry_records: str = "/v2/ai-telemetry/records"
    ai_telemetry_otlp: str = "/v2/ai-telemetry/otlp/v1/traces"
    create_event: str = "/events/v1/events"
    unit_cost_records: str = "/unit-cost/v1/telemetry/{kind}/{stream}/{operation}"
    unit_cost_read: str = "/unit-cost/v1/telemetry/{stream}/records"
    unit_cost_create: str = "/unit-cost/v1/telemetry/{stream}"
    """PUT; empty where the service has none: a stream is then made by its first records."""
    unit_cost_delete: str = "/unit-cost/v1/telemetry/{stream}"
    """DELETE."""
    unit_cost_element: str = "element_name"
    """The field of an allocation record that names its element; the legacy
    endpoint has `element-name`."""
    enroll_device: str = "/v2/ai-control-plane/devices"
    heartbeat_device: str = "/v2/ai-control-plane/devices/{device_id}/heartbeat"
    ping_device: str = "/v2/ai-control-plane/devices/{device_id}/ping"
    billing_drops: str = "/v2/connections/billing/external/{connection_id}/billing_drops"
    validate_billing_drop: str = "/v2/connections/billing/external/validate_billing_drop"
    liveness: str = "/v2/insights?limit=1"
    authorization_header: str = "Authorization"
    idempotency_header: str = "Idempotency-Key"
    gateway_id_header: str = "X-Gateway-Id"
    batch_id_header: str = "X-Batch-Id"
    """Names a batch whatever the idempotency key is by then: another
    gateway knows a repeat by it."""


PRESETS: Mapping[str, Preset] = {
    "document": Preset(),
    "cloudzero": Preset(
        idempotency_header="cloudzero-idempotency-key",
        unit_cost_create="",
        billing_drops="/v2/connections/billing/anycost/{connection_id}/billing_drops",
        validate_billing_drop="/v2/connections/billing/anycost/validate_billing_drop",
    ),
}


UNPUBLISHED: Mapping[str, tuple[str, ...]] = {
    "document": (),
    "cloudzero": ("ai_telemetry_otlp", "create_event", "enroll_device", "heartbeat_device", "ping_device"),
}
"""Preset -> names in it that no public document of the service states: ours are assumed."""
NOT_SENT: Mapping[str, str] = {
    "cloudzero": "billing drops (AnyCost Stream) are not sent: costs travel with the AI records alone;"
    " those of senders are forwarded",
}
"""Preset -> what its service takes besides and this gateway does not send by itself."""


def preset_notes(name: str, overrides: Mapping[str, str]) -> list[str]:
    """What the preset leaves open, a sentence each; nothing of names that the operator set."""
    assumed = [each for each in UNPUBLISHED[name] if each not in overrides]
    notes = []
    if assumed:
        notes.append(
            f"no public document states {', '.join(assumed)}: ask the service, and set upstream.names where its are others"
        )
    return [*notes, NOT_SENT[name]] if name in NOT_SENT else notes


def preset_with(name: str, overrides: Mapping[str, str]) -> Preset:
    """The preset *name* with the operator's own names in place.

    Raises ValueError for an unknown preset or name.
    """
    if name not in PRESETS:
        raise ValueError(f"preset {name!r} is not one of {', '.join(PRESETS)}")
    unknown = sorted(overrides.keys() - {field.name for field in fields(Preset)})
    if unknown:
        raise ValueError(f"no such name in a preset: {', '.join(unknown)}")
    return replace(PRESETS[name], **overrides)
