"""The commands that make limited keys and viewers' tokens, with and without a running gateway."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess

READS = ("--scope", "billing:read_costs")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("viewers")) as running:
        yield running


def status_of(gateway: GatewayProcess, path: str, credential: str) -> int:
    request = urllib.request.Request(gateway.admin_url + path, None, {"Authorization": credential})
    try:
        with urllib.request.urlopen(request) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_token_is_made_listed_used_and_revoked(gateway: GatewayProcess) -> None:
    made = run_command(
        gateway, "viewer-tokens", "create", "Checkout leads", "--team", "checkout", "--team", "cart", "--tag",
        "feature=search", "--by", "ops@example.com",
    )  # fmt: skip
    assert made.code == 0, made.err
    secret = made.out.strip()
    assert secret.startswith("tgv_")
    assert secret not in made.err
    assert status_of(gateway, "/v2/usage", secret) == 200
    assert status_of(gateway, "/v2/devices", secret) == 403
    everything = run_command(gateway, "viewer-tokens", "create", "auditors", "--json").json
    assert everything["limits"] == {}
    assert status_of(gateway, "/v2/devices", everything["secret"]) == 200
    assert status_of(gateway, "/v2/keys", everything["secret"]) == 403, "a viewer reads no keys"
    listed = run_command(gateway, "viewer-tokens", "list")
    assert "tag:feature search, team cart or checkout" in " ".join(listed.out.split())
    assert secret not in listed.out
    found = run_command(gateway, "viewer-tokens", "list", "--json").json["viewer_tokens"]
    assert [each["name"] for each in found] == ["Checkout leads", "auditors"]
    assert found[0]["created_by"] == "ops@example.com"
    assert run_command(gateway, "viewer-tokens", "revoke", "Checkout leads").code == 0
    assert run_command(gateway, "viewer-tokens", "revoke", everything["id"]).code == 0
    for revoked in (secret, everything["secret"]):
        assert status_of(gateway, "/v2/usage", revoked) == 401
    again = run_command(gateway, "viewer-tokens", "revoke", "Checkout leads")
    assert (again.code, "no viewer token has this id" in again.err) == (1, True)


def test_a_key_is_limited_and_is_so_no_more(gateway: GatewayProcess) -> None:
    limited = ("--team", "checkout", "--project", "web", "--tag", "feature=search")
    key = run_command(gateway, "keys", "create", "--name", "reader", *READS, *limited, "--json").json
    seen = {"team": ["checkout"], "project": ["web"], "tag:feature": ["search"]}
    assert {name: key["limits"][name] for name in seen} == seen
    assert status_of(gateway, "/v2/billing/costs", key["secret"]) == 200
    assert status_of(gateway, "/v2/billing/costs?team=other", key["secret"]) == 403
    assert "team checkout" in run_command(gateway, "keys", "list").out
    edited = run_command(gateway, "keys", "edit", "reader", "--sees-all", "--team", "other", "--json").json
    assert edited["limits"] == {"requests_per_minute": None, "bytes_per_minute": None, "team": ["other"]}
    edited = run_command(gateway, "keys", "edit", "reader", "--sees-all", "--json").json
    assert edited["limits"] == {"requests_per_minute": None, "bytes_per_minute": None}
    assert status_of(gateway, "/v2/billing/costs?team=other", key["secret"]) == 200
    refused = run_command(gateway, "keys", "create", "--service", "--name", "of service", *READS, "--team", "checkout")
    assert (refused.code, "local service" in refused.err) == (1, True)
    wrong = run_command(gateway, "keys", "create", "--name", "wrong", *READS, "--tag", "No Tag=x")
    assert (wrong.code, "limits: an object of" in wrong.err) == (1, True)


def test_a_stopped_gateway_has_them_in_its_files(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        gateway.stop()
        made = run_command(gateway, "viewer-tokens", "create", "leads", "--team", "checkout", "--json")
        assert made.code == 0, made.err
        assert json.loads(made.out)["limits"] == {"team": ["checkout"]}
        assert "leads" in run_command(gateway, "viewer-tokens", "list").out
