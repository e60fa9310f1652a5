"""Any bytes and headers give events or a named error; any event of the SDK is the same in every
mode.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from cloudevents.core.bindings.http import HTTPMessage, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict

from gateway.common.contract.errors import BadPayload, TooLarge, UnsupportedMedia
from gateway.serve.http.events import form_of
from gateway.usage.events.checks import EventRules
from gateway.usage.events.events import Event, Events, decode_events
from gateway.usage.events.faults import REMEDIES
from gateway.usage.events.intake import as_kept

NOW_MS = 1_767_607_200_000
SECRET = "s3cretOfTheData"
TYPES = (
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "application/cloudevents+json; charset=UTF-8",
    "application/json",
    "application/x-ndjson",
    "text/plain",
    "",
)

texts = (
    st.sampled_from(["", "1.0", "1", "2026-01-05T10:00:00Z", "application/json", "record", "a/b", SECRET, "<"])
    | st.text()
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.sampled_from(["stream", "value"]), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
names = st.sampled_from(
    [
        "specversion",
        "id",
        "source",
        "type",
        "time",
        "subject",
        "data",
        "data_base64",
        "datacontenttype",
        "route",
        "title",
    ]
)
nearly = st.fixed_dictionaries(
    {"specversion": st.just("1.0") | values, "id": texts | values, "source": texts | values, "type": texts | values},
    optional={"time": values, "subject": values, "data": values, "datacontenttype": values, "route": values, SECRET: values},
) | st.dictionaries(names | texts, values, max_size=8)  # fmt: skip
bodies = st.binary() | (values | nearly | st.lists(nearly | values, max_size=4)).map(
    lambda value: json.dumps(value).encode("utf-8", "surrogatepass")
)
headers = st.lists(
    st.tuples(
        (names | texts).map("ce-{}".format) | st.just("Content-Type"),
        st.sampled_from(TYPES) | texts | st.text(st.characters(max_codepoint=0xFF)),
    ),
    max_size=8,
)


@given(body=bodies, content_type=st.sampled_from(TYPES) | texts, more=headers)
@example(b"", "application/cloudevents+json", [])
@example(b'{"a":' * 400, "application/cloudevents+json", [])
@example(b"\xff\xfe{}", "application/json", [("ce-id", "%f0%9f\udcff")])
@example(b"{}", 'application/cloudevents+json; charset="', [])
@example(b"{}", "application/cloudevents+json; charset*=utf-8''%ff", [])
def test_any_bytes_give_events_or_a_named_error(body: bytes, content_type: str, more: list[tuple[str, str]]) -> None:
    try:
        events = taken(body, [("Content-Type", content_type), *more])
    except (BadPayload, TooLarge, UnsupportedMedia) as error:
        events, refused = Events(), str(error)
    else:
        refused = ""
    assert SECRET not in refused
    positions = [each.position for each in [*events.events, *events.rejected]]
    assert sorted(positions) == sorted(f"events[{number}]" for number in range(events.items))
    for rejection in events.rejected:
        assert rejection.reason in REMEDIES
        assert SECRET not in rejection.message
    for event in events.events:
        assert (event.record is not None) or (event.metered is not None)
        if event.record is not None:
            assert 0 < len(orjson.loads(event.record)["title"]) <= 256
    as_kept(events)


def taken(body: bytes, sent: list[tuple[str, str]]) -> Events:
    return decode_events(body, NOW_MS, EventRules(), form=form_of(CIMultiDict(sent)), nonce=b"n")


plain = st.characters(min_codepoint=0x20, exclude_categories=("Cs", "Cn", "Cc"), exclude_characters="<>")
words = st.text(plain, min_size=1, max_size=40).filter(lambda text: text == text.strip('"'))
extensions = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9]{0,19}", fullmatch=True).filter(
        lambda name: (
            name not in {"specversion", "id", "source", "type", "time", "subject", "data", "route"}
            and not name.startswith("data")
        )
    ),
    words | st.integers(-(2**31), 2**31 - 1),
    max_size=3,
)
json_texts = st.text(plain, max_size=20)
data = st.none() | st.dictionaries(
    json_texts.filter(lambda name: name not in {"event_id", "cloudevent", "filters", "stream", "value", "quantity"}),
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | json_texts,
    max_size=4,
)
METERED: Mapping[str, Any] = {"stream": "tokens", "value": "12.5", "filters": {"custom:Product": ["chat"]}}


@given(
    required=st.fixed_dictionaries({"id": words, "source": words, "type": words}),
    subject=words | st.none(),
    more=extensions,
    data=data | st.just(METERED),
)
def test_an_event_of_the_sdk_is_the_same_in_every_mode(
    required: dict[str, str], subject: str | None, more: dict[str, Any], data: Mapping[str, Any] | None
) -> None:
    time = datetime(2026, 1, 5, 10, tzinfo=UTC)
    attributes = {**more, **required, "time": time} | ({} if subject is None else {"subject": subject})
    event = CloudEvent(attributes, None if data is None else dict(data))
    structured = to_structured_event(event)
    batch = HTTPMessage({"content-type": "application/cloudevents-batch+json"}, b"[" + structured.body + b"]")
    found = [only(taken(each.body, [*each.headers.items()])) for each in (to_binary_event(event), structured, batch)]
    assert found[0] == found[1] == found[2]
    if found[0].record is not None:
        sent_on = orjson.loads(found[0].record)
        assert (sent_on["title"], sent_on["source"]) == (required["type"], required["source"])
        assert sent_on["metadata"]["cloudevent"]["id"] == required["id"]
        assert (data or {}).items() <= sent_on["metadata"].items()


def only(events: Events) -> Event:
    assert events.rejected == []
    (event,) = events.events
    return event
