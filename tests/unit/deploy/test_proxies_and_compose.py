"""The examples of Compose and of proxies hold what the gateway needs. `python -m tests.install
nginx caddy` sends through the real ones.
"""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from gateway.cli.main import main
from gateway.common.http.connection_limits import shares_of
from gateway.common.open_files import OPEN_FILES
from gateway.config.environment import misspelt_texts
from gateway.config.loader import load_config
from gateway.config.model import Config, Limits
from gateway.pipeline.delivery.lanes import lanes_without_scope
from tests.install.proxies import Ports, nginx_config
from tests.support.certificates import Authority
from tests.support.programs import needs_program

DEPLOY = Path(__file__).parents[3] / "deploy"
CLIENTS = Path(__file__).parents[2] / "e2e/clients"


@pytest.fixture
def services() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())["services"]
    return loaded


def test_the_gateway_of_the_compose_file_is_read_only_and_its_options_are_known(services: dict[str, Any]) -> None:
    gateway = services["gateway"]
    assert gateway["read_only"]
    assert (gateway["tmpfs"], gateway["cap_drop"]) == (["/tmp"], ["ALL"])
    assert gateway["security_opt"] == ["no-new-privileges:true"]
    assert misspelt_texts(gateway["environment"]) == []
    assert all(port.startswith("127.0.0.1:") for port in gateway["ports"])


def test_the_compose_file_imports_the_one_key_that_litellm_sends_with(services: dict[str, Any]) -> None:
    """Each start of the gateway does: a second service would meet the gateway that runs."""
    importing, running = services["gateway"]["entrypoint"][2].replace("\\\n", "").splitlines()
    assert running == "exec telemetry-gateway run"
    keys, name, *options = shlex.split(importing)[1:]
    parsed = (
        main.commands[keys]
        .commands[name]
        .make_context(  # type: ignore[attr-defined]  # of a group
            name, [one for one in options if not one.startswith("--secret-file")]
        )
    )
    assert parsed.params["replace"]
    litellm = yaml.safe_load((DEPLOY / "compose/litellm.yaml").read_text())
    callback = litellm["callback_settings"]["gateway"]
    assert callback["headers"] == {"Authorization": "os.environ/GATEWAY_KEY"}
    assert "GATEWAY_KEY=" in services["litellm"]["entrypoint"][2]
    assert services["litellm"]["secrets"] == services["gateway"]["secrets"]


def test_every_image_of_the_compose_file_has_an_exact_tag(services: dict[str, Any]) -> None:
    """That of LiteLLM is the release that the tests run."""
    pins = (CLIENTS / "requirements-litellm-proxy.txt").read_text()
    (litellm,) = re.findall(r"^litellm==(\S+)", pins, re.MULTILINE)
    assert services["litellm"]["image"] == f"ghcr.io/berriai/litellm:${{LITELLM_VERSION:-v{litellm}}}"
    for service in services.values():
        assert re.search(r":-v?\d+\.\d+\.\d+}$", service["image"]), service["image"]


def test_the_gateway_of_the_compose_file_may_have_the_files_of_all_connections(services: dict[str, Any]) -> None:
    files = min(services["gateway"]["ulimits"]["nofile"], OPEN_FILES)
    assert shares_of(files).senders >= Limits().max_connections


def test_up_waits_until_litellm_answers(services: dict[str, Any]) -> None:
    """`up --wait` ends when each health check is good; the gateway's is in its image."""
    assert "/health/liveliness" in services["litellm"]["healthcheck"]["test"][-1]
    assert services["litellm"]["depends_on"] == {"gateway": {"condition": "service_healthy"}}
    for mounted in services["litellm"]["volumes"]:
        assert (DEPLOY / "compose" / mounted.split(":")[0]).is_file()


# ---- edges in front of a hub


@pytest.fixture
def edges() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose/edges.yaml").read_text())
    return loaded


