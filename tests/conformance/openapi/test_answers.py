"""Every operation that is described, asked of running processes: its success, and each
refusal that can be brought about.
"""

import gzip
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import orjson
import pytest

from gateway.common.lists.openapi.document import operations
from gateway.local_service.openapi.document import service_document
from gateway.operate.openapi.document import gateway_document
from gateway.operate.site.assets import ASSETS
from gateway.operate.site.registry import ACTIONS, VIEWS
from gateway.products.catalogue import SOURCES
from tests.conformance.openapi.conftest import OTHER_SCOPE, GatewayPorts, Port, ServicePort
from tests.support.described import Described
from tests.unit.local_service.test_billing import day_of

Json = dict[str, Any]

EMPTY_OTLP = b""
PROTOBUF = {"Content-Type": "application/x-protobuf"}
FIREHOSE = {"requestId": "r-1", "timestamp": 1_767_607_200_000, "records": []}


def example(document: Json, schema: str) -> Any:
    return document["components"]["schemas"][schema]["example"]


def unmet(described: Described, document: Json, ports: tuple[str, ...]) -> set[tuple[str, str]]:
    """Operations of *ports* whose success never came; forms of the page are a browser's matter."""
    forms = {("POST", action.path) for action in ACTIONS}
    wanted = {
        (method, path)
        for method, path, _ in operations(document)
        if document["paths"][path]["servers"][0]["url"].endswith(ports)
    } - forms
    return wanted - {(method, path) for method, path, status in described.met if status < 400}


# ---- senders


def test_every_sender_operation_answers_as_described(gateway: GatewayPorts) -> None:
    senders, document = gateway.senders, gateway_document()
    for prefix in (
        "",
        "/v2/ai-telemetry/otlp",
        "/v1/sources/litellm",
        "/api/public/otel",
        "/v1/sources/langfuse/api/public/otel",
    ):
        ways = ("POST",) if prefix in {"", "/v2/ai-telemetry/otlp"} else ("POST", "PUT")
        for signal, body in (("traces", example(document, "ExportTraces")), ("logs", {}), ("metrics", {})):
            for way in ways:
                assert senders.ask(way, f"{prefix}/v1/{signal}", body).status_code == 200
                assert senders.ask(way, f"{prefix}/v1/{signal}", EMPTY_OTLP, PROTOBUF).status_code == 200
    assert senders.ask("POST", "/v1/events", example(document, "Event")).status_code == 202
    assert senders.ask("POST", "/v1/events", [{"title": "no source"}, example(document, "Event")]).json()["rejected"]
    cloud_event = example(document, "CloudEvent")
    for body, kind in ((cloud_event, "cloudevents"), ([cloud_event], "cloudevents-batch")):
        sent = senders.ask("POST", "/v1/events", body, {"Content-Type": f"application/{kind}+json"})
        assert (sent.status_code, sent.json()["accepted"]) == (202, 1)
    attributes = {
        f"ce-{name}": cloud_event[name] for name in ("specversion", "id", "source", "type", "time", "subject")
    }
    assert senders.ask("POST", "/v1/events", cloud_event["data"], attributes).json()["duplicate"] == 1
    refused = senders.ask("POST", "/v1/events", [{"title": "no source"}])
    assert (refused.status_code, refused.json()["accepted"]) == (400, 0)
    assert senders.ask("POST", "/v1/devices/dev-1/heartbeat", example(document, "Heartbeat")).status_code == 202
    beat = {"instance_id": "0199", "sequence": 42, "observed_at": "2026-01-05T10:01:00Z", "status": "healthy"}
    further = {
        "last_activity_at": "2026-01-05T10:00:59Z",
        "counters": {"records": 118, "dropped": 0},
        "gateway_id": "gw",
    }
    assert senders.ask("POST", "/v1/devices/dev-1/heartbeat", beat | further).status_code == 202
    for body in (None, b"", {}):
        assert senders.ask("POST", "/v1/devices/dev-1/ping", body).status_code == 202
    assert senders.ask("POST", "/v1/devices", example(document, "NewDevice")).status_code == 202
    assert senders.ask("POST", "/v1/devices", {"device_id": " "}).status_code == 400


@pytest.mark.parametrize("kind", ["Allocation", "Metric"])
def test_unit_cost_of_senders_answers_as_described(gateway: GatewayPorts, kind: str) -> None:
    senders, document = gateway.senders, gateway_document()
    path, records = f"/v1/unit-cost/{kind.lower()}/{kind}", example(document, f"{kind}Records")
    for operation in ("sum", "replace"):
        sent = senders.ask("POST", f"{path}/{operation}", records, {"Idempotency-Key": operation})
        assert sent.json() == {"accepted": 1, "rejected": [], "duplicate": 0}
    again = senders.ask("POST", f"{path}/sum", records, {"Idempotency-Key": "sum"})
    assert again.json() == {"accepted": 1, "rejected": [], "duplicate": 1}
    assert senders.ask("POST", f"{path}/delete", example(document, f"{kind}Places")).status_code == 202
    assert senders.ask("POST", f"{path}-unknown/delete", example(document, f"{kind}Places")).status_code == 422
    assert senders.ask("POST", f"{path}/sum", {"records": [{}]}).status_code == 400


@pytest.mark.parametrize("base", ["/v1/unit-cost", "/unit-cost/v1/telemetry"])
def test_unit_cost_streams_answer_as_described(gateway: GatewayPorts, base: str) -> None:
    senders, document, name = gateway.senders, gateway_document(), f"of{base.replace('/', '-')}"
    shape, posted = example(document, "NewStream"), example(document, "PostedRecords")
    assert [senders.ask("PUT", f"{base}/{name}", shape).json()["duplicate"] for _ in range(2)] == [0, 1]
    assert senders.ask("PUT", f"{base}/{name}", {"kind": "metric"}).status_code == 409
    assert senders.ask("PUT", f"{base}/{name}", {}).status_code == 400
    for kind in ("Allocation", "Metric"):
        path = f"{base}/{kind.lower()}/{name}{'-days' * (kind == 'Metric')}"
        assert senders.ask("POST", path, example(document, f"{kind}Records")).status_code == 202
    assert senders.ask("POST", base, posted).status_code == 202
    assert senders.ask("POST", base, {"records": [{}]}).status_code == 400
    assert name in [each["name"] for each in senders.ask("GET", f"{base}?kind=allocation").json()["streams"]]
    assert senders.ask("GET", f"{base}/{name}").json()["stream"]["dimensions"] == ["custom:Product"]
    assert senders.ask("GET", f"{base}/none").status_code == 404
    assert senders.ask("DELETE", f"{base}/{name}").status_code == 409
    assert senders.ask("DELETE", f"{base}/{name}?force=true").status_code == 202
    assert senders.ask("DELETE", f"{base}/{name}").status_code == 404
    assert senders.ask("DELETE", f"{base}/{name}", credential=False).status_code == 401


