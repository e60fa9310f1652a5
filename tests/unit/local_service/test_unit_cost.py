"""Unit-cost streams: what sum, replace and delete leave behind."""

import pytest

from .conftest import Client

BASE = "/unit-cost/v1/telemetry"


def hourly(element: str = "acme", hour: str = "10", value: object = "1200", product: str = "chat") -> dict[str, object]:
    return {
        "timestamp": f"2026-01-05T{hour}:34:56Z",
        "granularity": "HOURLY",
        "element_name": element,
        "filter": {"custom:Product": [product]},
        "value": value,
    }


def without(record: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in record.items() if name not in names}


async def send(client: Client, action: str, *records: object, kind: str = "allocation", stream: str = "tokens") -> int:
    return (await client.post(f"{BASE}/{kind}/{stream}/{action}", {"records": records})).status


async def kept(client: Client, stream: str = "tokens") -> list[tuple[str, str, str]]:
    records = (await client.get(f"{BASE}/{stream}/records")).json["records"]
    return [(record["timestamp"][11:13], record.get("element_name", ""), record["value"]) for record in records]


async def test_sum_adds_exactly_what_decimals_say(client: Client) -> None:
    assert await send(client, "sum", hourly(value="0.1"), hourly(value="0.2"), hourly("other", value=3)) == 200
    assert await send(client, "sum", hourly(value="0.000000000000001")) == 200
    assert await kept(client) == [("10", "acme", "0.300000000000001"), ("10", "other", "3")]


async def test_replace_puts_the_value_in_the_place_of_the_old_one_and_adds_a_new_place(client: Client) -> None:
    await send(client, "sum", hourly(value=1), hourly(hour="11", value=5), hourly(value=8, product="search"))
    assert await send(client, "replace", hourly(value="2.50"), hourly(hour="12", value=7)) == 200
    assert await send(client, "replace", hourly(value="2.50"), hourly(hour="12", value=7)) == 200
    assert await kept(client) == [("10", "acme", "2.5"), ("10", "acme", "8"), ("11", "acme", "5"), ("12", "acme", "7")]


async def test_delete_takes_what_matches_and_what_comes_after_begins_again(client: Client) -> None:
    await send(client, "sum", hourly(value=1), hourly("other", value=2), hourly(hour="11", value=3))
    assert await send(client, "delete", without(hourly(), "value")) == 201
    assert await kept(client) == [("10", "other", "2"), ("11", "acme", "3")]
    await send(client, "sum", hourly(value=9))
    assert ("10", "acme", "9") in await kept(client)
    assert await send(client, "delete", {"timestamp": "2026-01-05T10:00:00Z", "granularity": "HOURLY"}) == 201
    assert await kept(client) == [("11", "acme", "3")]


async def test_a_metric_folds_hours_into_its_day(client: Client) -> None:
    records = [
        {"timestamp": f"2026-01-05T{hour}:00:00Z", "associated_cost": {"custom:Product": "chat"}, "value": 4}
        for hour in ("00", "10", "23")
    ]
    assert await send(client, "sum", *records, kind="metric") == 200
    assert (await client.get(f"{BASE}/tokens/records")).json["records"] == [
        {
            "timestamp": "2026-01-05T00:00:00.000Z",
            "granularity": "DAILY",
            "value": "12",
            "associated_cost": {"custom:Product": "chat"},
        }
    ]
    assert await send(client, "delete", {"timestamp": "2026-01-05T12:00:00Z"}, kind="metric") == 200
    assert await kept(client) == []


async def test_a_month_is_in_utc(client: Client) -> None:
    late = hourly() | {"timestamp": "2025-12-31T23:30:00-02:00", "granularity": "MONTHLY"}
    await send(client, "sum", late)
    (record,) = (await client.get(f"{BASE}/tokens/records")).json["records"]
    assert record["timestamp"] == "2026-01-01T00:00:00.000Z"


async def test_the_order_of_filter_keys_and_values_makes_no_difference(client: Client) -> None:
    one = hourly() | {"filter": {"custom:A": ["x", "y"], "tag:b": ["z"]}}
    other = hourly() | {"filter": {"tag:b": ["z"], "custom:A": ["y", "x", "x"]}}
    await send(client, "sum", one, other)
    assert await kept(client) == [("10", "acme", "2400")]


