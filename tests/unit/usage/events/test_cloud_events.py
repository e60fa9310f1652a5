"""CloudEvents at `/v1/events`: what each becomes, and over a real receiver and a real spool every
mode, with every refusal.
"""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from gateway.app import Gateway
from gateway.common.contract.event_form import EventForm
from gateway.usage.events.checks import EventRules
from gateway.usage.events.cloud_events import event_id_of
from gateway.usage.events.events import Event, decode_events
from gateway.usage.events.faults import REMEDIES, cloud_event_mend
from spool.record import UNIT_COST, USAGE_EVENTS
from tests.conformance.otlp_http.payloads import Raw
from tests.unit.usage.events.test_intake import NOW_MS, Sender, config

STRUCTURED, BATCHED = "application/cloudevents+json", "application/cloudevents-batch+json"
JSON = "application/json"
SECRET = "s3cretOfTheData"


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Sender]:
    gateway = await Gateway.start(config(tmp_path / "data"), now_ms=lambda: NOW_MS)
    async with aiohttp.ClientSession() as session:
        yield Sender(gateway, session)
    await gateway.stop()


def cloud_event(**changes: object) -> dict[str, Any]:
    found = {"specversion": "1.0", "id": "1", "source": "/billing", "type": "report.generated", **changes}
    return {name: value for name, value in found.items() if value != "absent"}


def headers_of(**changes: object) -> dict[str, str]:
    return {f"ce-{name}": str(value) for name, value in cloud_event(**changes).items()}


def decoded(event: dict[str, Any], rules: EventRules = EventRules()) -> Event:  # noqa: B008 - immutable
    """The one event of a request in the structured mode."""
    events = decode_events(orjson.dumps(event), NOW_MS, rules, form=EventForm("structured"))
    assert events.rejected == []
    return events.events[0]


def sent_on(event: dict[str, Any]) -> dict[str, Any]:
    record = decoded(event).record
    assert record is not None
    found: dict[str, Any] = orjson.loads(record)
    return found


# ---- what becomes of one


def test_its_attributes_and_data_become_the_fields_of_a_usage_event() -> None:
    event = cloud_event(
        time="2026-01-05T11:00:00+01:00",
        subject="acme",
        dataschema="https://schemas.example/report",
        datacontenttype="application/json; charset=utf-8",
        partitionkey="p-1",
        retries=3,
        final=True,
        unset=None,
        data={"pages": 12, "kind": "pdf", "filters": {"custom:Customer": ["acme"]}},
    )
    assert sent_on(event) == {
        "title": "report.generated",
        "source": "/billing",
        "timestamp": "2026-01-05T10:00:00.000Z",
        "filters": {"custom:Customer": ["acme"]},
        "metadata": {
            "pages": 12,
            "kind": "pdf",
            "event_id": event_id_of("/billing", "1"),
            "cloudevent": {
                "id": "1",
                "subject": "acme",
                "dataschema": "https://schemas.example/report",
                "partitionkey": "p-1",
                "retries": "3",
                "final": "true",
            },
        },
    }


@pytest.mark.parametrize("data", ["absent", None, {}])
def test_one_without_data_and_time_is_one_of_now(data: object) -> None:
    event = sent_on(cloud_event(data=data))
    assert event["timestamp"] == "2026-01-05T10:00:00.000Z"
    assert event["metadata"].keys() == {"event_id", "cloudevent"}


def test_its_id_is_of_source_and_id_together() -> None:
    pairs = [("a", "b"), ("b", "a"), ("ab", ""), ("a#b", "c"), ("a", "b#c"), ("a", "b" * 300), ('a","', "b")]
    assert len({event_id_of(*pair) for pair in pairs}) == len(pairs)
    assert max(len(event_id_of(*pair)) for pair in pairs) <= 256


def test_data_may_repeat_the_id_but_have_no_other() -> None:
    event_id = event_id_of("/billing", "1")
    for same in ("1", "", None):
        assert sent_on(cloud_event(data={"event_id": same}))["metadata"]["event_id"] == event_id


