"""Ingest of AI telemetry, its list, and the summary."""

import gzip
from pathlib import Path

import aiohttp
import orjson
import pytest

from gateway.local_service.service import Service

from .conftest import Client, Clock, ai_envelope, ai_record

INGEST = "/v2/ai-telemetry/records"
SUMMARY = "/v2/ai-telemetry/summary"
ZEROS = {
    "calls": 0,
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "reasoning_output_tokens": 0,
    "calls_without_usage": 0,
    "calls_without_cost": 0,
    "cost": "0",
}


async def accepted(client: Client, *records: object) -> None:
    reply = await client.post(INGEST, ai_envelope(*records))
    assert (reply.status, reply.json) == (202, {"accepted": len(records), "rejected": []})


def usd(amount: str) -> dict[str, object]:
    return {"amount": amount, "currency": "USD", "source": "estimated", "price_version": "1"}


async def test_a_batch_is_kept_whole_and_listed_as_it_came(client: Client) -> None:
    records = [ai_record(f"{number:032x}", future_field={"kept": True}) for number in range(5)]
    await accepted(client, *records)
    assert (await client.get(INGEST)).json["records"] == records


async def test_a_repeated_record_is_accepted_and_not_counted_again(client: Client) -> None:
    await accepted(client, ai_record("a"), ai_record("a"), ai_record("b"))
    await accepted(client, ai_record("a"), ai_record("c"))
    assert (await client.get(SUMMARY)).json["totals"] == ZEROS | {
        "calls": 3,
        "input_tokens": 3600,
        "output_tokens": 360,
        "cache_read_input_tokens": 900,
        "cost": "0.01263",
    }


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"record_id": None}, "missing_record_id"),
        ({"record_id": ""}, "invalid_record_id"),
        ({"kind": "span"}, "invalid_kind"),
        ({"kind": []}, "invalid_kind"),
        ({"source": "otlp"}, "invalid_source"),
        ({"source": None}, "missing_source"),
        ({"started_at": None}, "missing_started_at"),
        ({"started_at": "yesterday"}, "invalid_started_at"),
        ({"started_at": 1767607200}, "invalid_started_at"),
        ({"operation": None}, "missing_operation"),
        ({"provider": None, "request_model": None}, "missing_provider"),
        ({"usage": None}, "missing_usage"),
        ({"usage": {"input_tokens": -1}}, "invalid_input_tokens"),
        ({"usage": {"input_tokens": 1.5}}, "invalid_input_tokens"),
        ({"usage": {"input_tokens": True}}, "invalid_input_tokens"),
        ({"usage": {"output_tokens": "12"}}, "invalid_output_tokens"),
        ({"usage": {"audio_input_tokens": -1}}, "invalid_audio_input_tokens"),
        ({"usage": {"input_tokens": 10**16}}, "invalid_input_tokens"),
        ({"cost": usd("free")}, "invalid_amount"),
        ({"cost": usd("NaN")}, "invalid_amount"),
        ({"cost": usd("1e999999")}, "invalid_amount"),
        ({"cost": {"amount": 1, "currency": "USD"}}, "invalid_amount"),
        ({"billed": "yes"}, "invalid_billed"),
        ({"attribution": {"team": 7}}, "invalid_team"),
    ],
)
async def test_a_record_that_breaks_a_rule_is_rejected_alone(
    client: Client, changes: dict[str, object], code: str
) -> None:
    reply = await client.post(INGEST, ai_envelope(ai_record("a"), ai_record("b") | changes, ai_record("c")))
    assert reply.status == 202
    assert reply.json["accepted"] == 2
    (rejected,) = reply.json["rejected"]
    assert (rejected["index"], rejected["code"]) == (1, code)
    listed = (await client.get(INGEST)).json["records"]
    assert [record["record_id"] for record in listed] == ["a", "c"]


async def test_unknown_usage_is_taken_as_unknown_and_a_provider_or_a_model_is_enough(client: Client) -> None:
    unknown = {"status": "missing", "input_tokens": None, "output_tokens": None}
    await accepted(
        client,
        ai_record("a", usage=unknown, cost=None, provider=None),
        ai_record("b", usage={"status": "none"}, cost=None, request_model=None, response_model=None),
    )
    assert (await client.get(SUMMARY)).json == {
        "summary": [
            {"provider": None, "model": "gpt-4o-mini-2024-07-18"}
            | ZEROS
            | {"calls": 1, "calls_without_usage": 1, "calls_without_cost": 1, "cost": None},
            {"provider": "openai", "model": None}
            | ZEROS
            | {"calls": 1, "calls_without_usage": 1, "calls_without_cost": 1, "cost": None},
        ],
        "totals": ZEROS | {"calls": 2, "calls_without_usage": 2, "calls_without_cost": 2, "cost": None},
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b'"\xff"', "invalid_json"),
        ([], "invalid_body"),
        ({"records": []}, "missing_schema"),
        (ai_envelope() | {"schema": "ai-telemetry/9"}, "invalid_schema"),
        (ai_envelope() | {"batch_id": 1}, "invalid_batch_id"),
        (ai_envelope() | {"gateway_id": None}, "missing_gateway_id"),
        (ai_envelope() | {"sent_at": "now"}, "invalid_sent_at"),
        (ai_envelope() | {"records": {}}, "invalid_records"),
    ],
)
async def test_an_envelope_that_cannot_be_read_is_refused_whole(client: Client, body: object, code: str) -> None:
    reply = await client.post(INGEST, body)
    assert reply.status == 400
    assert reply.json["error"]["type"] == code
    assert set(reply.json["error"]) == {"message", "type"}


