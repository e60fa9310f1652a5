"""Requests that schemathesis makes of the descriptions, sound and
unsound ones, to running processes.

None may meet a 5xx, and every answer must be one that is described: its status, its
content type, its fields.
"""

import os
from collections.abc import Mapping
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode

from gateway.local_service.openapi.document import service_document
from gateway.operate.openapi.document import gateway_document
from tests.conformance.openapi.conftest import GatewayPorts, Port, ServicePort
from tests.support.described import Answered

EXAMPLES = int(os.environ.get("GENERATED_EXAMPLES", "8"))
"""Of each operation and kind; more for a longer look."""
FAMILIES = ("litellm", "bedrock", "langfuse", "generic")
"""Of the AI gateways one of each kind of answer, and the two that read most;
the others have the same routes."""
LEFT_OUT = ("backUpSpool", "beginBackup", "tap")
"""They write to any path that a request names, or answer without an end."""
BOUNDS = settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

pytestmark = pytest.mark.explored

Operation = Any
"""schemathesis' APIOperation, which its types leave generic."""


def operations_of(document: dict[str, Any], port: str) -> list[Any]:
    chosen = []
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = found.ok()
        name = operation.definition.raw["operationId"]
        is_of_port = document["paths"][operation.path]["servers"][0]["url"].endswith(port)
        if is_of_port and name not in LEFT_OUT and not is_another_way(operation):
            chosen.append(pytest.param(operation, id=name))
    return chosen


def is_another_way(operation: Operation) -> bool:
    """To what is asked already: a source's route that differs by its name or method alone."""
    parts = operation.path.split("/")
    is_source, is_otlp = "AI gateways" in operation.tags, parts[-2] == "v1" and len(parts) > 3
    return is_source and (operation.method == "put" or is_otlp or (parts[2] == "sources" and parts[3] not in FAMILIES))


def try_out(port: Port, operation: Operation, known: Mapping[str, Any]) -> None:
    """*known*: names of what is there, for a third of the requests, which
    otherwise would hardly meet any.
    """
    there = {name: value for name, value in known.items() if f"{{{name}}}" in operation.path}
    sound = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    unsound = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    aimed = operation.as_strategy(generation_mode=GenerationMode.POSITIVE, path_parameters=there) if there else sound

    with requests.Session() as session:

        @BOUNDS
        @given(case=st.one_of(sound, unsound, aimed))
        def meets_what_is_described(case: Case) -> None:
            headers = dict(port.headers)
            response = case.call(base_url=port.url, session=session, headers=headers, allow_redirects=False)
            assert response.status_code < 500, f"{response.status_code}: {response.content[:300]!r}"
            path = str(response.request.path_url).partition("?")[0]
            if response.status_code in {404, 405} and not is_described(port, case.method, path):
                return  # a generated parameter made another path of it
            answered = {name.title(): values[-1] for name, values in response.headers.items()}
            port.described.check(Answered(case.method.upper(), path, response.status_code, answered, response.content))

        meets_what_is_described()


def is_described(port: Port, method: str, path: str) -> bool:
    try:
        port.described.path_of(Answered(method.upper(), path, 0, {}, b""))
    except AssertionError:
        return False
    return True


def a_key(admin: Port, path: str) -> str:
    """The id of one that nothing else needs."""
    keys = (path.partition("/keys")[0] or "/v2") + "/keys"  # the page's own paths begin with /keys
    new = {"name": f"for {path}"[:60], "scopes": ["ai-hub:mcp"], "confirmed": True}
    admin.ask("POST", keys, new)
    key_id: str = admin.ask("GET", f"{keys}?scope=ai-hub:mcp&sort_key=created_at&sort_order=desc").json()["keys"][0][
        "id"
    ]
    return key_id


def of_insights(port: Port) -> dict[str, str]:
    new = {"title": "known", "category": "test", "effort": "low"}
    insight_id = port.ask("POST", "/v2/insights", new).json()["insight"]["id"]
    comment = port.ask("POST", f"/v2/insights/{insight_id}/comments", {"text": "known"}).json()["comment"]
    return {"insight_id": insight_id, "comment_id": comment["id"]}


@pytest.mark.parametrize("operation", operations_of(gateway_document(), "4318"))
def test_the_senders_port_meets_its_description(gateway: GatewayPorts, operation: Operation) -> None:
    try_out(gateway.senders, operation, {"device_id": "known", "connection_id": "7"})


@pytest.mark.parametrize("operation", operations_of(gateway_document(), "4319"))
def test_the_admin_port_meets_its_description(gateway: GatewayPorts, operation: Operation) -> None:
    known = {"id": a_key(gateway.admin, operation.path)} if "keys" in operation.path else {}
    try_out(gateway.admin, operation, known | of_insights(gateway.admin))


@pytest.mark.parametrize("operation", operations_of(service_document(), "4320"))
def test_the_local_service_meets_its_description(service: ServicePort, operation: Operation) -> None:
    port, enrolment = service.port, service_document()["components"]["schemas"]["Enrolment"]["example"]
    port.ask("POST", "/v2/ai-control-plane/devices", enrolment)
    port.ask("POST", "/v2/connections/billing", {"id": "7", "name": "known"})
    known = {"device_id": enrolment["device_id"], "stream": "known", "connection_id": "7", "month": "2026-01"}
    try_out(port, operation, known | of_insights(port))