def test_a_metered_one_adds_to_its_stream_with_the_subject_as_its_element() -> None:
    data = {"stream": "tokens", "value": "12.5", "filters": {"custom:Product": ["chat"]}}
    event = decoded(cloud_event(subject="acme", time="2026-01-05T09:59:00Z", data=data))
    assert event.record is None
    assert event.metered is not None
    stream, shape, change = event.metered
    assert (stream, shape.kind, shape.granularity) == ("tokens", "allocation", "HOURLY")
    assert (change.place.element, str(change.value)) == ("acme", "12.5")


@pytest.mark.parametrize(
    ("data", "subject", "element"),
    [
        ({}, "acme", "acme"),
        ({"element_name": "other"}, "acme", "other"),
        ({"element_name": None}, "acme", ""),
        ({}, "absent", ""),
        ({}, "", ""),
    ],
)
def test_data_may_name_another_element_or_none(data: dict[str, Any], subject: str, element: str) -> None:
    event = decoded(cloud_event(subject=subject, data={"stream": "tokens", "value": 3, **data}))
    assert event.metered is not None
    assert event.metered.change.place.element == element
    assert event.metered.shape.kind == ("allocation" if element else "metric")


def test_its_extension_route_goes_before_the_operators() -> None:
    data = {"stream": "tokens", "value": 3}
    both = decoded(cloud_event(route="both", subject="acme", data=data), EventRules(route="event"))
    assert both.metered is not None
    assert both.record is not None
    assert orjson.loads(both.record)["metadata"]["element_name"] == "acme"
    only = decoded(cloud_event(route="event", data=data))
    assert (only.metered, only.record is None) == (None, False)
    assert decoded(cloud_event(data={"route": "/hello"})).record is not None, "in the data it means nothing"


def test_angle_brackets_are_replaced_where_the_operator_says_so_and_the_id_stays() -> None:
    event = decoded(cloud_event(source="a>b", data={"<": ">"}), EventRules(replace_brackets=True))
    assert event.event_id == event_id_of("a>b", "1")
    assert event.record is not None
    assert b"<" not in event.record and b">" not in event.record  # noqa: PT018 - one thought


# ---- the modes


async def test_one_event_is_the_same_in_every_mode(sender: Sender) -> None:
    told = []
    event = cloud_event(time="2026-01-05T10:00:00Z", subject="käse & 0", size=5, data={"n": 1})
    for content, content_type in (
        (event, STRUCTURED),
        (event, f"{STRUCTURED}; charset=UTF-8"),
        (event, 'Application/CloudEvents+JSON ;charset="utf-8"; x=y'),
        ([event], BATCHED),
        ([event], f"{BATCHED};charset=utf-8"),
        (event, JSON),
        ([event], JSON),
        (event, "application/x-ndjson"),
    ):
        told.append(await sender.post("/v1/events", content, {"Content-Type": content_type}))
    headers = headers_of(time="2026-01-05T10:00:00Z", subject="k%C3%A4se%20%26%200", size=5)
    told += [
        await sender.post("/v1/events", {"n": 1}, headers | {"Content-Type": content_type})
        for content_type in (JSON, "application/json; charset=utf-8", "text/json", "application/vnd.acme.v1+json")
    ]
    assert [each.status for each in told] == [202] * len(told)
    duplicates = [each.json for each in told]
    assert duplicates[0] == {"accepted": 1, "rejected": [], "duplicate": 0}
    assert duplicates[1:] == [{"accepted": 1, "rejected": [], "duplicate": 1}] * (len(told) - 1), "and no warning"
    assert sender.edge["kept"] == 1


async def test_events_of_one_id_and_two_sources_are_two(sender: Sender) -> None:
    batch = [cloud_event(source=source) for source in ("/a", "/b", "/a")]
    told = await sender.post("/v1/events", batch, {"Content-Type": BATCHED})
    assert told.json == {"accepted": 3, "rejected": [], "duplicate": 1}
    assert sender.edge["kept"] == 2


async def test_another_event_under_a_known_id_is_warned_of(sender: Sender) -> None:
    for n in (1, 2):
        told = await sender.post("/v1/events", cloud_event(data={"n": n}), {"Content-Type": STRUCTURED})
    assert (told.json["duplicate"], told.json["warning"][:7]) == (1, "1 event")