async def test_too_many_records_or_bytes_are_refused_and_nothing_of_them_is_kept(client: Client) -> None:
    many = await client.post(INGEST, ai_envelope(*(ai_record(str(number)) for number in range(1001))))
    assert many.status == 413
    assert set(many.json) == {"message"}
    large = ai_envelope(ai_record("a", padding="x" * (4 * 1024 * 1024)))
    assert (await client.post(INGEST, large)).status == 413
    assert (await client.get(SUMMARY)).json["totals"] == ZEROS


async def test_gzip_is_read_and_bounded_by_what_comes_out_of_it(client: Client) -> None:
    async def sent(body: bytes, encoding: str = "gzip") -> int:
        return (await client.post(INGEST, body, {"Content-Encoding": encoding})).status

    whole = gzip.compress(orjson.dumps(ai_envelope(ai_record("a"))))
    assert await sent(whole) == 202
    assert await sent(whole[:-9]) == 400
    assert await sent(b"no gzip at all") == 400
    assert await sent(gzip.compress(b" " * 100_000_000)) == 413
    assert await sent(whole, "br") == 415
    assert (await client.get(SUMMARY)).json["totals"]["calls"] == 1


async def test_costs_add_up_exactly_to_the_last_decimal(client: Client) -> None:
    amounts = ["0.1", "0.2", "0.000000000001", "0.00000000000000000003", "123456789.000000000007", "-0.05", "1E-7"]
    await accepted(client, *(ai_record(str(n), cost=usd(amount)) for n, amount in enumerate(amounts)))
    totals = (await client.get(SUMMARY)).json["totals"]
    assert totals["cost"] == "123456789.25000010000800000003"


async def test_sums_larger_than_64_bits_of_picounits_stay_exact(client: Client) -> None:
    await accepted(client, *(ai_record(str(number), cost=usd("9000000.000000000001")) for number in range(50)))
    totals = (await client.get(SUMMARY)).json["totals"]
    assert totals["cost"] == "450000000.00000000005"


async def test_the_summary_gives_the_groups_with_most_calls_a_page_at_a_time(client: Client) -> None:
    records = [
        ai_record(f"{n}-{i}", request_model=f"m{n}", response_model=f"m{n}") for n in range(5) for i in range(n + 1)
    ]
    await accepted(client, *records)
    whole = (await client.get(SUMMARY, group_by="model")).json
    assert "groups" not in whole
    pages = [(await client.get(SUMMARY, group_by="model", limit="2", offset=str(at))).json for at in (0, 2, 4, 6)]
    assert [page["groups"] for page in pages] == [5] * 4
    assert [[row["calls"] for row in page["summary"]] for page in pages] == [[5, 4], [3, 2], [1], []]
    assert all(page["totals"] == whole["totals"] for page in pages)
    for wrong in ("-1", "x", "1" * 11):
        assert (await client.get(SUMMARY, limit=wrong)).status == 400


async def test_another_currency_is_never_added_to_dollars(client: Client) -> None:
    euro = {"amount": "2.50", "currency": "EUR", "source": "reported", "price_version": None}
    await accepted(client, ai_record("a", cost=euro), ai_record("b", cost=euro), ai_record("c", cost=usd("1")))
    summary = (await client.get(SUMMARY, group_by="team")).json
    assert summary["summary"] == [{"team": "core", **summary["totals"]}]
    assert summary["totals"]["cost"] == "1"
    assert summary["totals"]["other_costs"] == {"EUR": "5"}
    assert summary["totals"]["calls"] == 3
    foreign = (await client.get(SUMMARY, to="2000-01-01")).json["totals"]
    assert (foreign["calls"], foreign["cost"]) == (0, "0"), "nothing costs nothing"


