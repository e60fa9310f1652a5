"""The Helm chart, rendered as several installations: each configuration is one that the gateway
takes, each container keeps to the restricted profile. `python -m tests.install helm` holds the
manifests against the Kubernetes schemas.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gateway.cli.main import main
from gateway.config.loader import load_config
from tests.support.programs import needs_program

CHART = Path(__file__).parents[3] / "deploy/helm/telemetry-gateway"
KUBERNETES = "1.31.0"
HUB = {
    "upstream": {
        "base_url": "https://hub.example",
        "keys": [{"name": "hub", "secret": "${env:HUB}", "scopes": ["events_v1:create_event"]}],
    }
}
INSTALLATIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "with secrets": {"existingSecret": "upstream", "senderKey": {"existingSecret": "senders"}, "serviceMonitor": {"enabled": True, "tokenSecret": {"name": "metrics"}}},
    "existing claim": {"persistence": {"existingClaim": "kept"}, "networkPolicy": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}},
    "daemonset": {"mode": "daemonset", "config": HUB, "existingSecret": "hub", "hostPath": "/var/lib/telemetry-gateway"},
    "sidecar": {"mode": "sidecar", "config": HUB},
}  # fmt: skip

needs_helm = needs_program("helm", get="minutes of `go install`; `python -m tests.install helm` is the whole check")


def rendered(tmp_path: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    (tmp_path / "values.json").write_text(json.dumps(values))
    command = [
        "helm",
        "template",
        "t",
        CHART,
        "--namespace",
        "ai",
        "--kube-version",
        KUBERNETES,
        "-f",
        tmp_path / "values.json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def pods(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (one["spec"]["template"]["spec"] for one in documents if one["kind"] in {"StatefulSet", "DaemonSet"})


def test_the_chart_s_own_values_keep_to_its_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate(values, schema)
    for installation in INSTALLATIONS.values():
        jsonschema.validate(installation, schema)
    with pytest.raises(jsonschema.ValidationError, match="repilcas"):
        jsonschema.validate({"repilcas": 3}, schema)


@needs_helm
@pytest.mark.parametrize("name", INSTALLATIONS)
def test_each_installation_runs_the_gateway_by_a_configuration_that_it_takes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB", "a-secret-of-the-hub")
    documents = rendered(tmp_path, INSTALLATIONS[name])
    (config,) = (one["data"]["gateway.yaml"] for one in documents if one["kind"] == "ConfigMap")
    (tmp_path / "gateway.yaml").write_text(config)
    loaded = load_config(tmp_path / "gateway.yaml", {})
    assert str(loaded.data_dir) == "/var/lib/telemetry-gateway/data"
    assert loaded.profile == ("server" if any(one["kind"] == "StatefulSet" for one in documents) else "device")
    for pod in pods(documents):
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            parse(container["args"])


def parse(arguments: list[str]) -> None:
    """Raises UsageError for an option that the program has not."""
    group: Any = main
    while (name := arguments[0]) in getattr(group, "commands", {}):
        group, arguments = group.commands[name], arguments[1:]
        if not hasattr(group, "commands"):
            break
    arguments = [one for one in arguments if not one.startswith("--secret-file=")]  # it would be opened
    group.make_context("it", list(arguments))


@needs_helm
@pytest.mark.parametrize("name", ["defaults", "with secrets", "existing claim", "daemonset"])
def test_each_container_keeps_to_the_restricted_profile(name: str, tmp_path: Path) -> None:
    (pod,) = pods(rendered(tmp_path, INSTALLATIONS[name]))
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        rights = container["securityContext"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert rights["readOnlyRootFilesystem"]
        assert not rights["allowPrivilegeEscalation"]
        named = {volume["name"] for volume in pod["volumes"]} | (
            {"data"} if name in {"defaults", "with secrets"} else set()
        )
        assert {mount["name"] for mount in container["volumeMounts"]} <= named


@needs_helm
def test_a_mode_that_forwards_names_the_value_that_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"set config\.upstream\.base_url"):
        rendered(tmp_path, {"mode": "daemonset"})