async def test_a_batch_is_taken_as_far_as_it_is_sound(sender: Sender) -> None:
    batch = [cloud_event(), cloud_event(id="2", type="absent"), 7, cloud_event(id="3", data=[SECRET])]
    told = await sender.post("/v1/events", batch, {"Content-Type": BATCHED})
    assert (told.status, told.json) == (
        202,
        {
            "accepted": 1,
            "duplicate": 0,
            "rejected": [
                {"reason": "type_missing", "position": "events[1]", "message": REMEDIES["type_missing"]},
                {
                    "reason": "cloud_event_not_an_object",
                    "position": "events[2]",
                    "message": REMEDIES["cloud_event_not_an_object"],
                },
                {"reason": "data_not_an_object", "position": "events[3]", "message": REMEDIES["data_not_an_object"]},
            ],
        },
    )
    assert (sender.edge["kept"], sender.edge["rejected"]) == (1, 3)


async def test_an_empty_batch_is_taken(sender: Sender) -> None:
    told = await sender.post("/v1/events", [], {"Content-Type": BATCHED})
    assert (told.status, told.json) == (202, {"accepted": 0, "rejected": [], "duplicate": 0})


async def test_events_of_both_kinds_may_come_as_lines(sender: Sender) -> None:
    lines = [{"title": "t", "source": "s"}, cloud_event(), cloud_event(id="")]
    told = await sender.post(
        "/v1/events", b"\n".join(map(orjson.dumps, lines)), {"Content-Type": "application/x-ndjson"}
    )
    assert told.json["accepted"] == 2
    assert told.json["rejected"][0]["message"] == f"line 3: {REMEDIES['id_missing']}"


async def test_a_metered_one_is_added_to_its_stream(sender: Sender) -> None:
    data = {"stream": "tokens", "value": "1200"}
    headers = headers_of(subject="acme") | {"Content-Type": JSON}
    assert (await sender.post("/v1/events", data, headers)).json["accepted"] == 1
    assert (await sender.post("/v1/events", data, headers)).json["duplicate"] == 1, "it adds once"
    spool = sender.gateway.spool
    assert (spool.depth(USAGE_EVENTS).kept, spool.depth(UNIT_COST).kept) == (0, 1)


async def test_one_that_contradicts_its_stream_names_its_own_fields(sender: Sender) -> None:
    events = [
        cloud_event(id="1", data={"stream": "tokens", "value": 1}),
        cloud_event(id="2", data={"stream": "tokens", "value": 1}, subject="acme"),
        cloud_event(id="3", data={"stream": "tokens", "value": 1, "granularity": "MONTHLY"}),
        cloud_event(id="4", data={"stream": "tokens", "value": 1, "filters": {"custom:A": ["b"]}}),
    ]
    told = await sender.post("/v1/events", events, {"Content-Type": BATCHED})
    assert [(each["reason"], each["message"].partition(":")[0]) for each in told.json["rejected"]] == [
        ("stream_kind", "subject (or data.element_name)"),
        ("stream_granularity", "data.granularity"),
        ("stream_dimensions", "data.filters"),
    ]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("Euro%20%e2%82%ac%20%f0%9f%98%80", "Euro € 😀"),
        ("%41cme", "Acme"),
        ('"a \\"quoted\\" name"', 'a "quoted" name'),
        ("100%", "100%"),
        ("a%zz", "a%zz"),
        ("%2541", "%41"),
        ('"', '"'),
        ("k\u00e4se", "käse"),
    ],
)
async def test_headers_are_unquoted_and_percent_decoded_once(sender: Sender, value: str, meant: str) -> None:
    headers = headers_of(subject=value) | {"Content-Type": JSON}
    assert (await sender.post("/v1/events", {}, headers)).json["duplicate"] == 0
    told = await sender.post("/v1/events", cloud_event(subject=meant, data={}), {"Content-Type": STRUCTURED})
    assert told.json == {"accepted": 1, "rejected": [], "duplicate": 1}, "no warning: it is the same event"


@pytest.mark.parametrize("content_type", ["application/octet-stream", "application/xml", JSON])
async def test_without_a_body_its_type_does_not_matter(sender: Sender, content_type: str) -> None:
    told = await sender.post("/v1/events", b"", headers_of() | {"Content-Type": content_type})
    assert (told.status, told.json["accepted"]) == (202, 1)


