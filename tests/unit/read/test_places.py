"""Where a body stops being JSON is reported alike, whoever reads it."""

from collections.abc import Callable

import pytest

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.unit_cost import Target
from gateway.fleet.devices.heartbeat_body import decode_enrolment, decode_heartbeat
from gateway.products.documents import documents_in
from gateway.read.otlp_json import decode_traces_json
from gateway.usage.events.json_items import json_items
from gateway.usage.events.unit_cost import BadUnitCost, read_records

TRAILING_COMMA = b'{\n "CANARY": [1],\n}'


def events(body: bytes) -> object:
    return json_items(body, "events")


def unit_cost(body: bytes) -> object:
    return read_records(body, Target("metric", "s", "sum"), 0)


@pytest.mark.parametrize(
    "read", [decode_traces_json, decode_heartbeat, decode_enrolment, events, unit_cost, documents_in]
)
def test_a_trailing_comma_is_reported_by_line_and_column_and_nothing_is_quoted(read: Callable[[bytes], object]) -> None:
    with pytest.raises((BadPayload, BadUnitCost), match=r"line [23], column \d+") as refused:
        read(TRAILING_COMMA)
    assert "CANARY" not in str(refused.value)
