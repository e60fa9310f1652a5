"""The Helm chart, rendered as several installations: each configuration is one that the gateway
takes, each container keeps to the restricted profile, whatever a pod mounts is there.

`python -m tests.install helm` holds the manifests against the Kubernetes schemas; `tests.install
chart` starts the image as they state.
"""

import base64
import json
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gateway.access.key import legacy_fault
from gateway.app.cell.secrets import MIN_CHARS
from gateway.cli.main import main
from gateway.config.environment import misspelt_texts
from gateway.config.loader import load_config
from gateway.config.model import Store, config_schema
from gateway.operate.session import TOKEN_FORM
from tests.support.kubernetes import KubernetesApi
from tests.support.programs import needs_program

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy/helm/telemetry-gateway"
HUB = {
    "upstream": {
        "base_url": "https://hub.example",
        "keys": [{"name": "hub", "secret": "${env:HUB}", "scopes": ["events_v1:create_event"]}],
    }
}
DATABASE = {"store": {"dsn": "host=db1,db2 dbname=telemetry user=gateway sslmode=verify-full"}}
INSTALLATIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "monitored": {"serviceMonitor": {"enabled": True}, "networkPolicy": {"senderNamespaces": ["apps", "ai"], "operatorNamespaces": ["monitoring"]}},
    "with secrets": {"existingSecret": "upstream", "senderKey": {"existingSecret": "senders"}, "serviceMonitor": {"enabled": True, "tokenSecret": {"name": "metrics"}}},
    "own key alone": {"senderKey": {"existingSecret": "senders", "key": "theirs"}},
    "open": {"config": {"auth": "none"}},
    "existing claim": {"persistence": {"existingClaim": "kept"}, "networkPolicy": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}},
    "daemonset": {"mode": "daemonset", "config": HUB, "existingSecret": "hub"},
    "folder of a node": {"mode": "daemonset", "config": HUB, "existingSecret": "hub", "hostPath": "/var/lib/telemetry-gateway"},
    "edges": {"mode": "edges", "config": HUB, "existingSecret": "hub", "edges": {"replicas": 5}},
    "cell": {"mode": "cell", "config": {**HUB, **DATABASE}, "existingSecret": "hub", "cell": {"replicas": 5, "database": {"existingSecret": "database"}}},
    "cell with secrets": {"mode": "cell", "config": HUB, "cell": {"database": {"existingSecret": "database", "dsnKey": "dsn"}, "secret": {"existingSecret": "cell", "key": "theirs"}}, "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}], "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}], "networkPolicy": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}},
    "cell without a password": {"mode": "cell", "config": {**HUB, **DATABASE}, "serviceMonitor": {"enabled": True}},
    "sidecar": {"mode": "sidecar", "config": HUB},
}  # fmt: skip
GIVEN = {"upstream", "senders", "metrics", "hub", "database", "cell"}
"""Secrets that the installations above name as there already."""

WORKLOADS = {"StatefulSet", "DaemonSet", "Deployment"}

needs_helm = needs_program("helm", get="minutes of `go install`; `python -m tests.install helm` is the whole check")


