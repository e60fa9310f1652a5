"""Who a call belongs to. Precedence, for each field by itself:

1. what the inbound key fixes, 2. the record's own attribute, 3. the resource's
   attribute, 4. the enrolled device,
5. what the inbound key brings. Of the device: the one that the telemetry names, else the one
   that the gateway itself is.

The user goes through the operator's policy (keep, hash, drop) before it is written anywhere.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gateway.common.contract.device_identity import ASSISTANTS
from gateway.read.view import Attributes, Resource
from gateway.rules.context import Context
from gateway.rules.extract import NO_INTEREST, NO_ONE, WHO, AttributeTable, Interest, pick
from gateway.rules.fingerprint import fingerprint, source_fingerprint
from spool.record import FIELDS, Attribution

RESOURCE_NAMES: dict[str, tuple[str, ...]] = {
    "service_name": ("service.name",),
    "instance": ("service.instance.id",),
    "environment": ("deployment.environment.name", "deployment.environment", "env", "langfuse.environment"),
    "user": (
        "user.id",
        "enduser.id",
        "user.email",
        "user.account_uuid",
        "cursor.user.email",
        "cursor.user.account_id",
        "cursor.user.id",
    ),
    "session": ("session.id",),
    "team": ("team.id", "team", "team.name", "cursor.team.id"),
    "project": ("project.id", "project", "project.name", "openinference.project.name"),
    "device_id": ("device.id", "host.id"),
    "host": ("host.name",),
    "place": ("k8s.pod.uid", "k8s.pod.name", "container.id"),
    "label.namespace": ("service.namespace",),
    "label.service_version": ("service.version",),
    "label.k8s_namespace": ("k8s.namespace.name",),
    "label.cost_center": ("cost_center", "cost.center"),
    "label.department": ("department",),
    "label.organization": ("organization.id", "organization"),
    "label.surface": ("cursor.surface",),
}

_STATED = frozenset(field.name for field in FIELDS.of("attribution") if field.row.words)
_OF_LABELS = frozenset({"team", "project", "environment", "user"})
"""Labels of a key that are fields of the attribution; any other is a label there too."""
MAX_ORIGINS = 1024
MAX_RESOURCE_BYTES = 4096
_LABEL = "label."
MAX_NAME_CHARS = 128
"""A longer value of several words is a text: a field of the attribution stays empty."""


def _table() -> AttributeTable:
    known: dict[str, Interest] = {
        name: (field, rank, WHO) for field, names in RESOURCE_NAMES.items() for rank, name in enumerate(names)
    }
    return AttributeTable(known, lambda _: NO_INTEREST)


RESOURCE_INTERESTS = _table()


PLACE_MASK = (1 << 32) - 1


def is_name(value: str) -> bool:
    """Whether *value* may be an id or a name: one line, and one word or at most
    `MAX_NAME_CHARS` characters.
    """
    return (len(value) <= MAX_NAME_CHARS or " " not in value) and "\n" not in value and "\r" not in value


def fixed_by(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What a key's *labels* fix: (field of `Context.key_fixes`, value)."""
    return tuple((name if name in _OF_LABELS else _LABEL + name, value) for name, value in labels.items())


class ResourceContext(NamedTuple):
    """What all items of one resource share."""

    attribution: Attribution
    """What resource, device and key state; copied for each record."""
    source: int
    """Fingerprint of the sender: service name, and instance or session."""
    sender: int = 0
    """The same with the inbound key (else the peer) and the device: who it is that reports a
    product's calls in several ways."""
    instance: int = 0
    """Fingerprint of the service's instance; 0 where the resource states none."""
    place: int = 0
    """32-bit fingerprint of the pod, container or host it runs in; 0
    where the resource states none."""
    host: str = ""
    """Name of the machine that a coding assistant runs on, where it states no id of it; with the
    user it names the machine."""
    user: str = ""
    """Of the resource, as it was sent; only beside *host*."""


def origin(resource: Attributes, context: Context) -> ResourceContext:
    """The attribution and the sender's fingerprint of one resource."""
    stated = pick(resource, tuple(resource), RESOURCE_INTERESTS).who
    context.tags.add_of(stated, resource)
    merged = {**stated, **context.key_fixes}
    attribution: Attribution = {}
    _fill(attribution, merged, context)
    device_id = context.device_id or stated.get("device_id") or context.own_device
    if device_id:
        attribution["device_id"] = device_id
    if context.key:
        attribution["key"] = context.key
    instance = stated.get("instance") or stated.get("session", "")
    place = stated.get("place") or stated.get("host")
    service = stated.get("service_name", "")
    return ResourceContext(
        attribution,
        source_fingerprint(service, instance),
        fingerprint(
            "sender", context.counted_key or context.peer, device_id or "", service, stated.get("instance", "")
        ),
        fingerprint("instance", stated["instance"]) if "instance" in stated else 0,
        fingerprint("place", place) & PLACE_MASK if place else 0,
        *(_unnamed(merged, service) if context.machines.are_named and not device_id else ()),
    )