async def test_what_was_paid_in_another_currency_alone_has_no_cost_in_dollars(client: Client) -> None:
    euro = {"amount": "100.001", "currency": "EUR", "source": "reported", "price_version": None}
    await accepted(client, ai_record("a", cost=euro))
    (row,) = (await client.get(SUMMARY)).json["summary"]
    assert (row["cost"], row["other_costs"], row["calls_without_cost"]) == (None, {"EUR": "100.001"}, 0)


async def test_only_billed_records_are_summed_and_aggregates_add_their_tokens(client: Client) -> None:
    aggregate = {
        "kind": "aggregate",
        "cost": None,
        "usage": {"status": "aggregate", "input_tokens": 10, "output_tokens": 1},
    }
    await accepted(
        client,
        ai_record("cache hit", billed=False),
        ai_record("counted", **aggregate, calls=4),
        ai_record("uncounted", **aggregate),
    )
    totals = (await client.get(SUMMARY)).json["totals"]
    assert totals == ZEROS | {"calls": 4, "input_tokens": 20, "output_tokens": 2, "cost": None}
    unbilled = await client.get(INGEST, billed="false")
    assert [record["record_id"] for record in unbilled.json["records"]] == ["cache hit"]


async def test_the_summary_groups_by_what_is_asked_for_with_null_for_unattributed(client: Client) -> None:
    await accepted(
        client,
        ai_record("a", attribution={"team": "core"}),
        ai_record("b", attribution={}),
        ai_record("c", provider="anthropic", request_model="m-large", response_model=None),
        ai_record("d", attribution=None),
    )
    summary = (await client.get(SUMMARY, group_by="provider,model,team")).json["summary"]
    found = [(row["provider"], row["model"], row["team"], row["calls"]) for row in summary]
    assert found == [
        ("anthropic", "m-large", "core", 1),
        ("openai", "gpt-4o-mini-2024-07-18", None, 2),
        ("openai", "gpt-4o-mini-2024-07-18", "core", 1),
    ]
    assert (await client.get(SUMMARY, group_by="")).json["summary"][0]["calls"] == 4
    assert (await client.get(SUMMARY, group_by="record")).status == 400


async def test_the_summary_covers_from_inclusive_to_exclusive(client: Client) -> None:
    await accepted(client, *(ai_record(f"{hour}", started_at=f"2026-01-05T{hour:02}:00:00Z") for hour in range(10, 15)))

    async def calls(**bounds: str) -> object:
        return (await client.get(SUMMARY, **bounds)).json["totals"]["calls"]

    assert await calls(**{"from": "2026-01-05T11:00:00Z"}) == 4
    assert await calls(to="2026-01-05T13:00:00.000Z") == 3
    assert await calls(**{"from": "2026-01-05T13:00:00+01:00", "to": "2026-01-05T13:00:00.001Z"}) == 2
    assert await calls(**{"from": "2026-01-06"}) == 0
    assert (await client.get(SUMMARY, to="tomorrow")).status == 400


async def test_the_list_pages_both_ways_over_the_wire(client: Client) -> None:
    times = ["12", "10", "11", "10", "12", "11", "13"]
    await accepted(client, *(ai_record(f"{n}", started_at=f"2026-01-05T{hour}:00:00Z") for n, hour in enumerate(times)))

    async def page(**query: str) -> tuple[list[str], str | None, str | None]:
        body = (await client.get(INGEST, **query)).json
        cursor = body["pagination"]["cursor"]
        ids = [record["record_id"] for record in body["records"]]
        assert body["pagination"]["total_count"] == 7
        assert body["pagination"]["page_count"] == 3
        return ids, cursor["next_cursor"], cursor["previous_cursor"]

    first, to_second, none_before = await page(limit="3")
    second, to_third, to_first = await page(cursor=str(to_second))
    third, none_after, back_to_second = await page(cursor=str(to_third))
    assert (first, second, third) == (["1", "3", "2"], ["5", "0", "4"], ["6"])
    assert (none_before, none_after) == (None, None)
    assert (await page(cursor=str(back_to_second)))[0] == second
    assert (await page(cursor=str(to_first)))[0] == first
    assert (await page(limit="3", sort_key="started_at", sort_order="desc"))[0] == ["6", "4", "0"]


async def test_what_was_accepted_is_there_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    async with aiohttp.ClientSession() as session:
        service = Service(tmp_path, now_ms=clock)
        client = Client(service, await service.start(), session, "")
        client = await client.with_scopes("both", "ai-telemetry-ingest:ingest-ai-telemetry", "billing:read_costs")
        await accepted(client, ai_record("a"))
        await service.stop()
        again = Service(tmp_path, now_ms=clock)
        client = Client(again, await again.start(), session, client.authorization)
        await accepted(client, ai_record("a"))
        assert (await client.get(SUMMARY)).json["totals"]["calls"] == 1
        await again.stop()