async def test_all_spend_may_be_written_in_two_ways_and_the_element_with_a_hyphen(client: Client) -> None:
    star = without(hourly(value=1) | {"filter": "*", "element-name": "acme"}, "element_name")
    assert await send(client, "sum", star, hourly(value=2) | {"filter": {}}) == 200
    assert await kept(client) == [("10", "acme", "3")]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"timestamp": None}, "missing_timestamp"),
        ({"timestamp": "now"}, "invalid_timestamp"),
        ({"timestamp": "2026-01-06T10:00:01Z"}, "invalid_timestamp"),
        ({"granularity": None}, "missing_granularity"),
        ({"granularity": "WEEKLY"}, "invalid_granularity"),
        ({"element_name": None}, "missing_element_name"),
        ({"value": None}, "missing_value"),
        ({"value": 0}, "invalid_value"),
        ({"value": "-1"}, "invalid_value"),
        ({"value": "NaN"}, "invalid_value"),
        ({"value": True}, "invalid_value"),
        ({"value": "1.234567890123456"}, "invalid_value"),
        ({"filter": None}, "missing_filter"),
        ({"filter": {"custom:Product": "chat"}}, "invalid_filter"),
        ({"filter": {"custom:Product": []}}, "invalid_filter"),
        ({"filter": {"custom:Product": [str(n) for n in range(21)]}}, "invalid_filter"),
        ({"filter": {f"custom:{n}": ["x"] for n in range(6)}}, "invalid_filter"),
        ({"filter": {"Weather": ["rain"]}}, "unrecognized_filter"),
    ],
)
async def test_a_fault_refuses_the_whole_request_and_names_the_record(
    client: Client, changes: dict[str, object], code: str
) -> None:
    reply = await client.post(f"{BASE}/allocation/tokens/sum", {"records": [hourly(), hourly() | changes]})
    assert reply.status == 400
    assert reply.json["error"]["type"] == code
    assert reply.json["error"]["message"].startswith("records[1]: ")
    assert (await client.get(f"{BASE}/tokens/records")).status == 404


async def test_a_stream_keeps_its_kind_granularity_and_filter_keys(client: Client) -> None:
    await send(client, "sum", hourly())
    assert await send(client, "sum", {"timestamp": "2026-01-05", "value": 1}, kind="metric") == 400
    assert await send(client, "replace", hourly() | {"granularity": "DAILY"}) == 400
    assert await send(client, "sum", hourly() | {"filter": {"custom:Other": ["x"]}}) == 400
    assert await send(client, "sum", hourly(), hourly() | {"filter": {}}, stream="fresh") == 400
    assert await kept(client) == [("10", "acme", "1200")]


async def test_delete_needs_a_stream_and_takes_no_value(client: Client) -> None:
    assert await send(client, "delete", without(hourly(), "value")) == 400
    await send(client, "sum", hourly())
    assert await send(client, "delete", hourly()) == 400
    assert await send(client, "delete", {"timestamp": "2026-01-05"}, kind="metric") == 400
    assert await kept(client) == [("10", "acme", "1200")]


@pytest.mark.parametrize("name", ["a b", "a%2Fb", "ä", "x" * 257])
async def test_a_stream_name_has_only_the_allowed_characters(client: Client, name: str) -> None:
    assert await send(client, "sum", hourly(), stream=name) == 400


@pytest.mark.parametrize("body", [{}, {"records": []}, {"records": {}}, {"records": [7]}, []])
async def test_a_body_without_records_is_refused(client: Client, body: object) -> None:
    assert (await client.post(f"{BASE}/metric/tokens/sum", body)).status == 400


async def test_more_than_five_megabytes_are_too_many(client: Client) -> None:
    assert (await client.post(f"{BASE}/metric/tokens/sum", b" " * 5_000_001)).status == 413


async def test_a_streams_records_page_and_sort(client: Client) -> None:
    await send(client, "sum", *(hourly(element, value=1) for element in "edcba"))
    page = (await client.get(f"{BASE}/tokens/records", sort_key="element_name", limit="2")).json
    following = (await client.get(f"{BASE}/tokens/records", cursor=page["pagination"]["cursor"]["next_cursor"])).json
    assert [record["element_name"] for record in page["records"] + following["records"]] == ["a", "b", "c", "d"]
    assert page["pagination"]["total_count"] == 5