def test_what_other_gateways_forward_is_answered_as_described(gateway: GatewayPorts) -> None:
    senders, document = gateway.senders, gateway_document()
    envelope = example(document, "ForwardedRecords")
    assert senders.ask("POST", "/v2/ai-telemetry/records", envelope).json() == {"accepted": 1, "rejected": []}
    assert senders.ask("POST", "/v2/ai-telemetry/records", {**envelope, "records": [{}]}).json()["rejected"]
    assert senders.ask("POST", "/v2/ai-telemetry/records", {}).status_code == 400
    assert senders.ask("POST", "/events/v1/events", example(document, "Event")).status_code == 202
    for kind in ("Allocation", "Metric"):
        path, records = f"/unit-cost/v1/telemetry/{kind.lower()}/fwd-{kind}", example(document, f"{kind}Records")
        batch = {"Idempotency-Key": "k", "X-Gateway-Id": "gw", "X-Batch-Id": kind}
        for duplicate in (0, 1):
            assert senders.ask("POST", f"{path}/sum", records, batch).json()["duplicate"] == duplicate
        assert senders.ask("POST", f"{path}/replace", records).status_code == 202
        assert senders.ask("POST", f"{path}/delete", example(document, f"{kind}Places")).status_code == 202
        assert senders.ask("POST", f"{path}-unknown/delete", example(document, f"{kind}Places")).status_code == 422
    devices = "/v2/ai-control-plane/devices"
    beat = example(document, "Heartbeat")
    assert senders.ask("POST", f"{devices}/forwarded/heartbeat", beat).status_code == 404
    assert senders.ask("POST", devices, {"device_id": "forwarded"}).status_code == 200
    assert senders.ask("POST", f"{devices}/forwarded/heartbeat", beat).status_code == 200
    assert senders.ask("POST", f"{devices}/forwarded/ping").status_code == 204
    assert senders.ask("GET", "/v2/insights?limit=1").status_code == 200
    assert senders.ask("HEAD", "/v2/insights").status_code == 200
    assert senders.ask("GET", "/v2/insights", credential=False).status_code == 401


@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda source: source.name)
def test_every_source_answers_as_described(gateway: GatewayPorts, source: Any) -> None:
    senders = gateway.senders
    key, base = senders.headers["Authorization"], f"/v1/sources/{source.name}"
    body = {"firehose": FIREHOSE, "langfuse": {"batch": []}, "json": {"id": "x"}}[source.answers]
    native = [path.replace("{connection_id}", "7") for path in source.native_paths]
    for path in (base, *(base + path for path in native), *native):
        for way in ("POST", "PUT"):
            assert senders.ask(way, path, body).status_code == {"langfuse": 207}.get(source.answers, 200)
        assert senders.ask("GET", path, credential=False).json() == {"ok": True}
        assert senders.ask("HEAD", path, credential=False).status_code == 200
    for way in ("POST", "PUT"):
        with_token = f"{base}/token/{quote(key)}"
        assert senders.ask(way, with_token, body, credential=False).is_success
        for signal in ("traces", "logs", "metrics"):
            assert senders.ask(way, f"{with_token}/v1/{signal}", {}, credential=False).status_code == 200
    assert senders.ask("GET", f"{base}/token/{quote(key)}", credential=False).is_success
    assert senders.ask("POST", base, body, credential=False).status_code == 401
    assert senders.ask("POST", base, body, {"Authorization": gateway.other_key}).status_code == 403
    assert senders.ask("POST", base, body, {"Content-Type": "multipart/form-data"}).status_code == 415
    assert senders.ask("POST", base, body, {"Content-Encoding": "gzip"}).status_code == 400


@pytest.mark.parametrize(
    "path",
    ["/v1/traces", "/v1/logs", "/v1/metrics", "/v1/events", "/v1/unit-cost/metric/m/sum", "/v1/devices/d/heartbeat"],
)
def test_refusals_of_senders_are_as_described(gateway: GatewayPorts, path: str) -> None:
    senders = gateway.senders
    assert senders.ask("POST", path, {}, credential=False).status_code == 401
    assert senders.ask("POST", path, {}, {"Authorization": gateway.other_key}).status_code == 403
    assert senders.ask("POST", path, b"{").status_code == 400
    assert senders.ask("POST", path, b"x", {"Content-Type": "text/plain"}).status_code == 415
    assert senders.ask("POST", path, b"x", {"Content-Encoding": "br"}).status_code == 415
    if "traces" in path:
        for status, headers in ((401, {}), (403, {"Authorization": gateway.other_key})):
            assert senders.ask("POST", path, b"", PROTOBUF | headers, credential=False).status_code == status


def test_a_body_that_is_too_large_is_refused_as_described(gateway: GatewayPorts) -> None:
    bomb = gzip.compress(bytes(65 * 1024 * 1024))
    for path in ("/v1/traces", "/v1/events", "/v1/devices/d/heartbeat", "/v1/sources/langfuse", "/v1/sources/bedrock"):
        assert gateway.senders.ask("POST", path, bomb, {"Content-Encoding": "gzip"}).status_code == 413


def test_a_key_over_its_quota_is_answered_as_described(gateway: GatewayPorts) -> None:
    limited = {"name": "limited", "managed": ["send-ai-telemetry"], "limits": {"requests_per_minute": 1}}
    secret = gateway.admin.ask("POST", "/v2/keys", limited).json()["secret"]
    senders = gateway.senders._replace(headers={"Authorization": secret})
    assert senders.ask("POST", "/v1/traces", {}).status_code == 200
    for path in ("/v1/traces", "/v1/sources/litellm", "/v1/sources/langfuse", "/v1/sources/bedrock"):
        refused = senders.ask("POST", path, {})
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1


# ---- admin


def test_health_and_figures_answer_as_described(gateway: GatewayPorts) -> None:
    admin = gateway.admin
    for path in ("/healthz", "/readyz", "/metrics", "/v2/status", "/login"):
        assert admin.ask("GET", path, credential=False).status_code == 200
        assert admin.ask("HEAD", path, credential=False).status_code == 200
    openmetrics = {"Accept": "application/openmetrics-text"}
    assert admin.ask("GET", "/metrics", headers=openmetrics).headers["Content-Type"].startswith("application/openm")
    assert admin.ask("GET", "/healthz", headers={"Host": "evil.example"}).status_code == 403
    assert admin.ask("GET", "/openapi.json").json() == gateway_document()
    assert admin.ask("GET", "/openapi.json", credential=False).status_code == 401


