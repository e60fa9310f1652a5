"""Profiles: whose defaults hold, and that whatever an operator sets stands over them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.config.draft import ConfigFaults
from gateway.config.loader import load_config
from gateway.config.model import Config
from gateway.config.profiles import DEVICE
from tests.support.gateway_pair import EDGE_SCOPES

EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "device.yaml"
KEY = {"name": "hub", "secret": "k", "managed": ["send-ai-telemetry"]}
HUB = {"base_url": "https://hub.example", "keys": [KEY]}


def device(**options: Any) -> Config:
    return Config.model_validate({"profile": "device", "upstream": HUB, **options})


def test_a_device_has_its_own_defaults_and_listens_on_loopback_alone() -> None:
    made, usual = device(), Config()
    assert (made.workers, made.pricing.price_list, made.unit_cost.operation) == ("off", "off", "sum")
    assert made.counting.max_keys < usual.counting.max_keys
    assert made.spool.max_bytes == 256 << 20
    assert made.limits.max_in_flight_bytes < usual.limits.max_in_flight_bytes
    assert made.upstream is not None
    assert (made.upstream.sum_retry, made.upstream.knows_event_ids) == ("at_least_once", True)
    assert all(
        address is not None and address.is_loopback
        for address in (made.listen.http, made.listen.grpc, made.listen.admin)
    )


def test_every_default_of_a_device_can_be_overridden() -> None:
    usual = Config.model_validate({"upstream": HUB}).model_dump(mode="json", by_alias=True)
    written = {
        group: usual[group] if not isinstance(own, dict) else {name: usual[group][name] for name in own}
        for group, own in DEVICE.items()
    }
    written["unit_cost"]["suffix"] = "-7"  # without one a device may not replace
    written["upstream"] |= HUB
    made = Config.model_validate({"profile": "device", **written}).model_dump(mode="json", by_alias=True)
    assert {group: made[group] for group in DEVICE} == {
        **{group: usual[group] for group in DEVICE},
        "unit_cost": {**usual["unit_cost"], "suffix": "-7"},
    }


def test_one_option_of_a_group_leaves_the_others_of_the_profile() -> None:
    made = device(spool={"max_age": "1d"})
    assert (made.spool.max_age_s, made.spool.max_bytes) == (86400.0, 256 << 20)


def test_the_profile_comes_from_the_file_the_environment_or_a_flag(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "upstream: {base_url: https://hub.example, keys: [{name: hub, secret: k, managed: [send-ai-telemetry]}]}\n"
    )
    assert load_config(file, {}, {}).profile == "server"
    for config in (
        load_config(file, {}, {"TELEMETRY_GATEWAY_PROFILE": "device"}),
        load_config(file, {"profile": "device"}, {}),
    ):
        assert (config.profile, config.workers) == ("device", "off")
    given = load_config(file, {"profile": "device"}, {"TELEMETRY_GATEWAY_WORKERS": "auto"})
    assert given.workers == "auto"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "upstream.base_url"),
        ({"upstream": HUB, "unit_cost": {"operation": "replace"}}, "unit_cost.operation"),
        ({"upstream": None}, "upstream.base_url"),
    ],
)
def test_what_a_device_cannot_be_without_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigFaults, match=named):
        load_config(None, {"profile": "device", **options}, {})


def test_an_unknown_profile_is_a_fault_of_that_option() -> None:
    with pytest.raises(ConfigFaults, match="profile: must be one of 'server' or 'device'"):
        load_config(None, {"profile": "devise"}, {})


@pytest.mark.parametrize("own_id", ["", " a", "a\n", "x" * 129])
def test_an_id_of_its_own_is_one_that_a_device_may_have(own_id: str) -> None:
    with pytest.raises(ConfigFaults, match=r"devices\.own_id"):
        load_config(None, {"devices": {"own_id": own_id}}, {})


def test_the_example_of_a_device_loads_and_grants_every_lane(tmp_path: Path) -> None:
    copy = tmp_path / "device.yaml"
    copy.write_text(EXAMPLE.read_text("utf-8"))
    (tmp_path / "hub.key").write_text("a-key")
    config = load_config(copy, {}, {})
    assert config.profile == "device"
    assert config.upstream is not None
    assert set(config.upstream.keys[0].scopes or ()) == set(EDGE_SCOPES)


def test_a_device_does_not_load_what_it_goes_without() -> None:
    """Some ten MiB of a process that shall be small."""
    script = (
        "import sys, gateway.cli.running\n"
        "from gateway.usage.pricing.prices import Prices\n"
        "record = {'billed': True, 'usage': {'input_tokens': 1, 'output_tokens': 1}, 'operation': 'chat', 'flags': [],"
        " 'response_model': 'gpt-4o', 'provider': 'openai'}\n"
        "prices = Prices(has_list=False)\n"
        "prices.price(record, 0)\n"
        "assert record['flags'] == ['unpriced'] and not prices.unpriced, record\n"
        "assert 'genai_prices' not in sys.modules\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