async def test_attributes_in_headers_beside_a_structured_event_are_not_looked_at(sender: Sender) -> None:
    told = await sender.post("/v1/events", cloud_event(), headers_of(id="2", time="no") | {"Content-Type": STRUCTURED})
    assert told.json["accepted"] == 1
    told = await sender.post("/v1/events", cloud_event(), {"Content-Type": STRUCTURED})
    assert told.json["duplicate"] == 1


async def test_header_names_have_no_case(sender: Sender) -> None:
    headers = {name.upper(): value for name, value in headers_of().items()} | {"Content-Type": JSON}
    assert (await sender.post("/v1/events", {}, headers)).json["accepted"] == 1


# ---- refusals

STRUCTURED_FAULTS: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"specversion": "absent"}, "specversion_missing", "specversion"),
    ({"specversion": None}, "specversion_missing", "specversion"),
    ({"specversion": "0.3"}, "specversion_not_1_0", "specversion"),
    ({"specversion": 1.0}, "specversion_not_1_0", "specversion"),
    ({"specversion": ["1.0"]}, "specversion_not_1_0", "specversion"),
    ({"id": "absent"}, "id_missing", "id"),
    ({"id": None}, "id_missing", "id"),
    ({"id": ""}, "id_missing", "id"),
    ({"id": 1}, "id_missing", "id"),
    ({"source": "absent"}, "source_missing", "source"),
    ({"source": "x" * 257}, "source_longer_than_256", "source"),
    ({"type": "absent"}, "type_missing", "type"),
    ({"type": {}}, "type_missing", "type"),
    ({"type": "x" * 257}, "type_longer_than_256", "type"),
    ({"time": "yesterday"}, "time_not_rfc3339", "time"),
    ({"time": "2026-01-05T10:00:00"}, "time_not_rfc3339", "time"),
    ({"time": ""}, "time_not_rfc3339", "time"),
    ({"time": 1_767_607_200}, "time_not_rfc3339", "time"),
    ({"subject": 7}, "subject_not_text", "subject"),
    ({"dataschema": []}, "dataschema_not_text", "dataschema"),
    ({"datacontenttype": "application/xml", "data": SECRET}, "datacontenttype_not_json", "datacontenttype"),
    ({"datacontenttype": "text/plain", "data": {}}, "datacontenttype_not_json", "datacontenttype"),
    ({"datacontenttype": "", "data": {}}, "datacontenttype_not_json", "datacontenttype"),
    ({"datacontenttype": 7}, "datacontenttype_not_json", "datacontenttype"),
    ({"data_base64": "e30="}, "data_base64_not_read", "data_base64"),
    ({"data": SECRET}, "data_not_an_object", "data"),
    ({"data": [{"a": SECRET}]}, "data_not_an_object", "data"),
    ({"data": 0}, "data_not_an_object", "data"),
    ({"data": {"event_id": SECRET}}, "data_event_id_differs", "data.event_id"),
    ({"data": {"event_id": {}}}, "data_event_id_differs", "data.event_id"),
    ({"data": {"cloudevent": SECRET}}, "data_cloudevent_reserved", "data.cloudevent"),
    ({"data": {"filters": SECRET}}, "data_filters_not_lists_of_texts", "data.filters"),
    ({"data": {"filters": {"custom:A": SECRET}}}, "data_filters_not_lists_of_texts", "data.filters"),
    ({"route": SECRET}, "route_unknown", "route"),
    ({SECRET: 1}, "attribute_name_invalid", "its attribute 5"),
    ({"": 1}, "attribute_name_invalid", "its attribute 5"),
    ({"customer_id": 1}, "attribute_name_invalid", "its attribute 5"),
    ({"rate": 1.5}, "attribute_not_text", "its attribute 5"),
    ({"customer": {"name": SECRET}}, "attribute_not_text", "its attribute 5"),
    ({"data": {"text": "x" * 66_000}}, "event_larger_than_64_kib", "the event"),
    ({"data": {"deep": orjson.Fragment(b"[" * 300 + b"]" * 300)}}, "event_too_deep", "the event"),
    ({"subject": f"<{SECRET}>"}, "angle_bracket_in_text", "subject"),
    ({"data": {SECRET: "a > b"}}, "angle_bracket_in_text", "data"),
    ({"extension": "a > b"}, "angle_bracket_in_text", "its field 5"),
    ({"route": "record"}, "stream_missing", "data.stream"),
    ({"route": "both", "data": {"stream": "s"}}, "value_missing", "data.value (or quantity)"),
    ({"data": {"stream": SECRET + " ", "value": 1}}, "invalid_stream", "data.stream"),
    ({"data": {"stream": "s", "value": SECRET}}, "invalid_value", "data.value (or quantity)"),
    ({"subject": "a", "data": {"stream": "s", "value": 0}}, "value_not_positive", "data.value (or quantity)"),
    ({"subject": "a" * 257, "data": {"stream": "s", "value": 1}}, "invalid_element_name", "subject (or data.element_name)"),
    ({"data": {"stream": "s", "value": 1, "granularity": "HOURLY"}}, "invalid_granularity", "data.granularity"),
    ({"data": {"stream": "s", "value": 1, "filters": {"Weather": ["x"]}}}, "unrecognized_filter", "data.filters"),
    ({"data": {"stream": "s", "value": 1, "filters": {"tag:a": ["x", "y"]}}}, "filters_not_one_value", "data.filters"),
    ({"time": "2026-01-07T10:00:00Z", "data": {"stream": "s", "value": 1}}, "future_timestamp", "time"),
)  # fmt: skip


