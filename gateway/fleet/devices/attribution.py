"""Attribution from the enrolled device: its labels fill what neither record
nor resource states. Pure.

A device states labels in its heartbeats and its enrolment. `team`, `project`, `environment` and
`user` are fields of the attribution, any other name joins its `labels`. What the inbound key
fixes stays (`gateway.rules.attribution`).
"""

import re
from collections.abc import Mapping
from typing import Final

import orjson

from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.rules.attribution import fill_missing
from gateway.rules.context import Context
from gateway.rules.points import UsagePoints

LABEL_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
"""The form of a label's name in a record; a device's label of
another form stays with the device."""

Labels = Mapping[str, str]


def labels_in(details: bytes) -> Labels:
    """The labels within a device's *details* (JSON: host, client,
    labels) that a record may carry.
    """
    if b'"labels"' not in details:
        return {}
    stated: Labels = orjson.loads(details).get("labels") or {}
    return {name: value for name, value in stated.items() if LABEL_NAME.fullmatch(name) and value.isprintable()}


def attribute_calls(calls: ParsedPayload, labels: Mapping[str, Labels], context: Context) -> ParsedPayload:
    """*calls* whose records of the devices in *labels* (device id -> labels) carry these;
    linear in the records' bytes.
    """
    records = [_attributed(record, labels, context) for record in calls.records]
    return calls._replace(records=records)


def _attributed(body: bytes, labels: Mapping[str, Labels], context: Context) -> bytes:
    record = orjson.loads(body)
    found = labels.get(record["attribution"].get("device_id"))
    if not found:
        return body
    fill_missing(record["attribution"], found, context)
    return orjson.dumps(record)


def attribute_points(points: UsagePoints, labels: Mapping[str, Labels], context: Context) -> None:
    """The same for usage points: the resources of these devices get an
    attribution of their own in *points*.
    """
    for at, shared in enumerate(points.attributions):
        found = labels.get(shared.get("device_id") or "")
        if found:
            points.attributions[at] = attribution = shared.copy()
            fill_missing(attribution, found, context)
