"""A data directory that an earlier release left behind by kill -9, its upstream unreachable: it
opens, delivers and verifies.

`tests/data/releases/VERSION.tar.gz` holds the directory (with `sender-key`, the secret of its
inbound key), `VERSION.json` what that release itself delivered from it. `0.1.0-usage` is of a
commit after 0.1.0: its control.db holds sums of usage, some of them stored before the kill.
"""

import hashlib
import json
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.commands import run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.service_process import UNIT_COST_SCOPES, ServiceProcess

RELEASES = Path(__file__).parents[1] / "data" / "releases"


@pytest.mark.parametrize("release", sorted(path.stem for path in RELEASES.glob("*.json")))
def test_a_data_directory_of_a_release_opens_delivers_and_verifies(tmp_path: Path, release: str) -> None:
    truth: dict[str, Any] = json.loads((RELEASES / f"{release}.json").read_text())
    service = ServiceProcess(tmp_path)
    service.start()
    try:
        assert service.port is not None
        config = {"auth": "keys", "upstream": service.upstream(service.port, UNIT_COST_SCOPES)}
        gateway = GatewayProcess(tmp_path, config=config | {"spool": {"reserve_bytes": "16MiB"}})
        gateway.data_dir.mkdir(mode=0o700)
        with tarfile.open(RELEASES / f"{release}.tar.gz") as archive:
            archive.extractall(gateway.data_dir, filter="data")
        with gateway:
            for lane, kept in truth["kept"].items():
                gateway.wait_until_delivered(lane, at_least=kept)
            status = gateway.status()
            assert broken_identities(status) == []
            assert status["edge"] == truth["edge"]
            lanes = {name: status["lanes"][name] for name in truth["kept"]}
            heartbeats = lanes["devices"]
            heartbeats["delivered"] += heartbeats.pop("expired")  # a heartbeat that is too old is not sent
            assert {name: lane["delivered"] for name, lane in lanes.items()} == truth["kept"]
            verified = run_telemetry_gateway("spool", "verify", "--data-dir", str(gateway.data_dir))
            assert verified.code == 0, verified.err + verified.out
            key = (gateway.data_dir / "sender-key").read_text().strip()
            url, nothing = gateway.intake_url + "/v1/traces", {"resourceSpans": []}
            assert httpx.post(url, json=nothing, headers={"Authorization": key}).status_code == 200
            assert httpx.post(url, json=nothing, headers={"Authorization": key[:-1]}).status_code == 401
            assert gateway.stop() == 0
        if (usage := truth.get("usage")) is not None:
            within = ("--from", f"{usage['from']}T00:00:00Z", "--to", f"{usage['to']}T00:00:00Z")
            asked = run_telemetry_gateway("usage", "--json", *within, "--data-dir", str(gateway.data_dir))
            assert asked.json["totals"] == usage["totals"]
        records = sorted(service.records(), key=lambda record: str(record["record_id"]))
        assert [record["record_id"] for record in records] == truth["record_ids"]
        assert hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest() == truth["records_sha256"]
        assert service.unit_cost_total() == Decimal(truth["unit_cost_total"])
        assert len(service.event_ids()) == truth["kept"]["usage_events"]
        assert set(truth["devices"]) <= set(service.device_ids())
    finally:
        service.kill()