def imported_key(service: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Options of the import of a key at its start, and the command that it then is."""
    importing, running = service["entrypoint"][2].replace("\\\n", "").splitlines()
    _, keys, name, *options = shlex.split(importing)
    group = main.commands[keys]
    assert isinstance(group, click.Group)
    context = group.commands[name].make_context(name, [one for one in options if not one.startswith("--secret-file")])
    return {**context.params, "secret_file": options[-1]}, running


def test_each_edge_has_a_volume_of_its_own_and_all_else_in_common(edges: dict[str, Any]) -> None:
    each = [edges["services"][f"edge-{n}"] for n in (1, 2, 3)]
    assert [edge.pop("volumes")[0] for edge in each] == [f"edge-{n}:/var/lib/telemetry-gateway" for n in (1, 2, 3)]
    assert each[0] == each[1] == each[2]
    assert set(edges["volumes"]) == {"hub", "edge-1", "edge-2", "edge-3"}
    key, running = imported_key(each[0])
    assert (key["replace"], key["managed"], key["secret_file"]) == (
        True, ("send-ai-telemetry",), "--secret-file=/run/secrets/sender-key"
    )  # fmt: skip
    assert running.endswith("run --config=/etc/telemetry-gateway/edge.yaml")


def test_an_edge_has_each_scope_that_the_hub_gives_its_one_key(edges: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "edge-key").write_text("a-key-of-all-edges")
    Authority(tmp_path).pair.cert.rename(tmp_path / "hub-tls-crt")
    text = (DEPLOY / "compose/edge.yaml").read_text().replace("/run/secrets", str(tmp_path))
    (tmp_path / "edge.yaml").write_text(text)
    config = load_config(tmp_path / "edge.yaml", environ={})
    upstream = config.upstream
    assert upstream is not None
    (key,) = upstream.keys
    granted, running = imported_key(edges["services"]["hub"])
    assert running == "exec telemetry-gateway run"
    assert sorted(key.scopes or ()) == sorted(granted["scopes"])
    assert lanes_without_scope(upstream) == {}
    assert (config.profile, config.unit_cost.operation) == ("server", "sum")
    assert (upstream.sum_retry, upstream.knows_event_ids) == ("at_least_once", True)
    assert config.pricing.price_list == "off"


def test_the_services_of_the_edges_are_read_only_and_their_options_are_known(edges: dict[str, Any]) -> None:
    for service in edges["services"].values():
        assert service["read_only"]
        assert (service["tmpfs"], service["cap_drop"]) == (["/tmp"], ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert misspelt_texts(service.get("environment", {})) == []
        assert re.search(r":-\d+\.\d+\.\d+}$", service["image"]), service["image"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        for mounted in service["volumes"]:
            source = mounted.split(":")[0]
            assert source in edges["volumes"] or (DEPLOY / "compose" / source).is_file()
        assert set(service.get("secrets", ())) <= set(edges["secrets"])
    assert edges["services"]["hub"]["image"] == yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())["services"]["gateway"]["image"]  # fmt: skip


@needs_program("nginx", get="Debian's package nginx-light")
def test_nginx_takes_the_balancer_and_names_each_edge(edges: dict[str, Any], tmp_path: Path) -> None:
    text = (DEPLOY / "compose/balancer.conf").read_text()
    names = {name for name in edges["services"] if name.startswith("edge-")}
    for port in (4317, 4318):
        assert set(re.findall(rf"server ([a-z0-9-]+):{port};", text)) == names
    assert text.count("hash $remote_addr$http_authorization consistent;") == 2
    config = tmp_path / "balancer.conf"
    config.write_text(re.sub(r"edge-(\d)", r"127.0.0.\1", text).replace("/tmp/", f"{tmp_path}/"))
    done = subprocess.run(["nginx", "-t", "-c", config], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- a cell


@pytest.fixture
def cell() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose/cell.yaml").read_text())
    return loaded


def test_each_gateway_of_the_cell_has_a_volume_of_its_own_and_all_else_in_common(cell: dict[str, Any]) -> None:
    each = [cell["services"][f"gateway-{n}"] for n in (1, 2, 3)]
    volumes = [gateway.pop("volumes") for gateway in each]
    assert [own for own, _ in volumes] == [f"gateway-{n}:/var/lib/telemetry-gateway" for n in (1, 2, 3)]
    assert len({config for _, config in volumes}) == 1
    assert each[0].pop("ports") == ["127.0.0.1:4319:4319"]
    assert each[0] == each[1] == each[2]
    assert each[0]["depends_on"] == {"database": {"condition": "service_healthy"}}
    key, running = imported_key(each[0])
    assert (key["replace"], key["managed"], key["secret_file"]) == (
        True, ("send-ai-telemetry",), "--secret-file=/run/secrets/sender-key"
    )  # fmt: skip
    assert running == "exec telemetry-gateway run --config=/etc/telemetry-gateway/cell-gateway.yaml"


def cell_config(cell: dict[str, Any], tmp_path: Path) -> Config:
    """Of its gateways, where Compose puts the secrets into *tmp_path*."""
    for secret in cell["services"]["gateway-1"]["secrets"]:
        (tmp_path / secret).write_text(f"the {secret} of a test, which is long enough")
    text = (DEPLOY / "compose/cell-gateway.yaml").read_text().replace("/run/secrets", str(tmp_path))
    (tmp_path / "gateway.yaml").write_text(text)
    environ = {name: str(value) for name, value in cell["services"]["gateway-1"]["environment"].items()}
    return load_config(tmp_path / "gateway.yaml", environ=environ | {"UPSTREAM_URL": "https://service.test"})


def test_the_gateways_of_the_cell_find_the_database_that_compose_makes(cell: dict[str, Any], tmp_path: Path) -> None:
    config = cell_config(cell, tmp_path)
    made = cell["services"]["database"]["environment"]
    named = conninfo_to_dict(config.store.dsn)
    assert named == {"host": "database", "dbname": made["POSTGRES_DB"], "user": made["POSTGRES_USER"]}
    assert config.store.password is not None
    assert made["POSTGRES_PASSWORD_FILE"] == "/run/secrets/database-key"
    assert config.store.password.reveal() == f"${{file:{tmp_path}/database-key}}"
    assert config.store.durability == "storage", "one Postgres has no standby"
    assert not {port for service in cell["services"].values() for port in service.get("ports", ()) if "432" in port}
    assert config.upstream is not None
    assert config.upstream.base_url == "https://service.test"


def test_the_services_of_the_cell_are_read_only_and_their_options_are_known(cell: dict[str, Any]) -> None:
    for name, service in cell["services"].items():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "/tmp" in service["tmpfs"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert name == "database" or misspelt_texts(service.get("environment", {})) == []
        assert re.search(r":-\d+\.\d+(\.\d+)?}$", service["image"]), service["image"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        for mounted in service["volumes"]:
            source = mounted.split(":")[0]
            assert source in cell["volumes"] or (DEPLOY / "compose" / source).is_file()
        assert set(service.get("secrets", ())) <= set(cell["secrets"])


@needs_program("nginx", get="Debian's package nginx-light")
def test_nginx_takes_the_balancer_of_the_cell_and_names_each_gateway(cell: dict[str, Any], tmp_path: Path) -> None:
    text = (DEPLOY / "compose/cell-balancer.conf").read_text()
    names = {name for name in cell["services"] if name.startswith("gateway-")}
    for port in (4317, 4318):
        assert set(re.findall(rf"server ([a-z0-9-]+):{port};", text)) == names
    assert "hash" not in text, "any gateway takes any request"
    config = tmp_path / "balancer.conf"
    config.write_text(re.sub(r"gateway-(\d)", r"127.0.0.\1", text).replace("/tmp/", f"{tmp_path}/"))
    done = subprocess.run(["nginx", "-t", "-c", config], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_proxies_admit_bodies_as_large_as_the_gateway_does() -> None:
    nginx, caddy = ((DEPLOY / "proxies" / name).read_text() for name in ("nginx.conf", "Caddyfile"))
    for admitted in (re.findall(r"client_max_body_size (\w+);", nginx), re.findall(r"max_size (\w+)", caddy)):
        (size,) = admitted
        assert size in {"64m", "64MiB"}
    assert Limits().max_body_bytes == 64 << 20


@needs_program("nginx", get="Debian's package nginx-light")
def test_nginx_takes_the_example(tmp_path: Path) -> None:
    config = nginx_config(tmp_path, Authority(tmp_path / "tls"), Ports(14318, 14317, 14443))
    done = subprocess.run(["nginx", "-t", "-c", config], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
