"""The examples of Compose and of proxies hold what the gateway needs. `python -m tests.install
nginx caddy` sends through the real ones.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli.main import main
from gateway.config.environment import misspelt_texts
from tests.install.proxies import Ports, nginx_config
from tests.support.certificates import Authority
from tests.support.programs import needs_program

DEPLOY = Path(__file__).parents[3] / "deploy"


@pytest.fixture
def services() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())["services"]
    return loaded


def test_the_gateway_of_the_compose_file_is_read_only_and_its_options_are_known(services: dict[str, Any]) -> None:
    gateway = services["gateway"]
    assert gateway["read_only"]
    assert gateway["cap_drop"] == ["ALL"]
    assert misspelt_texts(gateway["environment"]) == []
    assert all(port.startswith("127.0.0.1:") for port in gateway["ports"])


def test_the_compose_file_imports_the_one_key_that_litellm_sends_with(services: dict[str, Any]) -> None:
    keys, name, *options = services["sender-key"]["command"]
    parsed = (
        main.commands[keys]
        .commands[name]
        .make_context(  # type: ignore[attr-defined]  # of a group
            name, [one for one in options if not one.startswith("--secret-file")]
        )
    )
    assert parsed.params["if_missing"]
    litellm = yaml.safe_load((DEPLOY / "compose/litellm.yaml").read_text())
    callback = litellm["callback_settings"]["gateway"]
    assert callback["headers"] == {"Authorization": "os.environ/GATEWAY_KEY"}
    assert "GATEWAY_KEY=" in services["litellm"]["entrypoint"][2]
    assert services["litellm"]["secrets"] == services["sender-key"]["secrets"]


@needs_program("nginx", get="Debian's package nginx-light")
def test_nginx_takes_the_example(tmp_path: Path) -> None:
    config = nginx_config(tmp_path, Authority(tmp_path / "tls"), Ports(14318, 14317, 14443))
    done = subprocess.run(["nginx", "-t", "-c", config], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
