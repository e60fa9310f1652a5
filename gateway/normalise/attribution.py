"""Who a call belongs to. Precedence, for each field by itself:

1. what the inbound key fixes, 2. the record's own attribute, 3. the resource's attribute, 4. the enrolled device,
5. what the inbound key brings.

The user goes through the operator's policy (keep, hash, drop) before it is written anywhere.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gateway.decode.view import Attributes
from gateway.normalise.context import Context
from gateway.normalise.fingerprint import source_fingerprint
from gateway.normalise.pick import NO_INTEREST, WHO, Interest, Interests, pick
from spool.record import Attribution

_RESOURCE_NAMES: dict[str, tuple[str, ...]] = {
    "service_name": ("service.name",),
    "instance": ("service.instance.id",),
    "environment": ("deployment.environment.name", "deployment.environment", "env", "langfuse.environment"),
    "user": ("user.id", "enduser.id", "user.email", "user.account_uuid"),
    "session": ("session.id",),
    "team": ("team.id", "team", "team.name", "cursor.team.id"),
    "project": ("project.id", "project", "project.name", "openinference.project.name"),
    "device_id": ("device.id", "host.id"),
    "label.namespace": ("service.namespace",),
    "label.service_version": ("service.version",),
    "label.k8s_namespace": ("k8s.namespace.name",),
    "label.cost_center": ("cost_center", "cost.center"),
    "label.department": ("department",),
    "label.organization": ("organization.id", "organization"),
}

_LABEL = "label."
_NO_ONE = frozenset({"unknown", "Unknown", "None", "none", "null", "undefined", "n/a", "N/A"})
"""Words that senders write where they know no user."""


def _table() -> Interests:
    known: dict[str, Interest] = {
        name: (field, rank, WHO) for field, names in _RESOURCE_NAMES.items() for rank, name in enumerate(names)
    }
    return Interests(known, lambda _: NO_INTEREST)


_RESOURCE_INTERESTS = _table()


class Origin(NamedTuple):
    """What all items of one resource share."""

    attribution: Attribution
    """What resource, device and key say; copied for each record."""
    source: int
    """Fingerprint of the sender: service name, and instance or session."""


def origin(resource: Attributes, context: Context) -> Origin:
    """The attribution and the sender's fingerprint of one resource."""
    told = pick(resource, tuple(resource), _RESOURCE_INTERESTS).who
    merged = {**context.key_gives, **context.device, **told, **context.key_fixes}
    attribution: Attribution = {}
    _fill(attribution, merged, context)
    device_id = context.device_id or told.get("device_id")
    if device_id:
        attribution["device_id"] = device_id
    if context.key:
        attribution["key"] = context.key
    instance = told.get("instance") or told.get("session", "")
    return Origin(attribution, source_fingerprint(told.get("service_name", ""), instance))


def _fill(attribution: Attribution, who: Mapping[str, str], context: Context) -> None:  # noqa: C901 - one branch a field
    """Write the fields of *who* over those of *attribution*; labels join the others."""
    labels: dict[str, str] | None = None
    for field, value in who.items():
        if field == "user":
            kept = context.users.apply(value) if value not in _NO_ONE else None
            if kept is not None:
                attribution["user"] = kept
        elif field == "session":
            attribution["session"] = value
        elif field == "team":
            attribution["team"] = value
        elif field == "project":
            attribution["project"] = value
        elif field == "service_name":
            attribution["service_name"] = value
        elif field == "environment":
            attribution["environment"] = value
        elif field.startswith(_LABEL):
            if labels is None:
                labels = {**(attribution.get("labels") or {})}
            labels[field.removeprefix(_LABEL)] = value
    if labels is not None:
        attribution["labels"] = labels


def attribute(base: Attribution, who: Mapping[str, str], context: Context) -> Attribution:
    """The attribution of one record: its own attributes over its resource's, under what the key fixes. A fresh object."""
    attribution = base.copy()
    if who:
        _fill(attribution, who, context)
        if context.key_fixes:
            _fill(attribution, context.key_fixes, context)
    return attribution
