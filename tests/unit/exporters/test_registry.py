import io
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from exporters.base import Delivered
from exporters.clock import SystemClock
from exporters.console import ConsoleExporter
from exporters.cost_service.unit_cost import UnitCostSettings
from exporters.file import FileExporter
from exporters.keyring import Keyring, KeySetting
from exporters.registry import UpstreamSettings, build_client, build_extra, build_upstream
from exporters.secret import Secret
from gateway.config.model import ExporterOptions
from spool.record import Batch
from spool.unit_cost import BaseRecord
from tests.conformance.exporters.targets import TARGETS


async def learn_base(stream: str, base: Sequence[BaseRecord] | None) -> None: ...


async def block_nothing(stream: str, for_s: float) -> None: ...


async def test_a_lane_is_on_when_a_key_grants_its_scope_and_off_with_the_reason_else() -> None:
    grants = frozenset({"ai-telemetry-ingest:ingest-ai-telemetry", "ai-control-plane:enroll-device"}).__contains__
    settings = UpstreamSettings("https://service.example")
    client = build_client(settings, Keyring([KeySetting("k", Secret("s"), grants)]), "gw")
    plans = {
        plan.lane: plan
        for plan in build_upstream(settings, client, SystemClock(), UnitCostSettings(learn_base, block_nothing))
    }
    await client.close()
    assert plans["ai_telemetry"].exporter is not None
    assert plans["ai_telemetry"].limits.max_records == 1000
    assert plans["unit_cost"].reason == "no configured key grants unit-cost_v1:manage_telemetry_records"
    assert plans["usage_events"].exporter is None
    assert plans["usage_events"].reason == "no configured key grants events_v1:create_event"


async def test_an_extra_exporter_is_built_by_its_type(tmp_path: Path) -> None:
    plan = build_extra("archive", "file", {"path": str(tmp_path / "records.ndjson")})
    assert plan.lane == "archive"
    assert isinstance(plan.exporter, FileExporter)
    await plan.exporter.close()
    assert isinstance(build_extra("screen", "console", {}).exporter, ConsoleExporter)


@pytest.mark.parametrize(
    ("type_", "options"),
    [("file", {}), ("file", {"path": "x", "colour": "red"}), ("console", {"path": "x"}), ("fax", {})],
)
def test_an_extra_exporter_that_cannot_be_is_refused_by_the_options_name(type_: str, options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"exporters\.archive"):
        build_extra("archive", type_, options)


async def test_the_console_prints_a_record_a_line() -> None:
    stream = io.BytesIO()
    exporter = ConsoleExporter(stream)
    assert await exporter.send(Batch("b", "screen", 0, 0, "", (b'{"n":1}', b'{"n":2}'))) == Delivered()
    await exporter.close()
    assert stream.getvalue() == b'{"n":1}\n{"n":2}\n'


def test_the_contract_of_exporters_is_tried_on_every_one_that_can_be_configured() -> None:
    configured = {get_args(each.model_fields["type"].annotation)[0] for each in get_args(get_args(ExporterOptions)[0])}
    assert configured - set(TARGETS) == {"plugin", "stream"}  # one is another distribution's, one sends nothing itself