@pytest.mark.parametrize(("changes", "reason", "field"), STRUCTURED_FAULTS)
def test_what_is_wrong_is_named_with_its_attribute_and_the_remedy(
    changes: dict[str, Any], reason: str, field: str
) -> None:
    body = orjson.dumps([cloud_event(), cloud_event(**{"id": "2", **changes})])
    events = decode_events(body, NOW_MS, form=EventForm("batched"))
    assert len(events.events) == 1
    rejected = events.rejected[0]
    assert (rejected.reason, rejected.position) == (reason, "events[1]")
    assert rejected.message.partition(": ")[0] == field
    assert rejected.message.endswith(cloud_event_mend(reason))
    assert SECRET not in rejected.message


def test_the_remedies_of_a_cloud_event_name_no_field_of_another_form() -> None:
    of_streams = ["stream_kind", "stream_granularity", "stream_dimensions", "too_many_streams"]
    for code in [*(code for _, code, _ in STRUCTURED_FAULTS), *of_streams]:
        words = cloud_event_mend(code)
        assert "metadata" not in words, code
        assert not words.startswith(("title", "filters", "timestamp")), code


BINARY_FAULTS: tuple[tuple[list[tuple[str, str]], bytes, str, str], ...] = (
    ([("ce-specversion", "1.0")], b"{}", "id_missing", "id"),
    ([("ce-id", "1")], b"{}", "specversion_missing", "specversion"),
    ([*headers_of(time="%C0%A0").items()], b"{}", "attribute_not_utf8", "time"),
    ([*headers_of(custom="%ff").items()], b"{}", "attribute_not_utf8", "its attribute 5"),
    ([*headers_of(subject="\xff").items()], b"{}", "attribute_not_utf8", "subject"),
    ([*headers_of().items(), ("CE-Id", "2")], b"{}", "attribute_repeated", "id"),
    ([*headers_of().items(), ("ce-a-b", "2")], b"{}", "attribute_name_invalid", "its attribute 5"),
    ([*headers_of().items(), ("ce-data", "{}")], b"{}", "attribute_name_invalid", "its attribute 5"),
    ([*headers_of().items(), ("ce-data_base64", "e30=")], b"", "attribute_name_invalid", "its attribute 5"),
    ([*headers_of().items(), ("ce-", "x")], b"", "attribute_name_invalid", "its attribute 5"),
    ([*headers_of().items()], b"{" + SECRET.encode(), "data_not_json", "data"),
    ([*headers_of().items()], b'{}, "id": 1', "data_not_json", "data"),
    ([*headers_of().items()], f'"{SECRET}"'.encode(), "data_not_an_object", "data"),
    ([*headers_of(time="").items()], b"{}", "time_not_rfc3339", "time"),
)


