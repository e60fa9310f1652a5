"""Events that the CloudEvents SDK writes, in each mode, to a running gateway; and what arrives at
the service.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings.http import HTTPMessage, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from cloudevents.v1.conversion import to_binary, to_structured
from cloudevents.v1.http import CloudEvent as FirstCloudEvent

from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess

OF_DOCS = "http://127.0.0.1:4318"
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECRET = "s3cretOfTheData"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as process:
        yield process


def event_of(number: int, **data: object) -> CloudEvent:
    attributes = {
        "id": str(number),
        "source": "/shop/ä",
        "type": "report.generated",
        "time": NOON,
        "subject": "Käse AG",
    }
    return CloudEvent(attributes, {"number": number, **data})


def batch_of(*events: CloudEvent) -> HTTPMessage:
    bodies = [to_structured_event(event).body for event in events]
    return HTTPMessage({"content-type": "application/cloudevents-batch+json"}, b"[" + b",".join(bodies) + b"]")


def post(gateway: GatewayProcess, message: HTTPMessage, **more: str) -> httpx.Response:
    return httpx.post(f"{gateway.intake_url}/v1/events", content=message.body, headers={**message.headers, **more})


def at_the_service(gateway: GatewayProcess, path: str) -> dict[str, Any]:
    answer = httpx.get(f"{gateway.service_url}{path}", headers={"Authorization": gateway.service_key()})
    found: dict[str, Any] = answer.json()
    return found


def test_events_of_all_modes_arrive_once_each(gateway: GatewayProcess) -> None:
    messages = [to_binary_event(event_of(1)), to_structured_event(event_of(2)), batch_of(event_of(3), event_of(4))]
    assert [post(gateway, each).json()["accepted"] for each in messages] == [1, 1, 2]
    again = batch_of(*(event_of(number) for number in range(1, 5)))
    assert post(gateway, again).json() == {"accepted": 4, "rejected": [], "duplicate": 4}
    assert post(gateway, to_binary_event(event_of(2))).json()["duplicate"] == 1
    gateway.wait_until_delivered("usage_events", at_least=4)
    events = at_the_service(gateway, "/events/v1/events")["events"]
    assert sorted(each["metadata"]["number"] for each in events) == [1, 2, 3, 4]
    for each in events:
        assert (each["title"], each["source"]) == ("report.generated", "/shop/ä")
        assert each["timestamp"].startswith("2026-01-05T12:00:00")
        assert each["metadata"]["cloudevent"] == {"id": str(each["metadata"]["number"]), "subject": "Käse AG"}


def test_the_first_generation_of_the_sdk_is_read_too(gateway: GatewayProcess) -> None:
    event = FirstCloudEvent({"id": "1", "source": "/shop", "type": "t", "time": NOON.isoformat()}, {"n": 1})
    for convert in (to_binary, to_structured):
        headers, body = convert(event)
        told = httpx.post(f"{gateway.intake_url}/v1/events", content=body, headers=headers)
        assert told.json()["accepted"] == 1
    assert told.json() == {"accepted": 1, "rejected": [], "duplicate": 1}


def test_a_metered_event_is_added_to_its_stream(gateway: GatewayProcess) -> None:
    for number in (1, 2):
        event = event_of(number, stream="tokens-by-customer", value="12.5")
        assert post(gateway, to_binary_event(event)).json()["accepted"] == 1
    gateway.wait_until_delivered("unit_cost", at_least=2)
    found = at_the_service(gateway, "/unit-cost/v1/telemetry/tokens-by-customer/records")
    (record,) = found["records"]
    assert (record["element_name"], record["value"]) == ("Käse AG", "25")


def test_the_examples_of_the_page_are_accepted_and_delivered(gateway: GatewayProcess) -> None:
    page = (Path(__file__).parents[2] / "docs/events.md").read_text().replace(OF_DOCS, gateway.intake_url)
    of_shell, of_python = (re.search(rf"```{name}\n(.*?)```", page, re.DOTALL) for name in ("sh", "python"))
    assert of_shell is not None
    assert of_python is not None
    subprocess.run(["/bin/sh", "-c", of_shell[1]], check=True)
    subprocess.run([sys.executable, "-c", of_python[1]], check=True)
    gateway.wait_until_delivered("unit_cost", at_least=1)
    gateway.wait_until_delivered("usage_events", at_least=1)


def test_an_event_needs_the_key_the_scope_and_is_charged_to_the_quota(gateway: GatewayProcess) -> None:
    of_events = ("keys", "create", "--scope", "events_v1:create_event")
    key = run_command(gateway, *of_events, "--name", "events", "--requests-per-minute", "2").out.split()[-1]
    other = run_command(
        gateway, "keys", "create", "--name", "spans", "--scope", "ai-telemetry-ingest:ingest-ai-telemetry"
    ).out.split()[-1]
    message = to_binary_event(event_of(1))
    assert post(gateway, message).status_code == 401
    assert post(gateway, message, Authorization=other).status_code == 403
    assert [post(gateway, message, Authorization=key).status_code for _ in range(3)] == [202, 202, 429]


def test_nothing_of_the_data_is_logged_or_answered(gateway: GatewayProcess) -> None:
    refused = [
        {"data": {"event_id": SECRET}},
        {"data": {"stream": "tokens", "value": SECRET}},
        {"data": SECRET},
        {"data": {"<": SECRET}},
        {SECRET: SECRET},
        {"data": {}, "route": SECRET},
    ]
    required = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    told = httpx.post(
        f"{gateway.intake_url}/v1/events",
        json=[required | changes for changes in refused],
        headers={"Content-Type": "application/cloudevents-batch+json"},
    )
    assert (told.status_code, len(told.json()["rejected"])) == (400, len(refused))
    assert SECRET not in told.text
    body = f'{{"{SECRET}'.encode()
    torn = post(gateway, HTTPMessage({"content-type": "application/cloudevents+json"}, body))
    assert (torn.status_code, SECRET in torn.text) == (400, False)
    status = httpx.get(f"{gateway.admin_url}/v2/status").text
    assert gateway.stop() == 0
    assert SECRET not in gateway.log.read_text() + status