def test_the_page_and_its_doors_answer_as_described(gateway: GatewayPorts) -> None:
    admin = gateway.admin
    assert admin.ask("GET", "/v2/senders?limit=5").status_code == 200
    assert admin.ask("GET", "/v2/verdict").json()["state"] in {"well", "warnings", "faults"}
    assert admin.ask("GET", "/v2/senders?odd=1").status_code == 400
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    key = admin.ask("POST", "/v2/keys", {"name": "of the page", "managed": ["send-billing-data"]}).json()["id"]
    assert admin.ask("GET", f"/keys/{key}").status_code == 200
    assert admin.ask("GET", "/keys/none").status_code == 404
    assert [admin.ask("GET", f"/connect/{name}").status_code for name in ("litellm", "none")] == [200, 404]
    for view in VIEWS:
        assert "{" in view.path or admin.ask("GET", view.path).status_code == 200
    for asset in ASSETS.values():
        assert admin.ask("GET", asset.path, credential=False).status_code == 200
    assert admin.ask("GET", "/", credential=False).status_code == 401
    assert admin.ask("GET", "/", headers={"Accept": "text/html"}, credential=False).status_code == 401
    link = admin.ask("POST", "/v2/login-links").json()["path"]
    assert [admin.ask("GET", link, credential=False).status_code for _ in range(2)] == [303, 401]
    token = admin.headers["Authorization"]
    assert admin.ask("POST", "/login", f"token={token}".encode(), form, credential=False).status_code == 303
    assert admin.ask("POST", "/v2/login-links", {"role": "viewer"}).status_code == 201
    assert admin.ask("POST", "/v2/login-links", {"role": "nobody"}).status_code == 400
    assert admin.ask("POST", "/login", b"token=wrong", form, credential=False).status_code == 401
    admin.client.cookies.clear()
    assert admin.ask("POST", "/logout").status_code == 303


@pytest.mark.parametrize("keys", ["/v2/keys", "/v2/service/keys"])
def test_keys_answer_as_described(gateway: GatewayPorts, keys: str) -> None:
    admin, example_key = gateway.admin, example(gateway_document(), "NewKey")
    if keys != "/v2/keys":
        assert admin.ask("POST", keys, {"name": "everything", "scopes": [OTHER_SCOPE]}).status_code == 201
    made = admin.ask("POST", keys, example_key)
    assert made.status_code == 201
    path = f"{keys}/{made.json()['id']}"
    assert admin.ask("POST", keys, example_key).status_code == 409
    assert admin.ask("POST", keys, {"name": "x"}).status_code == 400
    assert admin.ask("GET", f"{keys}?status=Enabled&mode=managed&limit=1").json()["keys"]
    assert admin.ask("GET", f"{keys}?limit=0").status_code == 400
    assert admin.ask("GET", path).status_code == 200
    assert admin.ask("PATCH", path, example(gateway_document(), "KeyChange")).status_code == 200
    assert admin.ask("PATCH", path, {"name": "everything"}).status_code == 409
    assert admin.ask("PATCH", path, {}).status_code == 400
    for verb, status in (("disable", "Disabled"), ("enable", "Enabled")):
        assert admin.ask("POST", f"{path}/{verb}", {}).json()["status"] == status
        assert admin.ask("POST", f"{path}/{verb}", {"odd": 1}).status_code == 400
        assert admin.ask("POST", f"{keys}/none/{verb}").status_code == 404
    assert admin.ask("DELETE", path, {"name": "another"}).status_code == 400
    assert admin.ask("DELETE", path, {"name": example_key["name"]}).status_code == 200
    for method in ("GET", "PATCH", "DELETE"):
        gone = admin.ask(method, path, {"name": example_key["name"]} if method != "GET" else None)
        assert gone.status_code == 404
    assert admin.ask("GET", keys, credential=False).status_code == 401
    assert admin.ask("POST", keys, b'{"name": "' + bytes(300_000) + b'"}').status_code == 413


def test_devices_answer_as_described(gateway: GatewayPorts) -> None:
    admin, senders = gateway.admin, gateway.senders
    path = "/v2/devices/rack%2F1"
    assert senders.ask("POST", "/v1/devices", {"device_id": "rack/1", "labels": {"team": "core"}}).status_code == 202
    assert admin.ask("GET", "/v2/devices?state=pending&state=enrolled&state=enrolling&kind=workstation&limit=5").json()[
        "devices"
    ]
    assert admin.ask("GET", "/v2/devices?state=odd").status_code == 400
    assert admin.ask("GET", path).json()["labels"] == {"team": "core"}
    assert admin.ask("GET", "/devices/rack%2F1").status_code == 200
    assert admin.ask("GET", "/devices/none").status_code == 404
    assert admin.ask("POST", f"{path}/block", {}).json()["state"] == "blocked"
    assert senders.ask("POST", "/v1/devices/rack%2F1/ping", {}).status_code == 403
    assert admin.ask("POST", f"{path}/enroll").status_code == 400
    assert admin.ask("POST", f"{path}/unblock").json()["state"] == "pending"
    assert admin.ask("POST", f"{path}/unblock").status_code == 400
    enrolled = f"{path}/enroll"
    gateway.process.process.wait_until(
        lambda: admin.ask("GET", path).json()["state"] == "enrolled" or None, what="enrolled"
    )
    assert admin.ask("POST", enrolled).json()["epoch"] == 3
    assert admin.ask("POST", f"{path}/ping").json()["answer"] == "known"
    assert admin.ask("POST", "/v2/devices/enroll", {"all": True}).status_code == 200
    assert admin.ask("POST", "/v2/devices/enroll", {}).status_code == 400
    assert senders.ask("POST", "/v1/devices/rack%2F1/ping", {}).status_code == 202
    assert admin.ask("POST", f"{path}/forget").status_code == 200
    assert senders.ask("POST", "/v1/devices/rack%2F1/ping", {}).status_code == 404
    assert senders.ask("POST", "/v1/devices", {"device_id": "rack/1"}).status_code == 202
    assert admin.ask("DELETE", path).status_code == 200
    for method, of_it in (("GET", ""), ("DELETE", ""), ("POST", "/block"), ("POST", "/ping")):
        assert admin.ask(method, path + of_it).status_code == 404
    assert admin.ask("GET", "/v2/devices", credential=False).status_code == 401


