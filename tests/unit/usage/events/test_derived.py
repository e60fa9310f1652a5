"""Streams that are made of AI records: what each record adds, once, and what
becomes of it at the service.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from pydantic import ValidationError

from exporters.base import Delivered, Hold
from gateway.app import Gateway
from gateway.config.model import Config
from gateway.usage.events.derived import Derivation, DerivedStream, derived
from spool.record import UNIT_COST, Batch
from spool.unit_cost import filter_text
from tests.support.calls import call
from tests.support.polling import until_true
from tests.support.unit_streams import SHAPE, UnitRig, metered

PER_TEAM = Derivation("per-team", "tokens", "HOURLY", "team", {"custom:Model": "request_model"})


def record(span: str = "s", **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {**call(span, team="core", cost="0.0042").record}
    return made | changes


def value_of(measure: str, **changes: Any) -> Decimal | None:
    event = derived(record(**changes), PER_TEAM._replace(measure=measure))  # type: ignore[arg-type]  # as parametrised
    return None if event is None or event.metered is None else event.metered.change.value


def test_a_record_adds_what_is_measured_to_the_place_of_its_cause() -> None:
    event = derived(record(), PER_TEAM)
    assert event is not None
    assert event.metered is not None
    assert event.event is None
    assert (event.metered.stream, event.metered.shape) == ("per-team", SHAPE._replace(dimensions=("custom:Model",)))
    assert event.metered.change.place.element == "core"
    assert event.metered.change.place.filter == filter_text({"custom:Model": ["gpt-4o"]})
    assert event.metered.change.value == 120


@pytest.mark.parametrize(
    ("measure", "wanted"),
    [("tokens", "120"), ("input_tokens", "100"), ("output_tokens", "20"), ("calls", "1"), ("cost", "0.0042")],
)
def test_each_measure_has_its_number(measure: str, wanted: str) -> None:
    assert value_of(measure) == Decimal(wanted)


@pytest.mark.parametrize("measure", ["tokens", "input_tokens", "cost"])
def test_what_is_unknown_or_not_billed_adds_nothing(measure: str) -> None:
    assert value_of(measure, billed=False) is None
    assert value_of(measure, usage={"status": "missing", "input_tokens": None}, cost=None) is None
    assert value_of("cost", cost={"amount": "1", "currency": "EUR"}) is None
    assert value_of("calls", kind="aggregate", calls=None) is None
    assert value_of("calls", kind="aggregate", calls=7) == 7


def test_usage_of_nobody_is_not_lost() -> None:
    event = derived(record(attribution={"team": None}), PER_TEAM)
    assert event is not None
    assert event.metered is not None
    assert event.metered.change.place.element == "unknown"


def batch_of(*records: Mapping[str, Any], batch_id: str = "b") -> Batch:
    return Batch(batch_id, "per-team", 0, 0, "", tuple(orjson.dumps(each) for each in records))


async def test_a_record_adds_once_whatever_batch_it_comes_in(tmp_path: Path) -> None:
    rig = UnitRig.in_folder(tmp_path / "data")
    exporter = DerivedStream(PER_TEAM, rig.store)
    assert await exporter.send(batch_of(record("a"), record("b"))) == Delivered()
    await rig.reopen()
    exporter = DerivedStream(PER_TEAM, rig.store)
    assert await exporter.send(batch_of(record("b"), record("c"), batch_id="replayed")) == Delivered()
    depth = rig.spool.depth(UNIT_COST)
    assert depth.kept == 3
    assert rig.spool.edge()["received"] == rig.spool.edge()["kept"] == 3, "nobody sent the repeats"
    await rig.ship()
    assert sum(rig.far.values.values()) == 360
    await rig.close()


async def test_a_stream_of_another_shape_holds_the_lane(tmp_path: Path) -> None:
    rig = UnitRig.in_folder(tmp_path / "data")
    await rig.keep(metered(1, stream="per-team"))
    outcome = await DerivedStream(PER_TEAM, rig.store).send(batch_of(record()))
    assert isinstance(outcome, Hold)
    assert "per-team" in outcome.reason
    assert rig.spool.edge()["received"] == 1
    await rig.close()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"stream": "a b"}, "stream"),
        ({"element": "colour"}, "unknown field 'colour'"),
        ({"dimensions": {"Model": "request_model"}}, "custom:<name>"),
        ({"granularity": "HOURLY"}, "a metric stream has no hours"),
        ({"measure": "joules"}, "measure"),
    ],
)
def test_what_cannot_be_derived_is_a_fault_of_the_configuration(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Config.model_validate({"exporters": {"x": {"type": "stream", "stream": "s", **options}}})


def test_a_stream_is_made_by_one_exporter() -> None:
    """A record is noted under the stream's name: the second one would add nothing, unseen."""
    made = {"type": "stream", "stream": "s", "element": "team"}
    both = {"in": made | {"measure": "input_tokens"}, "out": made | {"measure": "output_tokens"}}
    with pytest.raises(ValidationError, match="stream s is made by two exporters"):
        Config.model_validate({"exporters": both})


async def test_tokens_of_a_team_reach_the_service_as_a_stream(tmp_path: Path) -> None:
    port = "127.0.0.1:0"
    config = Config.model_validate(
        {
            "data_dir": tmp_path / "data",
            "listen": {"http": port, "grpc": "off", "admin": port, "service": port},
            "workers": "off",
            "counting": {"settle": "0s"},
            "exporters": {"per-team": {"type": "stream", "stream": "per-team", "element": "team"}},
        }
    )
    gateway = await Gateway.start(config)
    async with aiohttp.ClientSession() as session:
        for span in "abc":
            body = orjson.dumps(record(span))
            url = f"http://{gateway.ports.http}/v1/sources/records"
            async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
                assert answer.status == 200
        await until_true(lambda: gateway.spool.depth(UNIT_COST).delivered == 3, what="delivered to the stream")
        key = (tmp_path / "data" / "service-key").read_text().strip()
        listed = f"http://{gateway.ports.service}/unit-cost/v1/telemetry/per-team/records"
        async with session.get(listed, headers={"Authorization": key}) as answer:
            (total,) = (await answer.json())["records"]
    await gateway.stop()
    assert (total["element_name"], total["value"], total["granularity"]) == ("core", "360", "HOURLY")
