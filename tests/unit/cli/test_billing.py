"""`billing` on the files of a stopped gateway, and what `check` states of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.common.storage.database import Database
from tests.support.billing_lane import homes_in
from tests.support.commands import Ended, run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.ports import free_port
from tests.unit.usage.billing.rig import call, count


@pytest.fixture
async def config_file(tmp_path: Path) -> Path:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    database = await Database.open(data_dir / "control.db")
    await count(await homes_in(database), call("0.5"), call("0.25", currency="EUR"), call(None), call("1", ago_h=24.0))
    await database.close()
    path = tmp_path / "gateway.yaml"
    listen = dict.fromkeys(("http", "grpc", "admin", "service"), "127.0.0.1:0")
    options = {"data_dir": str(data_dir), "listen": listen, "billing": {"connection": "conn-1", "since": "2026-01-01"}}
    path.write_text(json.dumps(options))
    return path


def test_a_stopped_gateway_shows_and_plans_days_and_notes_what_is_asked_for(config_file: Path) -> None:
    def billing(*arguments: str) -> Ended:
        return run_telemetry_gateway("billing", *arguments, "--config", str(config_file))

    planned = billing("send", "--month", "2026-01", "--dry-run")
    assert planned.code == 0, planned.err
    assert [line.split() for line in planned.out.splitlines()[1:]] == [
        ["2026-01-04", "new", "1", "1", "USD", "0"],
        ["2026-01-05", "new", "2", "0.25", "EUR,", "0.5", "USD", "1"],
    ]
    assert "the upstream was not asked" in planned.err
    sent = billing("send", "--month", "2026-01")
    assert (sent.code, sent.out) == (1, "")
    assert "2 days go out when it does" in sent.err
    shown = billing("show", "--month", "2026-01", "--json").json
    assert [(day["day"], day["state"], day["costs"]) for day in shown["days"]] == [
        ("2026-01-04", "due", None), ("2026-01-05", "due", None),
    ]  # fmt: skip
    assert shown["lane"] is None
    wrong = billing("show", "--month", "2026-13")
    assert (wrong.code, "YYYY-MM is needed" in wrong.err) == (1, True)


def test_a_command_that_waits_states_why_and_ends_when_the_gateway_stops(config_file: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    key = {"name": "billing", "secret": "a-secret-of-sixteen", "managed": ["send-billing-data"]}
    options = {"billing": {"connection": "conn-1", "since": "2026-01-01"}, "upstream": {"base_url": url, "keys": [key]}}
    with GatewayProcess(config_file.parent, config=options) as gateway:
        send = ("billing", "send", "--month", "2026-01", "--config", str(config_file.with_name("config.yaml")))
        command = [sys.executable, "-m", "gateway.cli.main", *send]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            assert "The lane is retrying: " in waiting.stderr.readline()
            gateway.stop()
            assert "no gateway runs" in waiting.stderr.read()
        assert waiting.returncode == 1


def test_without_a_connection_the_command_names_the_option(config_file: Path) -> None:
    ended = run_telemetry_gateway("billing", "show", "--data-dir", str(config_file.parent / "data"))
    assert (ended.code, "set billing.connection" in ended.err) == (1, True)


def test_check_states_where_billing_data_go_and_which_scope_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    events = {"name": "events", "secret": "a-secret-of-sixteen", "scopes": ["events_v1:create_event"]}
    upstream = {"base_url": "https://service.example", "keys": [events]}
    path.write_text(
        json.dumps({"data_dir": str(tmp_path / "data"), "upstream": upstream, "billing": {"connection": "conn-1"}})
    )
    ended = run_telemetry_gateway("check", "--config", str(path))
    assert "drops to connection conn-1" in ended.out
    assert "lane billing: no configured key grants connections:create_billing_external_billing_drop" in ended.out
