"""What the sender of usage events and unit-cost records is reported, over a real receiver and a
real spool: every rule with its refusal.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
import pytest
from yarl import URL

from exporters.accounting import Sent
from exporters.base import Refused
from exporters.cost_service.answers import outcome
from gateway.app import Gateway
from gateway.common.contract.errors import CannotStart
from gateway.config.model import Config, Events, UnitCost
from gateway.usage.events.faults import REMEDIES, event_mend
from gateway.usage.events.intake import MAX_EVENTS_BYTES, MAX_SHAPE_BYTES
from spool.record import USAGE_EVENTS

NOW_MS = 1_767_607_200_000
"""2026-01-05T10:00:00Z"""
ANY_PORT = "127.0.0.1:0"
ALLOCATION, METRIC = "/v1/unit-cost/allocation/tokens", "/v1/unit-cost/metric/answers"


class Told(NamedTuple):
    status: int
    json: Any

    @property
    def error(self) -> tuple[int, str, str]:
        return self.status, self.json["error"]["type"], self.json["error"]["message"]


class Sender:
    def __init__(self, gateway: Gateway, session: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self._session = session

    async def post(self, path: str, content: object, headers: Mapping[str, str] | None = None) -> Told:
        body = content if isinstance(content, bytes) else orjson.dumps(content)
        sent = {"Content-Type": "application/json", **(headers or {})}
        url = f"http://{self.gateway.ports.http}{path}"
        async with self._session.post(url, data=BytesIO(body), headers=sent) as answer:
            return Told(answer.status, await answer.json())

    async def put(self, path: str, body: bytes) -> Told:
        url = f"http://{self.gateway.ports.http}{path}"
        async with self._session.put(url, data=body, headers={"Content-Type": "application/json"}) as answer:
            return Told(answer.status, await answer.json())

    async def records(self, path: str, *records: object, **headers: str) -> Told:
        return await self.post(path, {"records": records}, headers)

    @property
    def edge(self) -> Mapping[str, int]:
        edge = self.gateway.spool.edge()
        assert edge["received"] == sum(
            edge[outcome] for outcome in ("kept", "duplicate", "suppressed", "rejected", "ignored")
        )
        kept = sum(
            self.gateway.spool.depth(lane).kept for lane in ("ai_telemetry", "usage_events", "unit_cost", "devices")
        )
        assert edge["kept"] == kept
        return edge


def config(data_dir: Path, **groups: Any) -> Config:
    listen = {"http": ANY_PORT, "grpc": "off", "admin": ANY_PORT, "service": ANY_PORT}
    return Config.model_validate({"data_dir": data_dir, "listen": listen, "workers": "off", **groups})


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Sender]:
    gateway = await Gateway.start(config(tmp_path / "data"), now_ms=lambda: NOW_MS)
    async with aiohttp.ClientSession() as session:
        yield Sender(gateway, session)
    await gateway.stop()


@pytest.fixture
async def replacing(tmp_path: Path) -> AsyncIterator[Sender]:
    options = {
        "events": Events(angle_brackets="replace"),
        "unit_cost": UnitCost(dimensions=("Weather",), max_streams=1),
    }
    gateway = await Gateway.start(config(tmp_path / "data", **options), now_ms=lambda: NOW_MS)
    async with aiohttp.ClientSession() as session:
        yield Sender(gateway, session)
    await gateway.stop()


def hourly(**changes: object) -> dict[str, object]:
    record: dict[str, object] = {
        "timestamp": "2026-01-05T09:34:56Z",
        "granularity": "HOURLY",
        "element_name": "acme",
        "filter": {"custom:Product": ["chat"]},
        "value": "1200",
    }
    return {name: value for name, value in {**record, **changes}.items() if value != "absent"}


def daily(**changes: object) -> dict[str, object]:
    record = {"timestamp": "2026-01-05", "associated_cost": {"custom:Product": "chat"}, "value": 4}
    return {name: value for name, value in {**record, **changes}.items() if value != "absent"}


def event(**changes: object) -> dict[str, object]:
    found: dict[str, object] = {"title": "report.generated", "source": "billing", **changes}
    return {name: value for name, value in found.items() if value != "absent"}


# ---- unit cost


async def test_a_sound_request_is_kept_and_answered(sender: Sender) -> None:
    for path, record in ((ALLOCATION, hourly()), (METRIC, daily())):
        for operation in ("sum", "replace"):
            told = await sender.records(f"{path}/{operation}", record, record)
            assert (told.status, told.json) == (202, {"accepted": 2, "rejected": [], "duplicate": 0})
        gone = {name: value for name, value in record.items() if name != "value"}
        assert (await sender.records(f"{path}/delete", gone)).status == 202
    assert sender.edge["kept"] == 10


ALLOCATION_FAULTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"timestamp": "absent"}, "missing_timestamp"),
    ({"timestamp": "now"}, "invalid_timestamp"),
    ({"timestamp": 1767607200}, "invalid_timestamp"),
    ({"timestamp": "2026-01-05T10:00:00"}, "invalid_timestamp"),
    ({"timestamp": "2026W01T10"}, "invalid_timestamp"),
    ({"timestamp": "2026-01-06T10:00:01Z"}, "future_timestamp"),
    ({"granularity": "absent"}, "missing_granularity"),
    ({"granularity": "WEEKLY"}, "invalid_granularity"),
    ({"element_name": "absent"}, "missing_element_name"),
    ({"element_name": ""}, "invalid_element_name"),
    ({"element_name": "x" * 257}, "invalid_element_name"),
    ({"value": "absent"}, "missing_value"),
    ({"value": "many"}, "invalid_value"),
    ({"value": "NaN"}, "invalid_value"),
    ({"value": "1e400"}, "invalid_value"),
    ({"value": True}, "invalid_value"),
    ({"value": [1]}, "invalid_value"),
    ({"value": "1.234567890123456"}, "value_too_long"),
    ({"value": 0}, "value_not_positive"),
    ({"value": "-1"}, "value_not_positive"),
    ({"filter": "absent"}, "missing_filter"),
    ({"filter": []}, "invalid_filter"),
    ({"filter": {"custom:Product": "chat"}}, "invalid_filter"),
    ({"filter": {"custom:Product": [1]}}, "invalid_filter"),
    ({"filter": {"custom:Product": []}}, "too_many_values"),
    ({"filter": {"custom:Product": [str(n) for n in range(21)]}}, "too_many_values"),
    ({"filter": {f"custom:{n}": ["x"] for n in range(6)}}, "too_many_dimensions"),
    ({"filter": {"Weather": ["rain"]}}, "unrecognized_filter"),
)


async def test_a_fault_in_an_allocation_record_refuses_all_and_names_record_and_field(sender: Sender) -> None:
    for number, (changes, code) in enumerate(ALLOCATION_FAULTS, 1):
        refused = await sender.records(f"{ALLOCATION}/sum", hourly(), hourly(**changes))
        assert refused.error == (400, code, f"records[1]: {REMEDIES[code]}"), changes
        deleted = await sender.records(f"{ALLOCATION}/delete", {"timestamp": "2026-01-05", "granularity": "DAILY"})
        assert deleted.error[:2] == (422, "stream_unknown"), f"{changes}: nothing was kept, not even the stream"
        assert sender.edge["rejected"] == 3 * number, changes


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"granularity": "HOURLY"}, "invalid_granularity"),
        ({"associated_cost": {"custom:Product": ["chat"]}}, "invalid_associated_cost"),
        ({"associated_cost": ["chat"]}, "invalid_associated_cost"),
        ({"associated_cost": {"Weather": "rain"}}, "unrecognized_filter"),
        ({"associated_cost": {f"custom:{n}": "x" for n in range(6)}}, "too_many_dimensions"),
    ],
)
async def test_a_fault_in_a_metric_record_is_reported(sender: Sender, changes: dict[str, object], code: str) -> None:
    assert (await sender.records(f"{METRIC}/replace", daily(**changes))).error == (
        400,
        code,
        f"records[0]: {REMEDIES[code]}",
    )


async def test_a_record_of_the_other_kind_is_reported_by_its_field_and_sent_to_the_other_path(sender: Sender) -> None:
    told = await sender.records(f"{ALLOCATION}/sum", hourly(), daily(secret="s3cret"))
    assert told.error == (
        400,
        "unknown_field",
        (
            "records[1]: associated_cost: a record of this kind has no such field; it is one of a metric record's, sent to"
            " /v1/unit-cost/metric/…; an allocation record's are timestamp, granularity, element_name, filter, value"
        ),
    )
    message = (await sender.records(f"{METRIC}/sum", hourly())).error[2]
    for field in ("element-name", "filter"):
        other = await sender.records(f"{METRIC}/sum", daily(**{field: {}}))
        assert other.error[2].startswith(f"records[0]: {field}: ")
    assert message.startswith("records[0]: element_name: ")
    assert "/v1/unit-cost/allocation/…" in message
    assert message.endswith("a metric record's are timestamp, granularity, associated_cost, value")


async def test_a_field_of_neither_kind_is_reported_by_its_place_for_its_name_may_be_a_secret(sender: Sender) -> None:
    message = (await sender.records(f"{METRIC}/sum", daily(**{"sk-s3cret": 1}))).error[2]
    assert message.startswith("records[0]: its field 4: ")
    assert "s3cret" not in message
    assert "element_name" not in message
    assert (
        await sender.records(f"{ALLOCATION}/sum", hourly(**{"element_name": "absent", "element-name": "a"}))
    ).status == 202


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (hourly(granularity="DAILY"), "stream_granularity"),
        (hourly(filter={"custom:Other": ["x"]}), "stream_dimensions"),
        (hourly(filter="*"), "stream_dimensions"),
    ],
)
async def test_what_contradicts_the_stream_is_422_whether_the_stream_is_there_or_not(
    sender: Sender, second: dict[str, object], code: str
) -> None:
    assert (await sender.records(f"{ALLOCATION}/sum", hourly(), second)).error[:2] == (422, code)
    assert (await sender.records(f"{ALLOCATION}/sum", hourly())).status == 202
    status, kind, message = (await sender.records(f"{ALLOCATION}/sum", second)).error
    assert (status, kind) == (422, code)
    assert "(it has: HOURLY)" in message or "(it has: custom:Product)" in message


async def test_a_stream_keeps_its_kind(sender: Sender) -> None:
    await sender.records(f"{ALLOCATION}/sum", hourly())
    told = await sender.records("/v1/unit-cost/metric/tokens/sum", daily())
    assert told.error == (422, "stream_kind", f"records[0]: {REMEDIES['stream_kind']} (it has: allocation)")


async def test_a_conflict_names_the_record_the_field_and_the_shape_that_the_stream_has(sender: Sender) -> None:
    path = "/v1/unit-cost/metric/shaped/sum"
    monthly, other = daily(granularity="MONTHLY"), daily(associated_cost={"custom:Other": "x"})
    both = await sender.records(path, daily(), daily(), monthly)
    assert both.json["error"]["message"] == (
        "records[2]: granularity: the stream has another one (it has: DAILY, by records[0])"
    )
    deleted = await sender.records(path.replace("sum", "delete"), daily(value="absent"))
    assert deleted.error[1] == "stream_unknown", "a request that contradicts itself makes no stream"
    assert deleted.error[2].startswith("records[0]: stream: ")
    assert (await sender.records(path, daily())).status == 202
    told = await sender.records(path, monthly, daily())
    assert told.json["error"]["message"] == "records[0]: granularity: the stream has another one (it has: DAILY)", (
        "the stream decides, not the first record"
    )
    told = await sender.records(path, daily(), other)
    assert told.json["error"]["message"].startswith("records[1]: filter (associated_cost of a metric): ")
    assert told.json["error"]["message"].endswith(" (it has: custom:Product)")
    assert sender.edge["rejected"] == 8


async def test_a_conflict_of_an_event_is_reported_in_its_own_fields_with_the_shape_that_the_stream_has(
    sender: Sender,
) -> None:
    metered = {"stream": "shaped", "value": 1}
    told = await sender.post(
        "/v1/events",
        [
            event(metadata=metered, filters={"custom:Product": ["chat"]}),
            event(metadata=metered, filters={"custom:Other": ["x"]}),
            event(metadata=metered | {"granularity": "MONTHLY"}, filters={"custom:Product": ["chat"]}),
            event(metadata=metered | {"element_name": "acme"}, filters={"custom:Product": ["chat"]}),
            event(metadata=metered | {"granularity": "HOURLY"}),
        ],
    )
    messages = [rejection["message"] for rejection in told.json["rejected"]]
    assert [message.partition(":")[0] for message in messages] == [
        "filters",
        "metadata.granularity",
        "metadata.element_name",
        "metadata.granularity",
    ]
    assert [message.rpartition("(")[2] for message in messages[:3]] == [
        "it has: custom:Product)",
        "it has: DAILY)",
        "it has: metric)",
    ]


async def test_a_delete_needs_a_stream_and_takes_no_value(sender: Sender) -> None:
    assert (await sender.records(f"{ALLOCATION}/delete", hourly(value="absent"))).error[:2] == (422, "stream_unknown")
    await sender.records(f"{ALLOCATION}/sum", hourly())
    assert (await sender.records(f"{ALLOCATION}/delete", hourly())).error[:2] == (400, "value_in_delete")
    wide = {"timestamp": "2026-01-05T09:00:00Z", "granularity": "HOURLY"}
    assert (await sender.records(f"{ALLOCATION}/delete", wide)).status == 202


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b"{}", "invalid_records"),
        (b'{"records":[]}', "invalid_records"),
        (b'{"records":{}}', "invalid_records"),
        (b'{"records":[7]}', "invalid_record"),
        (b'{"records":[' + b",".join([b"{}"] * 10_001) + b"]}", "too_many_records"),
    ],
)
async def test_a_body_that_holds_no_records_is_refused(sender: Sender, body: bytes, code: str) -> None:
    assert (await sender.post(f"{METRIC}/sum", body)).error[:2] == (400, code)


async def test_a_body_of_more_than_five_megabytes_is_refused(sender: Sender) -> None:
    assert (await sender.post(f"{METRIC}/sum", b" " * 5_000_001)).error[0] == 413


@pytest.mark.parametrize("name", ["a%20b", "a%2Fb", "%C3%A4", "..", "...", "x" * 257])
async def test_a_stream_name_has_only_the_allowed_characters(sender: Sender, name: str) -> None:
    url = URL(
        f"http://{sender.gateway.ports.http}/v1/unit-cost/metric/{name.replace('..', '%2E%2E')}/sum", encoded=True
    )
    async with aiohttp.ClientSession() as session, session.post(url, json={"records": [daily()]}) as answer:
        told = await answer.json()
    if len(name) > 256:
        assert answer.status == 404, "no path has a part that long"
    else:
        assert (answer.status, told["error"]["type"]) == (400, "invalid_stream")


async def test_other_content_types_and_paths_are_refused(sender: Sender) -> None:
    assert (await sender.records(f"{METRIC}/sum", daily(), **{"Content-Type": "text/plain"})).status == 415
    assert (await sender.records("/v1/unit-cost/gauge/answers/sum", daily())).status == 404


async def test_numbers_keep_every_digit_they_were_written_with(sender: Sender) -> None:
    body = b'{"records":[{"timestamp":"2026-01-05","value":0.1},{"timestamp":"2026-01-05","value":123456789012.345}]}'
    assert (await sender.post(f"{METRIC}/sum", body)).status == 202
    more = b'{"records":[{"timestamp":"2026-01-05","value":0.1000000000000000055}]}'
    assert (await sender.post(f"{METRIC}/sum", more)).error[:2] == (400, "value_too_long")


async def test_a_request_under_its_idempotency_key_counts_once(sender: Sender) -> None:
    key = {"Idempotency-Key": "k-1"}
    assert (await sender.records(f"{METRIC}/sum", daily(), **key)).json["duplicate"] == 0
    assert (await sender.records(f"{METRIC}/sum", daily(), **key)).json == {
        "accepted": 1,
        "rejected": [],
        "duplicate": 1,
    }
    assert (await sender.records(f"{METRIC}/replace", daily(), **key)).json["duplicate"] == 0, "another path"
    told = await sender.records(f"{METRIC}/sum", daily(value=5), **key)
    assert told.error == (422, "idempotency_key_reused", REMEDIES["idempotency_key_reused"])
    assert sender.edge["duplicate"] == 1


async def test_a_request_that_is_refused_for_its_key_is_rejected_by_its_records_and_no_duplicate(
    sender: Sender,
) -> None:
    key = {"Idempotency-Key": "k-1"}
    await sender.records(f"{METRIC}/sum", daily(), **key)
    assert (await sender.records(f"{METRIC}/sum", daily(), daily(), daily(), **key)).status == 422
    edge, reasons = sender.edge, sender.gateway.spool.reasons()
    assert (edge["received"], edge["kept"], edge["rejected"], edge["duplicate"]) == (4, 1, 3, 0)
    assert reasons["rejected.idempotency_key_reused"] == 3
    assert "duplicate.idempotency_key" not in reasons


async def test_events_are_known_by_their_ids_under_whatever_idempotency_key_they_come(sender: Sender) -> None:
    for name in ("a", "b"):
        told = await sender.post("/v1/events", event(metadata={"event_id": name}), {"Idempotency-Key": "k-1"})
        assert told.json == {"accepted": 1, "rejected": [], "duplicate": 0}
    assert (sender.edge["kept"], sender.edge["rejected"]) == (2, 0)


async def test_streams_are_as_many_as_the_operator_allows_and_dimensions_may_be_added(replacing: Sender) -> None:
    assert (await replacing.records(f"{METRIC}/sum", daily(associated_cost={"Weather": "rain"}))).status == 202
    assert (await replacing.records("/v1/unit-cost/metric/second/sum", daily())).error[:2] == (422, "too_many_streams")


# ---- events


REFUSED_EVENTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"title": "absent"}, "title_missing"),
    ({"title": ""}, "title_missing"),
    ({"title": "x" * 257}, "title_longer_than_256"),
    ({"source": "absent"}, "source_missing"),
    ({"source": "x" * 257}, "source_longer_than_256"),
    ({"timestamp": "2026-01-05T10:00:00"}, "timestamp_not_rfc3339"),
    ({"filters": ["acme"]}, "filters_not_lists_of_texts"),
    ({"filters": {"custom:Customer": "acme"}}, "filters_not_lists_of_texts"),
    ({"metadata": ["x"]}, "metadata_not_an_object"),
    ({"metadata": {"event_id": ["x"]}}, "event_id_not_text"),
    ({"metadata": {"event_id": "x" * 257}}, "event_id_not_text"),
    ({"metadata": {"event_id": 1.5}}, "event_id_not_text"),
    ({"event_id": ["x"]}, "event_id_not_text"),
    ({"event_id": True}, "event_id_not_text"),
    ({"event_id": "a", "metadata": {"event_id": "b"}}, "event_id_differs"),
    ({"event_id": 7, "metadata": {"event_id": "07"}}, "event_id_differs"),
    ({"metadata": {"text": "x" * 70_000}}, "event_larger_than_64_kib"),
    ({"metadata": {"deep": orjson.Fragment(b"[" * 300 + b"]" * 300)}}, "event_too_deep"),
    ({"title": "<script>"}, "angle_bracket_in_text"),
    ({"metadata": {"a>b": 1}}, "angle_bracket_in_text"),
    ({"source": "a > b"}, "angle_bracket_in_text"),
    ({"filters": {"custom:A": ["<"]}}, "angle_bracket_in_text"),
    ({"route": "elsewhere"}, "route_unknown"),
    ({"route": ["record"]}, "route_unknown"),
    ({"route": "record"}, "stream_missing"),
    ({"route": "both", "metadata": {"stream": "s"}}, "value_missing"),
    ({"metadata": {"stream": "a b", "value": 1}}, "invalid_stream"),
    ({"metadata": {"stream": 7, "value": 1}}, "invalid_stream"),
    ({"metadata": {"stream": "s", "value": "many"}}, "invalid_value"),
    ({"metadata": {"stream": "s", "value": -1, "element_name": "acme"}}, "value_not_positive"),
    ({"metadata": {"stream": "s", "value": 1, "granularity": "HOURLY"}}, "invalid_granularity"),
    ({"metadata": {"stream": "s", "value": 1}, "filters": {"custom:A": ["x", "y"]}}, "filters_not_one_value"),
    ({"metadata": {"stream": "s", "value": 1}, "filters": {"Weather": ["x"]}}, "unrecognized_filter"),
    ({"metadata": {"stream": "s", "value": 1}, "timestamp": "2026-01-07T10:00:00Z"}, "future_timestamp"),
)


async def test_an_event_that_the_service_would_refuse_is_reported_and_the_others_are_kept(sender: Sender) -> None:
    reasons: Counter[str] = Counter()
    for number, (changes, reason) in enumerate(REFUSED_EVENTS, 1):
        answer = await sender.post("/v1/events", [event(title=f"report {number}"), event(**changes)])
        assert answer.status == 202, changes
        field = f"{next(iter(changes))}: " if reason == "angle_bracket_in_text" else ""
        rejected = [{"reason": reason, "position": "events[1]", "message": field + event_mend(reason)}]
        assert answer.json == {"accepted": 1, "rejected": rejected, "duplicate": 0}, changes
        assert (sender.edge["kept"], sender.edge["rejected"]) == (number, number), changes
        reasons[f"rejected.{reason}"] += 1
        assert {name: n for name, n in sender.gateway.spool.reasons().items() if name in reasons} == reasons, changes


async def test_a_field_with_a_bracket_that_is_none_of_an_events_is_reported_by_its_place(sender: Sender) -> None:
    told = await sender.post("/v1/events", event(**{"sk-s3cret": "<b>"}))
    assert told.json["rejected"][0]["message"].startswith("its field 3: no text")
    assert "s3cret" not in told.error[2]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"source": "s"}, "title_missing"),
        ({"title": "<b>", "source": "s"}, "angle_bracket_in_text"),
        (None, "not_an_object"),
    ],
)
async def test_where_every_event_is_rejected_the_answer_is_an_error_that_reports_each(
    sender: Sender, sent: object, reason: str
) -> None:
    told = await sender.post("/v1/events", [sent, {"title": "no source"}])
    assert (told.json["accepted"], told.json["duplicate"]) == (0, 0)
    assert [x["reason"] for x in told.json["rejected"]] == [reason, "source_missing"]
    assert told.error == (400, reason, f"events[0]: {told.json['rejected'][0]['message']}")
    assert sender.edge["rejected"] == 2
    upstream = outcome(told.status, {}, orjson.dumps(told.json), USAGE_EVENTS, sent=Sent(1), now_unix_s=0)
    assert isinstance(upstream, Refused), "a gateway that forwards to here sets it aside"
    assert upstream.code == reason


async def test_a_repeat_with_rejected_events_is_no_error(sender: Sender) -> None:
    repeated = event(metadata={"event_id": "e"})
    await sender.post("/v1/events", repeated)
    told = await sender.post("/v1/events", [repeated, None])
    assert (told.status, told.json["accepted"], told.json["duplicate"]) == (202, 1, 1)
    assert (await sender.post("/v1/events", [])).status == 202


async def test_an_event_that_only_contradicts_its_stream_is_an_error_too(sender: Sender) -> None:
    await sender.post("/v1/events", event(metadata={"stream": "s", "value": 1}))
    told = await sender.post("/v1/events", event(metadata={"stream": "s", "value": 1, "element_name": "acme"}))
    assert told.error[:2] == (400, "stream_kind")
    assert told.error[2].endswith("(it has: metric)")
    contradicts = event(metadata={"stream": "s", "value": 1, "granularity": "MONTHLY"})
    told = await sender.post("/v1/events", [contradicts, None])
    assert told.error[1] == "stream_granularity", "the first one's, whoever finds the fault"


async def test_one_several_and_lines_of_events_are_taken(sender: Sender) -> None:
    assert (await sender.post("/v1/events", event())).json["accepted"] == 1
    assert (await sender.post("/v1/events", {"events": [event(), event()]})).json["accepted"] == 2
    lines = orjson.dumps(event()) + b"\n" + orjson.dumps(event(metadata={"event_id": "e"})) + b"\n"
    told = await sender.post("/v1/events", lines, {"Content-Type": "application/x-ndjson"})
    assert told.json == {"accepted": 2, "rejected": [], "duplicate": 0}
    assert sender.edge["kept"] == 5, "nothing tells that events without id and time are one"


async def test_a_torn_line_does_not_cost_the_others(sender: Sender) -> None:
    line = orjson.dumps(event())
    told = await sender.post("/v1/events", line + b"\r\n{torn\r\n\r\n" + line + b"\n" + line[:-9])
    assert told.status == 202
    assert (told.json["accepted"], sender.edge["kept"], sender.edge["rejected"]) == (2, 2, 2)
    assert [(x["reason"], x["position"]) for x in told.json["rejected"]] == [
        ("line_not_json", "events[1]"),
        ("line_not_json", "events[3]"),
    ]
    assert [x["message"].partition(":")[0] for x in told.json["rejected"]] == ["line 2", "line 5"]
    for unreadable in (b"{torn\n{torn", b'{\n"title": "x",\n}'):
        assert (await sender.post("/v1/events", unreadable)).status == 400


async def test_a_fault_of_ndjson_names_its_line_also_where_the_stream_finds_it(sender: Sender) -> None:
    metered = {"stream": "s", "value": 1}
    events = [event(metadata=metered), event(title=""), event(metadata=metered | {"granularity": "MONTHLY"})]
    told = await sender.post(
        "/v1/events", b"\n\n".join(map(orjson.dumps, events)), {"Content-Type": "application/x-ndjson"}
    )
    assert [(x["position"], x["message"].partition(": ")[0]) for x in told.json["rejected"]] == [
        ("events[1]", "line 3"),
        ("events[2]", "line 5"),
    ]


async def test_events_that_are_no_list_are_refused_as_such(sender: Sender) -> None:
    told = await sender.post("/v1/events", {"events": {}})
    assert told.error == (400, "bad_payload", "events: it must be a list")
    assert (await sender.post("/v1/events", event(events={}))).status == 202, "a field that is dropped"


def test_the_words_about_an_event_id_are_those_of_the_docs() -> None:
    words = "text of up to 256 characters"
    assert words in REMEDIES["event_id_not_text"]
    assert words in (Path(__file__).parents[4] / "docs/events.md").read_text()


async def test_text_that_was_cut_inside_a_character_is_kept_and_cannot_block_its_sender(sender: Sender) -> None:
    record = orjson.dumps(hourly(element_name="@", filter={"custom:@": ["@"]})).replace(b"@", rb"a\ud83d")
    body = b'{"records":[' + record + b"]}"
    assert (await sender.post(f"{ALLOCATION}/sum", body)).status == 202
    assert (await sender.post(f"{ALLOCATION}/sum", body.replace(rb"\ud83d", b"\xed\xa0\xbd"))).error[:2] == (
        400,
        "invalid_json",
    )


async def test_an_event_that_comes_again_counts_once_over_restarts(tmp_path: Path) -> None:
    sent = event(metadata={"event_id": "e-1"}, timestamp="2026-01-05T09:00:00Z")
    for expected in (0, 1):
        gateway = await Gateway.start(config(tmp_path / "data"), now_ms=lambda: NOW_MS)
        async with aiohttp.ClientSession() as session:
            told = await Sender(gateway, session).post("/v1/events", [sent])
        await gateway.stop()
        assert told.json == {"accepted": 1, "rejected": [], "duplicate": expected}


async def test_an_event_id_with_the_title_is_the_id_in_the_metadata(sender: Sender) -> None:
    by_title, by_both = event(event_id="e-1"), event(event_id="e-1", metadata={"event_id": "e-1"})
    assert (await sender.post("/v1/events", by_title)).json["accepted"] == 1
    for again in (by_title, event(metadata={"event_id": "e-1"}), by_both):
        told = (await sender.post("/v1/events", again)).json
        assert (told["duplicate"], told.get("warning")) == (1, None)
    assert (await sender.post("/v1/events", event(event_id=7))).json["duplicate"] == 0
    assert (await sender.post("/v1/events", event(metadata={"event_id": "7"}))).json["duplicate"] == 1
    for nothing in ("", None):  # no id: its own, from the content
        assert (await sender.post("/v1/events", event(event_id=nothing))).json["duplicate"] == 0
        other = event(event_id="e-1", metadata={"event_id": nothing})
        assert (await sender.post("/v1/events", other)).json["duplicate"] == 1
    assert sender.edge["kept"] == 4


async def test_an_event_id_that_says_something_else_is_warned_of(sender: Sender) -> None:
    told = await sender.post(
        "/v1/events", [event(metadata={"event_id": "e"}), event(title="other", metadata={"event_id": "e"})]
    )
    assert (told.json["accepted"], told.json["duplicate"]) == (2, 1)
    assert told.json["warning"].startswith("1 event carries an event_id")
    assert sender.gateway.spool.reasons()["duplicate.event_id_of_another"] == 1


async def test_an_event_goes_where_its_route_says(sender: Sender) -> None:
    metered = {"stream": "tokens", "value": "3"}
    told = await sender.post(
        "/v1/events",
        [
            event(metadata=metered),
            event(metadata=metered, route="event"),
            event(metadata={"stream": "tokens", "quantity": 4}, route="both"),
            event(),
        ],
    )
    assert told.json == {"accepted": 4, "rejected": [], "duplicate": 0}
    spool = sender.gateway.spool
    assert (spool.depth("usage_events").kept, spool.depth("unit_cost").kept) == (3, 2)
    assert sender.edge["received"] == 5, "an event on both ways is two items"


async def test_an_event_that_contradicts_its_stream_is_rejected_alone(sender: Sender) -> None:
    metric = event(metadata={"stream": "s", "value": 1, "event_id": "a"})
    allocation = event(metadata={"stream": "s", "value": 1, "element_name": "acme", "event_id": "b"})
    told = await sender.post("/v1/events", [metric, allocation])
    assert [x["reason"] for x in told.json["rejected"]] == ["stream_kind"]
    mended = event(metadata={"stream": "s", "value": 1, "event_id": "b"})
    assert (await sender.post("/v1/events", mended)).json == {"accepted": 1, "rejected": [], "duplicate": 0}


async def test_angle_brackets_are_replaced_where_the_operator_says_so(replacing: Sender) -> None:
    assert (await replacing.post("/v1/events", event(title="<b>"))).json["rejected"] == []


def test_every_reason_has_words_and_every_word_its_reason_in_the_code() -> None:
    code = "".join(
        path.read_text()
        for folder in ("gateway", "spool")
        for path in (Path(__file__).parents[4] / folder).rglob("*.py")
        if path.name != "faults.py" and "local_service" not in path.parts
    )
    assert [
        name for name in REMEDIES if f'"{name}"' not in code and not name.startswith(("title", "source", "type"))
    ] == []


async def test_streams_that_were_begun_whole_do_not_start_among_replicas(tmp_path: Path) -> None:
    """The registry remembers what a configuration alone cannot know."""
    gateway = await Gateway.start(config(tmp_path / "data"), now_ms=lambda: NOW_MS)
    async with aiohttp.ClientSession() as session:
        await Sender(gateway, session).records(f"{ALLOCATION}/sum", hourly())
    await gateway.stop()
    summing = config(tmp_path / "data", unit_cost=UnitCost(replicas=2, operation="sum"))
    with pytest.raises(CannotStart, match=r"1 stream was begun with operation: replace \(tokens\)"):
        await Gateway.start(summing)
    apart = await Gateway.start(config(tmp_path / "data", unit_cost=UnitCost(replicas=2, suffix="-a")))
    await apart.stop()


async def test_the_operators_route_is_for_metered_events_alone(tmp_path: Path) -> None:
    gateway = await Gateway.start(config(tmp_path / "data", events=Events(route="both")), now_ms=lambda: NOW_MS)
    async with aiohttp.ClientSession() as session:
        told = await Sender(gateway, session).post(
            "/v1/events", [event(), event(metadata={"stream": "tokens", "value": 1}), event(route="event")]
        )
    assert told.json["rejected"] == []
    assert (gateway.spool.depth("usage_events").kept, gateway.spool.depth("unit_cost").kept) == (3, 1)
    await gateway.stop()


async def test_a_body_of_events_over_its_limit_is_refused_whole(sender: Sender) -> None:
    event = {"title": "tokens.used", "source": "billing-app", "metadata": {"event_id": "evt-1"}}
    line = orjson.dumps(event) + b"\n"
    status, answer = await sender.post("/v1/events", line + b" " * (MAX_EVENTS_BYTES - len(line)))
    assert (status, answer["accepted"]) == (202, 1)
    told = await sender.post("/v1/events", line + b" " * (MAX_EVENTS_BYTES + 1 - len(line)))
    assert told.error == (
        413,
        "too_large",
        "the body is larger than 16777216 bytes: send the events in several requests",
    )
    assert sender.edge["received"] == 1


async def test_the_shape_of_a_stream_is_small(sender: Sender) -> None:
    shape = orjson.dumps({"kind": "metric", "granularity": "DAILY", "dimensions": []})
    assert (await sender.put("/v1/unit-cost/tokens", shape + b" " * (MAX_SHAPE_BYTES - len(shape)))).status == 202
    told = await sender.put("/v1/unit-cost/tokens", shape + b" " * MAX_SHAPE_BYTES)
    assert told.error == (
        413,
        "too_large",
        "the body is larger than 16384 bytes: send the shape of the stream alone",
    )