def check_insights(port: Port, document: Json, other_key: str) -> None:
    """The same operations on both sides."""
    new = example(document, "NewInsight")
    made = port.ask("POST", "/v2/insights", new)
    assert made.status_code == 201
    path = f"/v2/insights/{made.json()['insight']['id']}"
    assert port.ask("POST", "/v2/insights", {"title": ""}).status_code == 400
    assert port.ask("GET", "/v2/insights?status=new&status=ignored&limit=1").json()["insights"]
    assert port.ask("GET", "/v2/insights?cursor=x").status_code == 400
    assert port.ask("GET", path).status_code == 200
    assert port.ask("PATCH", path, example(document, "InsightChange")).json()["insight"]["status"] == "in_progress"
    assert port.ask("PATCH", path, {}).status_code == 400
    comment = port.ask("POST", f"{path}/comments", example(document, "CommentBody"))
    assert comment.status_code == 201
    one = f"{path}/comments/{comment.json()['comment']['id']}"
    assert port.ask("POST", f"{path}/comments", {}).status_code == 400
    assert port.ask("PATCH", one, {"text": "another"}).status_code == 200
    assert port.ask("PATCH", one, {"text": " "}).status_code == 400
    assert port.ask("PATCH", f"{path}/comments/none", {"text": "x"}).status_code == 404
    assert port.ask("GET", f"{path}/comments").json()["comments"]
    assert port.ask("GET", f"{path}/comments?sort_key=x").status_code == 400
    assert port.ask("GET", path, headers={"Authorization": other_key}).status_code == 403
    assert port.ask("DELETE", path, credential=False).status_code == 401
    assert port.ask("DELETE", path).status_code == 204
    for method, gone, content in (
        ("GET", path, None),
        ("PATCH", path, {"status": "new"}),
        ("DELETE", path, None),
        ("GET", f"{path}/comments", None),
        ("POST", f"{path}/comments", {"text": "x"}),
    ):
        assert port.ask(method, gone, content).status_code == 404


