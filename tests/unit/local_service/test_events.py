"""Usage events: checked, kept once, listed."""

import pytest

from .conftest import Client

EVENTS = "/events/v1/events"


def event(**changes: object) -> dict[str, object]:
    return {
        "title": "tokens.used",
        "source": "usage-gateway",
        "timestamp": "2026-01-05T10:00:00+00:00",
        "filters": {"custom:Customer": ["acme"]},
        "metadata": {"event_id": "evt-1", "quantity": "120", "unit": "tokens"},
        **changes,
    }


async def listed(client: Client) -> list[dict[str, object]]:
    events: list[dict[str, object]] = (await client.get(EVENTS)).json["events"]
    return events


async def test_an_event_is_kept_as_it_came_and_a_repeat_of_its_id_is_not(client: Client) -> None:
    for _ in range(2):
        reply = await client.post(EVENTS, event())
        assert (reply.status, reply.json) == (202, {"accepted": 1, "rejected": []})
    assert await listed(client) == [event()]
    await client.post(EVENTS, event(metadata={}))
    await client.post(EVENTS, event(metadata={}))
    assert len(await listed(client)) == 3


async def test_of_many_events_the_sound_ones_are_kept(client: Client) -> None:
    batch = [event(metadata={"event_id": str(number)}) for number in range(3)]
    batch[1] = event(title="")
    reply = await client.post(EVENTS, {"events": batch})
    assert reply.status == 202
    assert reply.json == {
        "accepted": 2,
        "rejected": [{"index": 1, "code": "invalid_title", "message": "title: text of 1 to 256 characters is needed"}],
    }
    assert await listed(client) == [batch[0], batch[2]]


async def test_more_than_500_events_are_too_many(client: Client) -> None:
    batch = [event(metadata={"event_id": str(number)}) for number in range(501)]
    assert (await client.post(EVENTS, {"events": batch})).status == 413
    assert (await client.post(EVENTS, {"events": batch[:500]})).json["accepted"] == 500


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"title": None}, "missing_title"),
        ({"title": "x" * 257}, "invalid_title"),
        ({"source": 7}, "invalid_source"),
        ({"timestamp": "soon"}, "invalid_timestamp"),
        ({"filters": []}, "invalid_filters"),
        ({"filters": {"custom:Customer": "acme"}}, "invalid_filters"),
        ({"filters": {"custom:Customer": [7]}}, "invalid_filters"),
        ({"metadata": "free"}, "invalid_metadata"),
        ({"metadata": {"event_id": 7}}, "invalid_event_id"),
        ({"title": "<b>"}, "invalid_characters"),
        ({"metadata": {"deep": [{"er": "a>b"}]}}, "invalid_characters"),
        ({"metadata": {"a<b": 1}}, "invalid_characters"),
        ({"filters": {"custom:<": ["acme"]}}, "invalid_characters"),
    ],
)
async def test_an_event_that_breaks_a_rule_is_refused_with_its_field(
    client: Client, changes: dict[str, object], code: str
) -> None:
    reply = await client.post(EVENTS, event() | changes)
    assert (reply.status, reply.json["error"]["type"]) == (400, code)
    assert await listed(client) == []


async def test_an_event_without_a_time_gets_the_services_own(client: Client) -> None:
    await client.post(EVENTS, event(timestamp="2026-01-05T10:00:00.001Z", metadata={"event_id": "after"}))
    await client.post(EVENTS, {"title": "plain", "source": "shell"})
    await client.post(EVENTS, event(timestamp="2026-01-05T09:59:59.999Z", metadata={"event_id": "before"}))
    assert [each["title"] for each in await listed(client)] == ["tokens.used", "plain", "tokens.used"]


async def test_a_list_without_filters_has_no_filtering(client: Client) -> None:
    body = (await client.get(EVENTS, sort_key="title", sort_order="desc")).json
    assert set(body) == {"events", "pagination", "sorting"}
    assert body["sorting"]["current"] == [{"sort_key": "title", "sort_order": "desc"}]


async def test_nesting_without_end_is_refused(client: Client) -> None:
    nested = b'{"title":"t","source":"s","metadata":{"a":' + b"[" * 200 + b"]" * 200 + b"}}"
    assert (await client.post(EVENTS, nested)).json["error"]["type"] == "too_deep"