def template(*arguments: object) -> list[dict[str, Any]]:
    """What `helm template` renders. Raises AssertionError with its words where it refuses."""
    done = subprocess.run(["helm", "template", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def rendered(tmp_path: Path, values: dict[str, Any], *arguments: object) -> list[dict[str, Any]]:
    (tmp_path / "values.json").write_text(json.dumps(values))
    return template("t", CHART, "--namespace", "ai", "-f", tmp_path / "values.json", *arguments)


def pods(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (one["spec"]["template"]["spec"] for one in documents if one["kind"] in WORKLOADS)


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def of_kind(documents: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (one for one in documents if one["kind"] == kind)
    return found


def made_secrets(documents: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Name -> entry -> text."""
    return {
        one["metadata"]["name"]: {entry: base64.b64decode(text).decode() for entry, text in one["data"].items()}
        for one in documents
        if one["kind"] == "Secret"
    }


# ---- values


def test_the_chart_s_own_values_keep_to_its_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate(values, schema)
    for installation in INSTALLATIONS.values():
        jsonschema.validate(installation, schema)


def test_the_schema_has_every_value_and_every_group_of_options() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}
    assert set(schema["properties"]["config"]["properties"]) == set(config_schema()["properties"])


WRONG = {
    "repilcas": ({"repilcas": 3}, "additional properties 'repilcas' not allowed"),
    "mode": (
        {"mode": "deployment"},
        "at '/mode': value must be one of 'statefulset', 'edges', 'cell', 'daemonset', 'sidecar'",
    ),
    "key": ({"senderKey": {"kye": "x"}}, "at '/senderKey': additional properties 'kye' not allowed"),
    "option": ({"config": {"upstraem": {}}}, "at '/config': additional properties 'upstraem' not allowed"),
    "namespace": ({"networkPolicy": {"senderNamespaces": ["Apps"]}}, "at '/networkPolicy/senderNamespaces/0': 'Apps'"),
    "token": ({"config": {"metrics_token": "x"}}, "name the Secret that holds the token in serviceMonitor.tokenSecret"),
    "claim": (
        {"mode": "edges", "config": HUB, "persistence": {"existingClaim": "kept"}},
        "each edge has a volume of its own",
    ),
    "database": (
        {"mode": "cell", "config": HUB},
        "mode cell keeps everything in a Postgres of yours: set config.store.dsn",
    ),
    "upstream of a cell": (
        {"mode": "cell", "config": DATABASE},
        "mode cell has no local service: set config.upstream.base_url",
    ),
    "folder of a cell": (
        {"mode": "cell", "config": {**HUB, **DATABASE}, "hostPath": "/var/lib/x"},
        "a cell keeps everything in Postgres",
    ),
    "hub of edges": ({"mode": "edges"}, "mode edges forwards to another gateway: set config.upstream.base_url"),
    "hub": ({"mode": "daemonset"}, "mode daemonset forwards to another gateway: set config.upstream.base_url"),
}


@needs_helm
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_named(name: str, tmp_path: Path) -> None:
    values, said = WRONG[name]
    with pytest.raises(AssertionError) as refused:
        rendered(tmp_path, values)
    assert said in str(refused.value)


def test_chart_and_compose_have_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    example = yaml.safe_load((ROOT / "tests/install/sidecar-chart/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert example["dependencies"][0]["version"] == version
    assert f"telemetry-gateway:${{GATEWAY_VERSION:-{version}}}" in (ROOT / "deploy/compose/compose.yaml").read_text()


# ---- what runs


@needs_helm
def test_the_chart_is_rendered_without_any_flag() -> None:
    assert {one["kind"] for one in template(CHART)} == {
        "ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Secret", "Service", "ServiceAccount", "StatefulSet",
    }  # fmt: skip


@needs_helm
@pytest.mark.parametrize("name", INSTALLATIONS)
def test_each_installation_runs_the_gateway_by_a_configuration_that_it_takes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB", "a-secret-of-the-hub")
    documents = rendered(tmp_path, INSTALLATIONS[name])
    (tmp_path / "gateway.yaml").write_text(of_kind(documents, "ConfigMap")["data"]["gateway.yaml"])
    environ = environment_of(next(pods(documents), None))
    loaded = load_config(tmp_path / "gateway.yaml", environ=environ, has_secrets=False)
    assert str(loaded.data_dir) == "/var/lib/telemetry-gateway/data"
    assert loaded.profile == ("device" if INSTALLATIONS[name].get("mode") in {"daemonset", "sidecar"} else "server")
    assert misspelt_texts(environ) == []
    load_config(None, environ=environ, has_secrets=False)  # of a command in the pod that names no file
    for pod in pods(documents):
        for container in containers(pod):
            if "command" not in container:
                parse(container["args"])


def environment_of(pod: dict[str, Any] | None) -> dict[str, str]:
    """Of the gateway; what comes from a Secret or the pod itself is made up."""
    made_up = {"POD_IP": "10.1.2.3", "DATABASE_DSN": "host=db"}
    env = [] if pod is None else pod["containers"][0].get("env", [])
    return {each["name"]: each.get("value", made_up[each["name"]] if "valueFrom" in each else "").replace("$(POD_IP)", made_up["POD_IP"]) for each in env}  # fmt: skip


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
@pytest.mark.parametrize("name", INSTALLATIONS)
def test_each_container_keeps_to_the_restricted_profile(name: str, tmp_path: Path) -> None:
    """But the one that readies the folder of a node, which no namespace of that profile admits."""
    for pod in pods(rendered(tmp_path, INSTALLATIONS[name])):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod["automountServiceAccountToken"]
        for container in containers(pod):
            rights = container["securityContext"]
            is_of_root = container["name"] == "data-folder"
            added = {"add": ["CHOWN", "FOWNER"]} if is_of_root else {}
            assert rights["capabilities"] == {"drop": ["ALL"], **added}
            assert ("runAsUser" in rights) == is_of_root == (container["name"] == "data-folder")
            assert rights["readOnlyRootFilesystem"]
            assert not rights["allowPrivilegeEscalation"]
        assert ("data-folder" in {one["name"] for one in containers(pod)}) == (name == "folder of a node")


@needs_helm
@pytest.mark.parametrize("name", INSTALLATIONS)
def test_whatever_a_pod_mounts_is_there(name: str, tmp_path: Path) -> None:
    documents = rendered(tmp_path, INSTALLATIONS[name])
    made = made_secrets(documents)
    for document in documents:
        if document["kind"] not in WORKLOADS:
            continue
        pod = document["spec"]["template"]["spec"]
        claims = document["spec"].get("volumeClaimTemplates", [])
        volumes = {one["name"]: one for one in pod["volumes"]} | {one["metadata"]["name"]: one for one in claims}
        mounted = {mount["name"] for container in containers(pod) for mount in container["volumeMounts"]}
        assert mounted == set(volumes), "a volume that none mounts is as wrong"
        for secret in (volume["secret"] for volume in pod["volumes"] if "secret" in volume):
            entries = {item["key"] for item in secret["items"]}
            assert secret["secretName"] in GIVEN or entries <= set(made[secret["secretName"]])


@needs_helm
def test_edges_are_several_gateways_with_a_volume_and_one_configuration_each_and_clients_stay_at_one(
    tmp_path: Path,
) -> None:
    documents = rendered(tmp_path, INSTALLATIONS["edges"])
    spec = of_kind(documents, "StatefulSet")["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"]) == (5, "Parallel")
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["data"]
    service = of_kind(documents, "Service")["spec"]
    assert service["sessionAffinity"] == "ClientIP"
    assert service["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"] == 10800
    (pod,) = pods(documents)
    (spread,) = pod["topologySpreadConstraints"]
    labels = spec["template"]["metadata"]["labels"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    assert {one["name"] for one in pod["initContainers"]} == {"sender-key"}, "each takes the same key of senders"
    assert of_kind(documents, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    config = yaml.safe_load(of_kind(documents, "ConfigMap")["data"]["gateway.yaml"])
    assert config["unit_cost"] == {"operation": "sum"}, "the totals of one edge must not replace those of another"
    assert (config["upstream"]["sum_retry"], config["upstream"]["knows_event_ids"]) == ("at_least_once", True)
    assert config["upstream"]["base_url"] == HUB["upstream"]["base_url"]


# ---- a cell


@needs_helm
def test_a_cell_is_several_gateways_without_a_volume_that_are_replaced_one_at_a_time(tmp_path: Path) -> None:
    documents = rendered(tmp_path, INSTALLATIONS["cell"])
    spec = of_kind(documents, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]) == (5, {"maxSurge": 1, "maxUnavailable": 0})
    assert spec["minReadySeconds"] > Store().lease_s, "the next pod is stopped when the cell has an owner again"
    (pod,) = pods(documents)
    (data,) = (volume for volume in pod["volumes"] if volume["name"] == "data")
    assert data == {"name": "data", "emptyDir": {}}
    labels = spec["template"]["metadata"]["labels"]
    for spread in pod["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    assert [each["topologyKey"] for each in pod["topologySpreadConstraints"]] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    budget = of_kind(documents, "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["selector"]) == (1, spec["selector"])
    assert "sessionAffinity" not in of_kind(documents, "Service")["spec"], "any gateway takes any request"


@needs_helm
def test_a_gateway_of_a_cell_is_found_by_the_others_at_the_address_of_its_pod(tmp_path: Path) -> None:
    """Whatever the database sees of it: a node's address, or that of a pooler."""
    documents = rendered(tmp_path, INSTALLATIONS["cell"])
    (pod,) = pods(documents)
    (tmp_path / "gateway.yaml").write_text(of_kind(documents, "ConfigMap")["data"]["gateway.yaml"])
    internal = load_config(tmp_path / "gateway.yaml", environ=environment_of(pod), has_secrets=False).store.internal
    assert (str(internal.http), str(internal.admin)) == ("10.1.2.3:4321", "10.1.2.3:4322")
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert (ports["cell-http"], ports["cell-admin"]) == (4321, 4322)
    assert not {"cell-http", "cell-admin"} & {port["name"] for port in of_kind(documents, "Service")["spec"]["ports"]}


@needs_helm
@pytest.mark.parametrize("name", ["cell", "cell with secrets"])
def test_only_pods_of_the_release_reach_the_internal_ports(name: str, tmp_path: Path) -> None:
    documents = rendered(tmp_path, INSTALLATIONS[name])
    itself = [{"podSelector": of_kind(documents, "Deployment")["spec"]["selector"]}]
    assert admitted(documents, "cell-http") == admitted(documents, "cell-admin") == itself
    egress = of_kind(documents, "NetworkPolicy")["spec"]["egress"]
    assert {} in egress or itself in [rule.get("to") for rule in egress], "what others may be asked is open, or named"


@needs_helm
def test_the_database_s_password_and_dsn_are_in_no_configuration_but_in_their_secret(tmp_path: Path) -> None:
    documents = rendered(tmp_path, INSTALLATIONS["cell with secrets"])
    store = yaml.safe_load(of_kind(documents, "ConfigMap")["data"]["gateway.yaml"])["store"]
    assert store == {
        "type": "postgres",
        "dsn": "${env:DATABASE_DSN}",
        "password": "${file:/run/secrets/database/password}",
        "secret": "${file:/run/secrets/cell/secret}",
    }
    (pod,) = pods(documents)
    mounted = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    assert mounted["database"] == {"secretName": "database", "items": [{"key": "password", "path": "password"}]}
    assert mounted["cell"] == {"secretName": "cell", "items": [{"key": "theirs", "path": "secret"}]}
    for container in containers(pod):  # the one that takes the key of senders asks the database, too
        (dsn,) = (each for each in container["env"] if each["name"] == "DATABASE_DSN")
        assert dsn["valueFrom"] == {"secretKeyRef": {"name": "database", "key": "dsn"}}
        assert {"name": "database", "mountPath": "/run/secrets/database", "readOnly": True} in container["volumeMounts"]
        assert {"name": "ca", "mountPath": "/ca"} in container["volumeMounts"], "of the database's certificate"


@needs_helm
def test_without_a_secret_of_the_database_no_password_is_asked_for(tmp_path: Path) -> None:
    documents = rendered(tmp_path, INSTALLATIONS["cell without a password"])
    store = yaml.safe_load(of_kind(documents, "ConfigMap")["data"]["gateway.yaml"])["store"]
    assert store == {**DATABASE["store"], "type": "postgres", "secret": "${file:/run/secrets/cell/secret}"}


# ---- the keys


@needs_helm
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("defaults", {"sender-key", "metrics-token"}),
        ("own key alone", {"metrics-token"}),
        ("open", {"metrics-token"}),
        ("with secrets", set()),
        ("daemonset", {"sender-key", "metrics-token"}),
        ("cell", {"sender-key", "metrics-token", "cell-secret"}),
        ("cell with secrets", {"sender-key", "metrics-token"}),
        ("sidecar", set()),
    ],
)
def test_a_key_that_is_needed_and_not_given_is_made(name: str, made: set[str], tmp_path: Path) -> None:
    secrets = made_secrets(rendered(tmp_path, INSTALLATIONS[name]))
    assert {entry for entries in secrets.values() for entry in entries} == made
    for entry, text in secrets.get("t-telemetry-gateway-keys", {}).items():
        assert legacy_fault(text) is None if entry == "sender-key" else TOKEN_FORM.fullmatch(text)
        assert len(text) >= MIN_CHARS, "store.secret takes no shorter one"
        assert len(set(text)) > 10, "it is drawn"


@needs_helm
def test_two_installations_have_two_keys(tmp_path: Path) -> None:
    first, second = (made_secrets(rendered(tmp_path, {}))["t-telemetry-gateway-keys"] for _ in range(2))
    assert len({*first.values(), *second.values()}) == 4


@needs_helm
def test_an_upgrade_keeps_the_keys_and_makes_what_is_new(tmp_path: Path) -> None:
    """`lookup` asks the cluster for them."""
    kept = base64.b64encode(b"the-key-of-the-first-installation").decode()
    name = "t-telemetry-gateway-keys"
    with KubernetesApi(tmp_path, {("ai", name): {"sender-key": kept, "cell-secret": kept}}) as api:
        documents = rendered(tmp_path, INSTALLATIONS["cell"], "--dry-run=server", "--kubeconfig", api.kubeconfig)
    made = made_secrets(documents)[name]
    assert made["sender-key"] == made["cell-secret"] == "the-key-of-the-first-installation"
    assert len(made["metrics-token"]) == 48
    assert of_kind(documents, "Secret")["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


@needs_helm
@pytest.mark.parametrize(
    ("operators", "by"),
    [
        ([], "helm"),
        (["ops@example.com", "other@example.com"], "ops@example.com"),
        ([{"email": "sees@example.com", "role": "viewer"}, {"email": "may@example.com"}], "may@example.com"),
    ],
)
def test_the_key_is_made_by_one_who_may(operators: list[Any], by: str, tmp_path: Path) -> None:
    (pod,) = pods(rendered(tmp_path, {"config": {"operators": operators}}))
    assert f"--by={by}" in pod["initContainers"][0]["args"]


@needs_helm
@pytest.mark.parametrize("name", ["monitored", "with secrets"])
def test_prometheus_shows_the_token_that_the_gateway_wants(name: str, tmp_path: Path) -> None:
    documents = rendered(tmp_path, INSTALLATIONS[name])
    monitor = of_kind(documents, "ServiceMonitor")["spec"]
    (endpoint,) = monitor["endpoints"]
    shown = endpoint["authorization"]["credentials"]
    (pod,) = pods(documents)
    (volume,) = (one["secret"] for one in pod["volumes"] if one["name"] == "metrics-token")
    assert {"name": volume["secretName"], "key": volume["items"][0]["key"]} == shown
    path = f"/run/secrets/metrics-token/{volume['items'][0]['path']}"
    config = yaml.safe_load(of_kind(documents, "ConfigMap")["data"]["gateway.yaml"])
    assert config["metrics_token"] == f"${{file:{path}}}"
    for container in pod["containers"]:
        assert {"name": "metrics-token", "mountPath": str(Path(path).parent), "readOnly": True} in container[
            "volumeMounts"
        ]
    service = of_kind(documents, "Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "telemetry-gateway", "as the rules name the job"
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}


# ---- the network


def admitted(documents: list[dict[str, Any]], port: str) -> list[dict[str, Any]]:
    (peers,) = (
        rule["from"]
        for rule in of_kind(documents, "NetworkPolicy")["spec"]["ingress"]
        if port in {each["port"] for each in rule["ports"]}
    )
    return list(peers)


@needs_helm
def test_the_network_policy_admits_this_namespace_and_those_that_are_named(tmp_path: Path) -> None:
    own: dict[str, Any] = {"podSelector": {}}
    named = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in ("apps", "ai")]
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    defaults, monitored = (rendered(tmp_path, INSTALLATIONS[name]) for name in ("defaults", "monitored"))
    assert [admitted(defaults, port) for port in ("otlp-http", "otlp-grpc", "admin")] == [[own], [own], [own]]
    assert admitted(monitored, "otlp-http") == admitted(monitored, "otlp-grpc") == [own, *named]
    assert admitted(monitored, "admin") == [own, monitoring]
    block = {"ipBlock": {"cidr": "10.0.0.0/8"}}
    narrowed = rendered(tmp_path, {"networkPolicy": {"senders": [block], "senderNamespaces": ["apps"]}})
    assert admitted(narrowed, "otlp-http") == [block, named[0]]


@needs_helm
def test_services_and_policy_name_ports_of_the_container(tmp_path: Path) -> None:
    documents = rendered(tmp_path, {"ports": {"http": 5318, "grpc": 5317, "admin": 5319}})
    (pod,) = pods(documents)
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    config = yaml.safe_load(of_kind(documents, "ConfigMap")["data"]["gateway.yaml"])["listen"]
    assert ports == {"otlp-http": 5318, "otlp-grpc": 5317, "admin": 5319}
    assert config == {"http": "0.0.0.0:5318", "grpc": "0.0.0.0:5317", "admin": "0.0.0.0:5319"}
    assert {port["targetPort"] for port in of_kind(documents, "Service")["spec"]["ports"]} == set(ports)
    for port in ports:
        admitted(documents, port)


TLS = {"cert_file": "/tls/tls.crt", "key_file": "/tls/tls.key"}


@needs_helm
@pytest.mark.parametrize(
    ("tls", "scheme"),
    [({}, "HTTP"), ({"admin": TLS}, "HTTPS"), ({"admin": {**TLS, "client_ca_file": "/tls/ca"}}, None)],
)
def test_probes_speak_as_the_admin_listener_does(tls: dict[str, Any], scheme: str | None, tmp_path: Path) -> None:
    """The kubelet has no certificate: then the gateway's own command asks."""
    documents = rendered(tmp_path, {"config": {"tls": tls}, "serviceMonitor": {"enabled": True}})
    (pod,) = pods(documents)
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = pod["containers"][0][name]
        if scheme is None:
            assert ("--live" in probe["exec"]["command"]) == (name != "readinessProbe")
            program, *arguments = probe["exec"]["command"]
            assert program == "telemetry-gateway"
            parse(arguments)
        else:
            path = "/readyz" if name == "readinessProbe" else "/healthz"
            assert (probe["httpGet"]["path"], probe["httpGet"].get("scheme", "HTTP")) == (path, scheme)
    (endpoint,) = of_kind(documents, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint.get("scheme", "http") == ("https" if tls else "http")