def test_usage_answers_as_described(gateway: GatewayPorts) -> None:
    admin = gateway.admin
    assert admin.ask("GET", "/v2/usage?group_by=team,model&limit=1").status_code == 200
    assert admin.ask("GET", "/v2/usage?interval=day").status_code == 200
    compared = "compare=previous&time_zone=Europe/Berlin&range=this_month"
    assert admin.ask("GET", f"/v2/usage?group_by=team&{compared}").json()["previous"]["totals"] is None
    assert admin.ask("GET", f"/v2/billing/costs?interval=day&{compared}").status_code == 200
    assert [admin.ask("GET", f"/usage.{form}?{compared}").status_code for form in ("csv", "parquet")] == [200, 200]
    assert [admin.ask("GET", f"/usage.{form}?range=x").status_code for form in ("csv", "parquet")] == [400, 400]
    assert admin.ask("GET", "/v2/usage?interval=week").status_code == 400
    assert admin.ask("GET", "/v2/usage?interval=hour&from=2020-01-01").status_code == 400
    assert admin.ask("GET", "/v2/calls?limit=1").json()["pagination"]["cursor"]["has_previous"] is False
    assert admin.ask("GET", "/v2/calls?limit=0").status_code == 400
    accept = {"Accept": "application/json"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert admin.ask("POST", "/mcp", ping, accept).status_code == 200
    assert admin.ask("POST", "/mcp", [], accept).status_code == 400
    assert admin.ask("POST", "/v2/users/forget", {"user": "nobody", "dry_run": True}).status_code == 200
    assert admin.ask("POST", "/v2/users/forget", {}).status_code == 400


def test_viewer_tokens_answer_as_described(gateway: GatewayPorts) -> None:
    admin, path = gateway.admin, "/v2/viewer-tokens"
    made = admin.ask("POST", path, {"name": "leads", "limits": {"team": ["core"]}})
    assert made.status_code == 201
    assert admin.ask("POST", path, {"name": "leads"}).status_code == 409
    assert admin.ask("POST", path, {"name": "leads 2", "limits": {"user": ["x"]}}).status_code == 400
    assert admin.ask("GET", f"{path}?sort_key=created_at&name=leads").json()["viewer_tokens"]
    assert admin.ask("GET", f"{path}?sort_key=odd").status_code == 400
    limited = {"Authorization": made.json()["secret"]}
    assert admin.ask("GET", path, headers=limited).status_code == 403
    assert admin.ask("DELETE", f"{path}/{made.json()['id']}").status_code == 200
    assert admin.ask("DELETE", f"{path}/{made.json()['id']}").status_code == 404


def test_recommendations_answer_as_described(gateway: GatewayPorts) -> None:
    """There is none in the first day of a gateway."""
    admin, form = gateway.admin, {"Content-Type": "application/x-www-form-urlencoded"}
    assert admin.ask("GET", "/v2/recommendations?state=open&kind=reasoning").json()["recommendations"] == []
    assert admin.ask("GET", "/v2/recommendations?state=odd").status_code == 400
    assert admin.ask("GET", "/v2/recommendations/none").status_code == 404
    assert admin.ask("PATCH", "/v2/recommendations/none", {"state": "accepted"}).status_code == 404
    assert admin.ask("PATCH", "/v2/recommendations/none", {"state": "odd"}).status_code == 400
    assert admin.ask("GET", "/recommendations").status_code == 200
    assert admin.ask("POST", "/recommendations/none/state", b"state=accepted", form).status_code == 404


def test_views_answer_as_described(gateway: GatewayPorts) -> None:
    admin, new = gateway.admin, example(gateway_document(), "NewView")
    made = admin.ask("POST", "/v2/views", new)
    assert made.status_code == 201
    path = f"/v2/views/{made.json()['view']['id']}"
    assert admin.ask("POST", "/v2/views", new).status_code == 409
    assert admin.ask("POST", "/v2/views", {"name": ""}).status_code == 400
    assert admin.ask("GET", "/v2/views?sort_key=updated_at&limit=1").json()["views"]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    saved = [admin.ask("POST", "/usage/views?range=today&team=core", b"name=Saved", form).status_code for _ in range(2)]
    assert saved == [303, 409]
    assert admin.ask("GET", "/v2/views?sort_key=odd").status_code == 400
    assert admin.ask("GET", admin.ask("GET", path).json()["view"]["usage"]).status_code == 200
    assert admin.ask("PATCH", path, example(gateway_document(), "ViewChange")).json()["view"]["range"] == "last_month"
    assert admin.ask("PATCH", path, {}).status_code == 400
    assert admin.ask("GET", path.removeprefix("/v2")).status_code == 200
    assert admin.ask("GET", "/views/none").status_code == 404
    assert admin.ask("GET", path, headers={"Authorization": gateway.other_key}).status_code == 403
    assert admin.ask("DELETE", path).status_code == 204
    for method, content in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert admin.ask(method, path, content).status_code == 404


def test_costs_for_keys_answer_as_described(gateway: GatewayPorts) -> None:
    admin, own = gateway.admin, {"Authorization": gateway.senders.headers["Authorization"]}
    for path in (
        "/v2/billing/costs?group_by=team&limit=1",
        "/v2/billing/costs?interval=day",
        "/v2/billing/dimensions?name=team",
        "/v2/billing/resource-tags?limit=5",
    ):
        assert admin.ask("GET", path, headers=own).status_code == 200
        assert admin.ask("GET", path, headers={"Authorization": gateway.other_key}).status_code == 403
    assert admin.ask("GET", "/v2/billing/costs?group_by=odd").status_code == 400
    assert admin.ask("GET", "/v2/billing/dimensions?name=odd").status_code == 400


def test_allocation_answers_as_described(gateway: GatewayPorts) -> None:
    admin, own = gateway.admin, {"Authorization": gateway.senders.headers["Authorization"]}
    other, path = {"Authorization": gateway.other_key}, "/v2/allocation/definitions"
    body = example(gateway_document(), "NewDefinition")
    assert admin.ask("POST", path, body, headers=other).status_code == 403
    assert admin.ask("POST", path, {"target": "team"}).status_code == 400
    assert admin.ask("POST", path, body, headers=own).status_code == 201
    assert admin.ask("POST", path, body).status_code == 409
    versions = f"{path}/team/versions"
    assert admin.ask("POST", versions, example(gateway_document(), "NewVersion")).json()["definition"]["version"] == 2
    assert admin.ask("POST", f"{path}/none/versions", {"rules": []}).status_code == 404
    for asked in (path, versions, f"{versions}/1"):
        assert admin.ask("GET", asked, headers=own).status_code == 200
        assert admin.ask("GET", asked, headers=other).status_code == 403
    assert admin.ask("GET", f"{versions}/9").status_code == 404
    preview = "/v2/allocation/preview"
    assert admin.ask("POST", preview, example(gateway_document(), "Preview")).status_code == 200
    assert admin.ask("POST", preview, {"target": "team", "rules": [], "range": "never"}).status_code == 400
    assert admin.ask("POST", versions, {"rules": []}).status_code == 201
    assert [admin.ask("GET", f"/allocation/{each}").status_code for each in ("team", "none")] == [200, 404]
    assert admin.ask("GET", "/allocation/team?version=9").status_code == 404


def test_streams_for_operators_answer_as_described(gateway: GatewayPorts) -> None:
    admin, own = gateway.admin, {"Authorization": gateway.senders.headers["Authorization"]}
    assert gateway.senders.ask("PUT", "/v1/unit-cost/of-operators", {"kind": "metric"}).status_code == 202
    for path in ("/v2/unit-cost?kind=metric&limit=1", "/v2/unit-cost/of-operators"):
        assert admin.ask("GET", path).status_code == 200
        assert admin.ask("GET", path, headers=own).status_code == 200
        assert admin.ask("GET", path, headers={"Authorization": gateway.other_key}).status_code == 403
    assert admin.ask("GET", "/v2/unit-cost?kind=odd").status_code == 400
    assert admin.ask("GET", "/v2/unit-cost/none").status_code == 404


def test_budgets_answer_as_described(gateway: GatewayPorts) -> None:
    admin, new = gateway.admin, example(gateway_document(), "NewBudget")
    made = admin.ask("POST", "/v2/budgets", new)
    assert made.status_code == 201
    path = f"/v2/budgets/{made.json()['budget']['id']}"
    assert admin.ask("POST", "/v2/budgets", new).status_code == 409
    assert admin.ask("POST", "/v2/budgets", {"name": "x"}).status_code == 400
    assert admin.ask("GET", "/v2/budgets?period=month&currency=USD&sort_key=ratio&limit=1").json()["budgets"]
    assert admin.ask("GET", "/v2/budgets?period=odd").status_code == 400
    assert admin.ask("GET", path).status_code == 200
    assert admin.ask("GET", f"{path}/state").json()["state"]["hard_stop"] is False
    assert gateway.senders.ask("GET", f"{path}/state").status_code == 200
    assert gateway.senders.ask("GET", f"{path}/state", credential=False).status_code == 401
    assert admin.ask("PATCH", path, example(gateway_document(), "BudgetChange")).json()["budget"]["amount"] == "1500"
    assert admin.ask("PATCH", path, {}).status_code == 400
    assert admin.ask("GET", path.removeprefix("/v2")).status_code == 200
    assert admin.ask("GET", "/budgets/none").status_code == 404
    assert admin.ask("GET", path, headers={"Authorization": gateway.other_key}).status_code == 403
    assert admin.ask("DELETE", path).status_code == 204
    for method, of_it, content in (
        ("GET", "", None),
        ("GET", "/state", None),
        ("PATCH", "", {"amount": "1"}),
        ("DELETE", "", None),
    ):
        assert admin.ask(method, path + of_it, content).status_code == 404


def test_billing_answers_as_described(gateway: GatewayPorts) -> None:
    admin = gateway.admin
    assert admin.ask("GET", "/v2/billing?month=2026-01").json()["connection"] == "conn-1"
    assert admin.ask("GET", "/v2/billing?month=January").status_code == 400
    for dry_run in (True, False):
        sent = admin.ask("POST", "/v2/billing/send", {"month": "2026-01", "dry_run": dry_run})
        assert (sent.status_code, sent.json()["is_running"]) == (200, True)
    for month in ("2026-13", "9999-12"):
        assert admin.ask("POST", "/v2/billing/send", {"month": month}).status_code == 400


def test_insights_of_the_gateway_answer_as_described(gateway: GatewayPorts) -> None:
    check_insights(gateway.admin, gateway_document(), gateway.other_key)
    made = gateway.admin.ask("POST", "/v2/insights", example(gateway_document(), "NewInsight")).json()["insight"]["id"]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert gateway.admin.ask("GET", f"/insights/{made}").status_code == 200
    assert gateway.admin.ask("GET", "/insights/none").status_code == 404
    path = f"/insights/{made}/status"
    assert gateway.admin.ask("POST", path, b"status=ignored", form).status_code == 303
    assert gateway.admin.ask("POST", path, b"status=odd", form).status_code == 400
    assert gateway.admin.ask("POST", "/insights/none/status", b"status=new", form).status_code == 404


def test_insights_of_the_service_answer_as_described(service: ServicePort) -> None:
    check_insights(service.port, service_document(), service.other_key)


def test_dead_letters_answer_as_described(gateway: GatewayPorts) -> None:
    admin = gateway.admin
    letter = a_dead_letter(gateway)
    assert letter["reason"] == "too_deep"
    assert admin.ask("GET", f"/v2/dead-letters/{letter['id']}").json()["record"]["title"] == "deep"
    assert admin.ask("GET", "/v2/dead-letters/0").status_code == 404
    assert admin.ask("GET", f"/dead-letters/{letter['id']}").status_code == 200
    assert admin.ask("GET", "/dead-letters/0").status_code == 404
    assert admin.ask("GET", "/dead-letters?limit=0").status_code == 400
    assert admin.ask("GET", "/v2/dead-letters?lane=ai_telemetry&since=2h").json()["dead_letters"] == []
    assert admin.ask("GET", "/v2/dead-letters?sort_key=odd").status_code == 400
    assert admin.ask("POST", "/v2/dead-letters/replay", {"id": letter["id"]}).json()["replayed"] == {"usage_events": 1}
    assert admin.ask("POST", "/v2/dead-letters/replay", {"odd": 1}).status_code == 400
    assert admin.ask("POST", "/v2/dead-letters/drop", {}).status_code == 400
    a_dead_letter(gateway)
    assert admin.ask("POST", "/v2/dead-letters/drop", {"all": True}).json()["dropped"] >= 1
    assert admin.ask("POST", "/v2/replay", {"since": "1h"}).status_code == 200
    assert admin.ask("POST", "/v2/replay", {}).status_code == 400


def a_deep_event(gateway: GatewayPorts) -> None:
    """An event that the edge takes and the service does not."""
    deep: Json = {}
    for _ in range(25):
        deep = {"in": deep}
    event = {"title": "deep", "source": "test", "metadata": deep}
    assert gateway.senders.ask("POST", "/v1/events", event).status_code == 202


def a_dead_letter(gateway: GatewayPorts) -> Json:
    a_deep_event(gateway)

    def buried() -> Json | None:
        letters = gateway.admin.ask("GET", "/v2/dead-letters?lane=usage_events").json()["dead_letters"]
        return letters[-1] if letters else None

    return gateway.process.process.wait_until(buried, what="a dead letter")


def test_a_held_lane_answers_as_described(gateway: GatewayPorts) -> None:
    admin, events = gateway.admin, "/v2/lanes/usage_events/set-aside"
    assert admin.ask("POST", events).status_code == 409
    assert admin.ask("POST", "/v2/lanes/odd/set-aside").status_code == 404
    for _ in range(25):
        a_deep_event(gateway)

    def is_held() -> bool:
        return bool(gateway.process.status()["lanes"]["usage_events"]["state"] == "held")

    gateway.process.process.wait_until(is_held, timeout_s=60, what="a lane held by its brake")
    assert admin.ask("POST", events).json()["lane"] == "usage_events"
    gateway.process.wait_until_delivered("usage_events")
    assert admin.ask("POST", "/v2/dead-letters/drop", {"lane": "usage_events"}).json()["dropped"] >= 20


def test_the_spool_answers_as_described(gateway: GatewayPorts, tmp_path: Path) -> None:
    admin = gateway.admin
    assert admin.ask("POST", "/v2/spool/verify").json()["ok"] is True
    assert admin.ask("POST", "/v2/spool/acknowledge").json() == {"acknowledged": 0}
    copy = tmp_path / "spool.db"
    assert admin.ask("POST", "/v2/spool/backup", {"file": str(copy)}).status_code == 200
    assert copy.stat().st_size > 0
    assert admin.ask("POST", "/v2/spool/backup", {"file": "relative"}).status_code == 400
    staged = admin.ask("POST", "/v2/backup", {"work_dir": str(tmp_path)}).json()
    assert Path(staged["folder"], "spool.db").stat().st_size > 0
    assert admin.ask("POST", "/v2/backup", {"work_dir": "relative"}).status_code == 400


# ---- the service


def test_ai_telemetry_of_the_service_answers_as_described(service: ServicePort) -> None:
    port, record = service.port, example(service_document(), "Record")
    envelope = {"schema": "ai-telemetry/1", "batch_id": "b", "gateway_id": "g", "sent_at": "2026-01-05T10:00:05Z"}
    taken = port.ask("POST", "/v2/ai-telemetry/records", envelope | {"records": [record, {}]})
    assert (taken.status_code, taken.json()["accepted"], len(taken.json()["rejected"])) == (202, 1, 1)
    assert port.ask("POST", "/v2/ai-telemetry/records", envelope | {"records": [{}] * 1001}).status_code == 413
    assert port.ask("GET", "/v2/ai-telemetry/records?billed=true&sort_key=model").json()["records"] == [record]
    query = "group_by=provider,model,operation,kind,service_name,environment,user,team,project,device_id,key"
    assert port.ask("GET", f"/v2/ai-telemetry/summary?{query}&from=2026-01-01").json()["totals"]["calls"] == 1
    assert port.ask("GET", "/v2/ai-telemetry/summary?group_by=odd").status_code == 400
    assert port.ask("GET", "/openapi.json").json() == service_document()


def test_otlp_of_the_service_answers_as_described(service: ServicePort) -> None:
    port, path = service.port, "/v2/ai-telemetry/otlp/v1"
    spans = example(gateway_document(), "ExportTraces")
    bad = orjson.loads(orjson.dumps(spans).replace(b"5b8efff798038103d269b633813fc60c", b"0" * 32))
    assert port.ask("POST", f"{path}/traces", spans).json() == {}
    assert port.ask("POST", f"{path}/traces", bad).json()["partialSuccess"]["rejectedSpans"] == "1"
    assert port.ask("POST", f"{path}/logs", {}).json() == {}
    assert port.ask("POST", f"{path}/traces", EMPTY_OTLP, PROTOBUF).content == b""
    assert port.ask("POST", f"{path}/traces", b"\xff", PROTOBUF).status_code == 400
    assert port.ask("POST", f"{path}/traces", b"x", {"Content-Type": "text/plain"}).status_code == 415
    assert port.ask("POST", f"{path}/logs", bytes(17 << 20), PROTOBUF).status_code == 413


def test_events_and_devices_of_the_service_answer_as_described(service: ServicePort) -> None:
    port, document = service.port, service_document()
    assert port.ask("POST", "/events/v1/events", example(document, "Event")).status_code == 202
    assert port.ask("POST", "/events/v1/events", {"events": [{}] * 501}).status_code == 413
    assert len(port.ask("GET", "/events/v1/events").json()["events"]) == 1
    devices, enrolment = "/v2/ai-control-plane/devices", example(document, "Enrolment")
    assert [port.ask("POST", devices, enrolment).status_code for _ in range(2)] == [201, 200]
    assert port.ask("POST", devices, enrolment | {"enrollment_id": "other"}).status_code == 409
    beat, one = example(document, "Heartbeat"), f"{devices}/{enrolment['device_id']}"
    assert port.ask("POST", f"{one}/heartbeat", beat).status_code == 200
    assert port.ask("POST", f"{devices}/none/heartbeat", beat).status_code == 404
    assert port.ask("POST", f"{one}/ping").status_code == 204
    assert port.ask("POST", f"{devices}/none/ping").status_code == 404
    assert len(port.ask("GET", f"{devices}?kind=workstation&status=active").json()["devices"]) == 1


def test_unit_cost_of_the_service_answers_as_described(service: ServicePort) -> None:
    port, document = service.port, service_document()
    for kind, records, deleted in (("allocation", "AllocationRecords", 201), ("metric", "MetricRecords", 200)):
        base, body = f"/unit-cost/v1/telemetry/{kind}/of-{kind}", example(document, records)
        assert port.ask("POST", f"{base}/delete", body).status_code == 400
        for action in ("sum", "replace"):
            assert port.ask("POST", f"{base}/{action}", body).json() == {"records": 1}
        listed = port.ask("GET", f"/unit-cost/v1/telemetry/of-{kind}/records").json()["records"]
        assert [record["value"] for record in listed] == ["1200"]
        places = [{name: each for name, each in record.items() if name != "value"} for record in body["records"]]
        assert port.ask("POST", f"{base}/delete", {"records": places}).status_code == deleted
    assert port.ask("GET", "/unit-cost/v1/telemetry/none/records").status_code == 404


def test_streams_of_the_service_answer_as_described(service: ServicePort) -> None:
    port, document = service.port, service_document()
    streams, shape = "/unit-cost/v1/telemetry", example(document, "NewStream")
    assert [port.ask("PUT", f"{streams}/made", shape).status_code for _ in range(2)] == [201, 200]
    assert port.ask("PUT", f"{streams}/made", {"kind": "metric"}).status_code == 409
    assert port.ask("PUT", f"{streams}/made", {}).status_code == 400
    assert port.ask("POST", f"{streams}/allocation/made", example(document, "AllocationRecords")).status_code == 200
    assert port.ask("POST", f"{streams}/metric/days", example(document, "MetricRecords")).status_code == 200
    assert port.ask("POST", streams, example(document, "PostedRecords")).status_code == 200
    assert port.ask("GET", f"{streams}/metric/days").json()["records"]
    assert port.ask("GET", f"{streams}/metric/none").status_code == 404
    assert port.ask("GET", f"{streams}?kind=metric").json()["streams"]
    assert port.ask("GET", f"{streams}/made").json()["stream"] == {"name": "made", **shape, "records": 1}
    assert port.ask("DELETE", f"{streams}/made").status_code == 409
    assert port.ask("DELETE", f"{streams}/made?force=true").status_code == 204
    assert port.ask("GET", f"{streams}/made").status_code == 404
    assert port.ask("DELETE", f"{streams}/made").status_code == 404


@pytest.mark.parametrize("name", ["external", "anycost"])
def test_billing_drops_of_the_service_answer_as_described(service: ServicePort, name: str) -> None:
    port, document = service.port, service_document()
    connections = "/v2/connections/billing"
    made = port.ask("POST", connections, example(document, "NewBillingConnection") | {"id": name + "-1", "name": name})
    assert made.status_code == 201
    assert port.ask("POST", connections, {"id": name + "-1", "name": "again"}).status_code == 409
    base, one = f"{connections}/{name}", f"{connections}/{name}-1"
    drops = f"{base}/{name}-1/billing_drops"
    for format_ in ("BillingDrop", "FocusDrop"):
        body = example(document, format_)
        assert port.ask("POST", f"{base}/validate_billing_drop", body).json()["connection"]["month"] == "2026-01"
        assert port.ask("POST", drops, body).json()["connection"]["month"] == "2026-01"
    assert port.ask("POST", drops, {"month": "x"}).status_code == 400
    assert port.ask("POST", f"{base}/none/billing_drops", body).status_code == 404
    assert len(port.ask("GET", f"{drops}?sort_key=month&format=cbf&format=focus").json()["billing_drops"]) == 2
    assert len(port.ask("GET", f"{drops}/2026-01").json()["rows"]) == 1
    for path in (f"{base}/none/billing_drops", f"{base}/none/billing_drops/2026-01", f"{connections}/none"):
        assert port.ask("GET", path).status_code == 404
    assert port.ask("GET", f"{drops}/x").status_code == 400
    assert port.ask("GET", f"{connections}?status=active&sort_key=created_at").json()["connections"]
    paused = port.ask("PATCH", one, example(document, "BillingConnectionChange"))
    assert paused.json() == port.ask("GET", one).json()
    assert port.ask("POST", drops, body).status_code == 423
    assert port.ask("PATCH", one, {"name": "x"}).status_code == 400
    assert port.ask("PATCH", f"{connections}/none", {"status": "active"}).status_code == 404
    assert port.ask("DELETE", one).status_code == 204
    assert port.ask("DELETE", one).status_code == 404


def test_billing_drops_of_senders_answer_as_described(gateway: GatewayPorts) -> None:
    senders, admin, base = gateway.senders, gateway.admin, "/v2/connections/billing/external"
    drop = example(gateway_document(), "RelayedBillingDrop")
    assert senders.ask("POST", f"{base}/validate_billing_drop", drop).json()["connection"]["row_count"] == 1
    assert senders.ask("POST", f"{base}/validate_billing_drop", {}).status_code == 400
    assert senders.ask("POST", f"{base}/conn-1/billing_drops", drop).status_code == 409
    assert senders.ask("POST", f"{base}/none/billing_drops", drop).json()["connection"]["state"] == "waiting"
    keyed = {"Idempotency-Key": "drop 1"}
    waiting = senders.ask("POST", f"{base}/none/billing_drops", drop, keyed).json()["connection"]["drop_id"]
    assert senders.ask("POST", f"{base}/none/billing_drops", {**drop, "operation": "sum"}, keyed).status_code == 422
    assert admin.ask("GET", "/v2/billing/relayed?state=waiting&sort_key=connection").json()["relayed"][0]["id"]
    assert admin.ask("GET", "/v2/billing/relayed?state=odd").status_code == 400
    assert admin.ask("POST", f"/v2/billing/relayed/{waiting}/retry").status_code == 404
    assert admin.ask("DELETE", f"/v2/billing/relayed/{waiting}").status_code == 204
    assert admin.ask("DELETE", f"/v2/billing/relayed/{waiting}").status_code == 404
    refused = refused_drop(gateway, base)
    assert admin.ask("POST", f"/v2/billing/relayed/{refused}/retry").json() == {"id": refused, "state": "waiting"}


def refused_drop(gateway: GatewayPorts, base: str) -> str:
    """A day in two parts whose sums are not those of its manifest: the service knows that at the
    second.
    """
    content = {"name": "connections", "scopes": ["connections:create_billing"], "by": "ops@example.com"}
    key = gateway.admin.ask("POST", "/v2/service/keys", content).json()["secret"]
    established = httpx.post(
        f"{gateway.process.service_url}/v2/connections/billing",
        json={"id": "conn-2", "name": "of senders"},
        headers={"Authorization": key},
    )
    assert established.status_code == 201
    for part in (1, 2):
        taken = gateway.senders.ask("POST", f"{base}/conn-2/billing_drops", day_of(part=part, parts=2, row_count=9))
    listed = "/v2/billing/relayed?state=refused"
    found = gateway.process.process.wait_until(
        lambda: gateway.admin.ask("GET", listed).json()["relayed"] or None, timeout_s=30, what="refused"
    )
    assert found[0]["id"] == taken.json()["connection"]["drop_id"]
    return str(found[0]["id"])


SERVICE_OPERATIONS = [(method, path) for method, path, _ in operations(service_document())]


@pytest.mark.parametrize(("method", "path"), SERVICE_OPERATIONS, ids=lambda part: part.replace("/", " ").strip())
def test_refusals_of_the_service_are_as_described(service: ServicePort, method: str, path: str) -> None:
    port, asked = service.port, path.replace("{", "").replace("}", "")
    assert port.ask(method, asked, credential=False).status_code == 401
    bearer = {"Authorization": f"Bearer {port.headers['Authorization']}"}
    assert port.ask(method, asked, headers=bearer).status_code == 401
    if path == "/openapi.json":
        return
    assert port.ask(method, asked, headers={"Authorization": service.other_key}).status_code == 403
    if "requestBody" in service_document()["paths"][path][method.lower()]:
        assert port.ask(method, asked, b"{").status_code == 400
        assert port.ask(method, asked, b"{}", {"Content-Encoding": "br"}).status_code == 415


def test_what_a_gateway_delivers_is_a_record_as_described(gateway: GatewayPorts) -> None:
    gateway.senders.ask("POST", "/v1/traces", example(gateway_document(), "ExportTraces"))
    gateway.process.wait_until_delivered()
    described = Described(service_document())
    headers = {"Authorization": gateway.process.service_key()}
    embedded = Port(gateway.process.service_url, described, headers, gateway.admin.client)
    records = embedded.ask("GET", "/v2/ai-telemetry/records").json()["records"]
    assert records
    assert [described.schema_faults("Record", record) for record in records] == [[]] * len(records)


def test_a_call_that_settled_answers_as_described(gateway: GatewayPorts) -> None:
    """The records were delivered above, and are kept for a day."""
    admin = gateway.admin
    for each in admin.ask("GET", "/v2/calls?limit=3").json()["calls"]:
        assert admin.ask("GET", f"/v2/calls/{each['record_id']}").json()["call"]["record"]["schema"] == "inference/1"
        assert admin.ask("GET", f"/calls/{each['record_id']}").status_code == 200
    for path in ("/v2/calls/none", "/calls/none"):
        assert admin.ask("GET", path).status_code == 404
    assert admin.ask("GET", "/v2/calls/none?cursor=x").status_code == 400


# ---- HEAD


def answered(port: Port, method: str, path: str, headers: Mapping[str, str]) -> tuple[str, list[str], int]:
    """Status line, headers but for the time and cookies, and the bytes that came as a body."""
    host = urlsplit(port.url).netloc
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if "Host" not in headers:
        lines.append(f"Host: {host}")
    with socket.create_connection((urlsplit(port.url).hostname, urlsplit(port.url).port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        came = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = came.partition(b"\r\n\r\n")
    status, *rest = head.decode().split("\r\n")
    return status, sorted(line for line in rest if not line.lower().startswith(("date:", "set-cookie:"))), len(body)


@pytest.mark.parametrize("listener", ["senders", "admin", "service"])
def test_head_is_answered_as_get_without_the_body(gateway: GatewayPorts, service: ServicePort, listener: str) -> None:
    port = {"senders": gateway.senders, "admin": gateway.admin, "service": service.port}[listener]
    document = service_document() if listener == "service" else gateway_document()
    for path in sorted({*document["paths"], "/", "/no/such/path"} - {"/v2/tap"}):  # which does not end
        asked = re.sub(r"\{\w+\}", "none", path)
        for headers in (port.headers, {}, {"Host": "evil.example"}):
            get, head = (answered(port, method, asked, headers) for method in ("GET", "HEAD"))
            # Their lengths follow from what was asked before.
            if "/metrics" not in path and path not in ("/", "/v2/status", "/v2/verdict", "/v2/senders", "/senders"):
                assert head[:2] == get[:2], asked
            assert (head[0], head[2]) == (get[0], 0), asked


def test_head_does_not_use_up_a_one_time_link(gateway: GatewayPorts) -> None:
    admin = gateway.admin
    link = admin.ask("POST", "/v2/login-links").json()["path"]
    asked = [admin.client.request(method, admin.url + link) for method in ("HEAD", "HEAD", "GET", "HEAD", "GET")]
    assert [response.status_code for response in asked] == [303, 303, 303, 401, 401]
    assert ["set-cookie" in response.headers for response in asked] == [False, False, True, False, False]


# ---- all of it; last, so that what the tests above asked counts


def test_every_operation_was_met_with_its_success(gateway: GatewayPorts, service: ServicePort) -> None:
    elsewhere = {("GET", "/v2/tap"), ("GET", "/login/oidc"), ("GET", "/login/callback")}  # test_tap.py, test_oidc.py
    one = "/v2/recommendations/{recommendation_id}"  # tests/unit/operate/test_recommendations.py
    later = {("GET", one), ("PATCH", one)}
    assert unmet(gateway.admin.described, gateway_document(), ("4318", "4319")) == elsewhere | later
    assert unmet(service.port.described, service_document(), ("4320",)) == set()