def _unnamed(merged: Mapping[str, str], service: str) -> tuple[str, str]:
    """Host and user of a coding assistant's machine."""
    host = merged.get("host") if service in ASSISTANTS else None
    return (host, merged.get("user", "")) if host else ("", "")


def name_machine(attribution: Attribution, made: ResourceContext, who: Mapping[str, str], context: Context) -> None:
    """Add the machine's id, for an *attribution* that has none of a device;
    call it where *made* has a host.
    """
    user = context.key_fixes.get("user") or who.get("user") or made.user
    if user and user not in NO_ONE and not attribution.get("device_id"):
        attribution["device_id"] = context.machines.name(made.host, user)


_OriginKey = tuple[object, ...]
_origins: dict[_OriginKey, ResourceContext] = {}


def resource_origin(resource: Resource, context: Context) -> ResourceContext:
    """The `origin` of *resource*, remembered: an SDK sends the same resource with each request."""
    data = resource.SerializeToString()
    key = (data, *_sender_key(context))
    known = _origins.get(key)
    if known is not None:
        return known
    made = origin(resource.attributes, context)
    if len(data) <= MAX_RESOURCE_BYTES:
        _remember(key, made)
    return made


def gateway_origin(source: str, context: Context) -> ResourceContext:
    """Who sends what comes from the gateway *source* under this key, or from
    this peer; remembered as above.
    """
    key = (source, *_sender_key(context))
    known = _origins.get(key)
    if known is not None:
        return known
    sender = context.counted_key or context.peer
    made = origin({}, context)._replace(
        source=fingerprint("gateway source", source, sender), sender=fingerprint("sender", source, sender)
    )
    _remember(key, made)
    return made


def _remember(key: _OriginKey, made: ResourceContext) -> None:
    if len(_origins) >= MAX_ORIGINS:
        _origins.clear()
    _origins[key] = made


def _sender_key(context: Context) -> _OriginKey:
    """All of *context* but its time."""
    sender = (
        context.key,
        context.counted_as,
        context.device_id,
        context.users,
        context.machines,
        context.peer,
        context.own_device,
        context.tags,
    )
    return (*sender, *context.key_fixes.items()) if context.key_fixes else sender


def _fill(attribution: Attribution, who: Mapping[str, str], context: Context) -> None:
    """Write the fields of *who* that are names over those of *attribution*;
    labels join the others.
    """
    labels: dict[str, str] | None = None
    for field, value in who.items():
        if not is_name(value):
            continue
        if field == "user":
            kept = context.users.apply(value) if value not in NO_ONE else None
            if kept is not None:
                attribution["user"] = kept
        elif field in _STATED:
            attribution[field] = value  # type: ignore[literal-required]  # it is the name of a field
        elif field.startswith(_LABEL):
            if labels is None:
                labels = {**(attribution.get("labels") or {})}
            labels[field.removeprefix(_LABEL)] = value
    if labels is not None:
        attribution["labels"] = labels


def fill_missing(attribution: Attribution, labels: Mapping[str, str], context: Context) -> None:
    """Write *labels* (as a key's: `team`, `project`, `environment`, `user`, else a label) where
    *attribution* has no value.

    A field that the key fixes stays as it is, also where that came to nothing.
    """
    labelled = attribution.get("labels") or {}
    missing = {
        field: value
        for field, value in fixed_by(labels)
        if field not in context.key_fixes
        and (field.removeprefix(_LABEL) not in labelled if field.startswith(_LABEL) else attribution.get(field) is None)
    }
    _fill(attribution, missing, context)


def attribute(base: Attribution, who: Mapping[str, str], context: Context) -> Attribution:
    """The attribution of one record: its own attributes over its resource's, under what the
    key fixes. A fresh object.
    """
    attribution = base.copy()
    if who:
        fixes = context.key_fixes
        if fixes:
            # Left out rather than written over: a fixed user may come to nothing (hashed away, or
            # "unknown").
            _fill(attribution, {field: value for field, value in who.items() if field not in fixes}, context)
            _fill(attribution, fixes, context)
        else:
            _fill(attribution, who, context)
    return attribution