def head_of(headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    lines = ["POST /v1/events HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *map(": ".join, headers), "", ""]).encode("latin-1")


async def test_requests_of_one_head_on_one_connection_are_read_each(sender: Sender) -> None:
    """The second head is not parsed again."""
    raw = await Raw.connect(f"http://{sender.gateway.ports.http}")
    told = []
    for data in (b'{"n":1}', b'{"n":1}', b'{"n":2}'):
        await raw.send(head_of([*headers_of().items(), ("Content-Type", JSON)], data) + data)
        told.append(orjson.loads((await raw.answer())[2]))
    await raw.close()
    assert [each["duplicate"] for each in told] == [0, 1, 1]
    assert ["warning" in each for each in told] == [False, False, True]


@pytest.mark.parametrize(("headers", "body", "reason", "field"), BINARY_FAULTS)
async def test_what_is_wrong_in_headers_or_body_is_named_too(
    sender: Sender, headers: list[tuple[str, str]], body: bytes, reason: str, field: str
) -> None:
    raw = await Raw.connect(f"http://{sender.gateway.ports.http}")
    await raw.send(head_of([*headers, ("Content-Type", JSON)], body) + body)
    status, _, answer = await raw.answer()
    await raw.close()
    told = orjson.loads(answer)
    assert (status, told["error"]["type"]) == (400, reason)
    assert told["error"]["message"].startswith(f"events[0]: {field}")
    assert [each["reason"] for each in told["rejected"]] == [reason]
    assert SECRET not in str(told)
    assert sender.edge["rejected"] == 1


@pytest.mark.parametrize(
    "content_type", ["application/xml", "text/plain", "application/octet-stream", "json", "x/jsonx"]
)
async def test_data_that_is_no_json_is_refused_by_its_type(sender: Sender, content_type: str) -> None:
    told = await sender.post("/v1/events", SECRET.encode(), headers_of() | {"Content-Type": content_type})
    assert told.error[:2] == (400, "datacontenttype_not_json")
    assert SECRET not in str(told.json)


@pytest.mark.parametrize(
    ("content_type", "content", "status", "words"),
    [
        (STRUCTURED, b"", 400, "not valid JSON"),
        (STRUCTURED, b"{", 400, "not valid JSON (line 1, column"),
        (STRUCTURED, [cloud_event()], 400, BATCHED),
        (BATCHED, cloud_event(), 400, STRUCTURED),
        (BATCHED, {"events": [cloud_event()]}, 400, STRUCTURED),
        (f"{STRUCTURED}; charset=utf-16", cloud_event(), 415, "utf-8"),
        (f'{STRUCTURED}; charset="latin-1"', cloud_event(), 415, "utf-8"),
        ("application/cloudevents+avro", b"\0", 415, f"of the formats of CloudEvents, {STRUCTURED} and {BATCHED}"),
        ("application/cloudevents-batch+avro", b"\0", 415, "of the formats of CloudEvents"),
        ("application/cloudevents", cloud_event(), 415, "of the formats of CloudEvents"),
        ("text/plain", cloud_event(), 415, STRUCTURED),
    ],
)
async def test_a_body_of_another_form_is_refused_whole(
    sender: Sender, content_type: str, content: object, status: int, words: str
) -> None:
    told = await sender.post("/v1/events", content, {"Content-Type": content_type})
    assert told.status == status
    assert words in told.json["error"]["message"]
    assert sender.edge["kept"] == 0


async def test_a_format_that_is_not_read_is_no_event_of_the_binary_mode(sender: Sender) -> None:
    told = await sender.post("/v1/events", b"{}", headers_of() | {"Content-Type": "application/cloudevents+avro"})
    assert told.status == 415


async def test_a_page_may_not_send_without_a_preflight(sender: Sender) -> None:
    """A simple request has a Content-Type of a form, and no header of its own."""
    told = await sender.post("/v1/events", cloud_event(), {"Content-Type": "text/plain", "Origin": "https://x.example"})
    assert told.status == 415


async def test_an_event_of_64_kib_is_taken(sender: Sender) -> None:
    event = cloud_event(data={"text": ""})
    event["data"]["text"] = "x" * (64 * 1024 - len(orjson.dumps(event)))
    assert (await sender.post("/v1/events", event, {"Content-Type": STRUCTURED})).json["accepted"] == 1
    event["data"]["text"] += "x"
    told = await sender.post("/v1/events", event, {"Content-Type": STRUCTURED})
    assert told.error[:2] == (400, "event_larger_than_64_kib")
