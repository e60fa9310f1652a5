"""Unit-cost streams of the local service: made, listed, read, posted to, deleted."""

import pytest

from gateway.common.contract.unit_cost import BLOCKED_MS

from .conftest import Client, Clock
from .test_unit_cost import BASE, hourly, kept, send, without

SHAPE = {"kind": "allocation", "granularity": "HOURLY", "dimensions": ["custom:Product"]}


async def names(client: Client, **query: str) -> list[str]:
    return [stream["name"] for stream in (await client.get(BASE, **query)).json["streams"]]


async def test_a_stream_is_made_before_its_first_record_which_must_fit_it(client: Client) -> None:
    made = await client.put(f"{BASE}/tokens", SHAPE)
    assert (made.status, made.json["stream"]) == (201, SHAPE | {"name": "tokens", "records": 0})
    assert (await client.put(f"{BASE}/tokens", SHAPE)).status == 200
    assert await send(client, "sum", hourly() | {"granularity": "DAILY"}) == 400
    assert await send(client, "sum", hourly()) == 200
    assert (await client.get(f"{BASE}/tokens")).json["stream"]["records"] == 1
    other = await client.put(f"{BASE}/tokens", SHAPE | {"granularity": "DAILY"})
    assert (other.status, other.json["error"]["type"]) == (409, "stream_exists")


async def test_streams_are_listed_by_the_conventions(client: Client) -> None:
    await send(client, "sum", hourly(), stream="b-hours")
    await client.put(f"{BASE}/a-days", {"kind": "metric"})
    await client.put(f"{BASE}/c-months", {"kind": "metric", "granularity": "MONTHLY"})
    assert await names(client) == ["a-days", "b-hours", "c-months"]
    assert await names(client, kind="metric", sort_key="name", sort_order="desc") == ["c-months", "a-days"]
    assert await names(client, granularity="HOURLY") == ["b-hours"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_kind"),
        ({"kind": "other"}, "invalid_kind"),
        ({"kind": "allocation"}, "missing_granularity"),
        ({"kind": "metric", "granularity": "HOURLY"}, "invalid_granularity"),
        (SHAPE | {"dimensions": ["Weather"]}, "unrecognized_filter"),
        (SHAPE | {"dimensions": [f"custom:{n}" for n in range(6)]}, "invalid_dimensions"),
        (SHAPE | {"dimensions": ["custom:a", "custom:a"]}, "invalid_dimensions"),
        (SHAPE | {"dimensions": "custom:a"}, "invalid_dimensions"),
        (SHAPE | {"name": "tokens"}, "unknown_field"),
    ],
)
async def test_a_shape_that_no_record_could_have_makes_no_stream(client: Client, body: object, code: str) -> None:
    refused = await client.put(f"{BASE}/tokens", body)
    assert (refused.status, refused.json["error"]["type"]) == (400, code)
    assert (await client.put(f"{BASE}/a%20b", SHAPE)).status == 400
    assert await names(client) == []


async def test_a_deleted_streams_name_is_blocked_for_minutes_then_begins_again(client: Client, clock: Clock) -> None:
    await send(client, "sum", hourly(value=1))
    refused = await client.delete(f"{BASE}/tokens")
    assert (refused.status, refused.json["error"]["type"]) == (409, "stream_holds_records")
    assert (await client.delete(f"{BASE}/tokens?force=yes")).status == 400
    assert (await client.delete(f"{BASE}/tokens?force=true")).status == 204
    assert (await client.get(f"{BASE}/tokens/records")).status == 404
    assert (await client.delete(f"{BASE}/tokens?force=true")).status == 404
    clock.time_ms += BLOCKED_MS - 1
    blocked = await client.post(f"{BASE}/metric/tokens/sum", {"records": [{"timestamp": "2026-01-05", "value": 7}]})
    assert (blocked.status, blocked.json["error"]["type"], blocked.headers["Retry-After"]) == (
        409,
        "stream_blocked",
        "1",
    )
    assert (await client.put(f"{BASE}/tokens", SHAPE)).status == 409
    clock.time_ms += 1
    assert await send(client, "sum", {"timestamp": "2026-01-05", "value": 7}, kind="metric") == 200
    assert await kept(client) == [("00", "", "7")]


async def test_an_empty_stream_is_deleted_without_force(client: Client) -> None:
    await send(client, "sum", hourly())
    await send(client, "delete", without(hourly(), "value"))
    assert (await client.delete(f"{BASE}/tokens")).status == 204
    assert await names(client) == []


async def test_post_is_a_sum_with_the_stream_in_the_path_or_in_each_record(client: Client) -> None:
    day = {"timestamp": "2026-01-05", "value": 4}
    older = without(hourly(value=5), "element_name") | {"element-name": "acme"}
    assert (await client.post(f"{BASE}/allocation/tokens", {"records": [older]})).status == 200
    assert (await client.post(f"{BASE}/metric/answers", {"records": [day]})).status == 200
    both = {"records": [older | {"telemetry-stream": "tokens"}, day | {"telemetry-stream": "answers"}]}
    assert (await client.post(BASE, both)).status == 200
    assert await kept(client) == [("10", "acme", "10")]
    assert (await client.get(f"{BASE}/metric/answers")).json["records"][0]["value"] == "8"
    assert (await client.get(f"{BASE}/metric/tokens")).status == 404


async def test_a_post_with_one_record_that_fits_no_stream_keeps_none(client: Client) -> None:
    await send(client, "sum", hourly(value=1))
    sound = hourly(value=2) | {"telemetry-stream": "tokens"}
    for other, begins in (
        (hourly(), "stream:"),
        (sound | {"granularity": "DAILY"}, "records of one stream"),
        (sound | {"value": 0}, "records[1]: value"),
        ({"timestamp": "2026-01-05", "value": 4, "telemetry-stream": "tokens"}, "the stream is of kind"),
    ):
        refused = await client.post(BASE, {"records": [sound, other]})
        assert refused.status == 400
        assert refused.json["error"]["message"].startswith(begins)
    assert await kept(client) == [("10", "acme", "1")]
