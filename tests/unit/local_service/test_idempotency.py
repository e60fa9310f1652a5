"""The first answer to an idempotency key is the answer to every repeat, "warts and all"."""

import asyncio
import sqlite3

import pytest

from gateway.common.contract.scopes import INGEST_SCOPE, Fixed
from gateway.local_service.idempotency import KEPT_MS

from .conftest import ADMIN, Client, Clock, ai_envelope, ai_record

INGEST = "/v2/ai-telemetry/records"
SUM = "/unit-cost/v1/telemetry/metric/tokens/sum"
RECORDS = "/unit-cost/v1/telemetry/tokens/records"
ONE = {"records": [{"timestamp": "2026-01-05T10:00:00Z", "value": "1"}]}


async def total(client: Client) -> str:
    (record,) = (await client.get(RECORDS)).json["records"]
    value: str = record["value"]
    return value


@pytest.mark.parametrize("header", ["Idempotency-Key", "cloudzero-idempotency-key"])
async def test_a_repeat_gets_the_first_answer_and_adds_nothing(client: Client, header: str) -> None:
    first = await client.post(SUM, ONE, {header: "k1"})
    again = await client.post(SUM, ONE, {header: "k1"})
    assert (first.status, first.body) == (again.status, again.body) == (200, b'{"records":1}')
    assert await total(client) == "1"
    await client.post(SUM, ONE, {header: "k2"})
    assert await total(client) == "2"


async def test_without_a_key_a_sum_counts_twice(client: Client) -> None:
    await client.post(SUM, ONE)
    await client.post(SUM, ONE)
    assert await total(client) == "2"


async def test_an_error_is_replayed_although_the_request_is_good_by_now(client: Client) -> None:
    refused = await client.post(INGEST, b"{", {"Idempotency-Key": "k1"})
    repeated = await client.post(INGEST, ai_envelope(ai_record("a")), {"Idempotency-Key": "k1"})
    assert refused.status == 400
    assert (repeated.status, repeated.body) == (refused.status, refused.body)
    assert (await client.get(INGEST)).json["records"] == []
    assert (await client.post(INGEST, ai_envelope(ai_record("a")), {"Idempotency-Key": "k2"})).status == 202


async def test_too_large_is_replayed_too(client: Client) -> None:
    large, good = b" " * (4 * 1024 * 1024 + 1), ai_envelope(ai_record("a"))
    assert (await client.post(INGEST, large, {"Idempotency-Key": "large"})).status == 413
    assert (await client.post(INGEST, good, {"Idempotency-Key": "large"})).status == 413


async def test_the_scope_is_checked_before_the_cache_and_its_refusal_is_not_kept(client: Client) -> None:
    good = ai_envelope(ai_record("a"))
    assert (await client.post(INGEST, good, {"Idempotency-Key": "k1"})).status == 202
    reader = await client.with_scopes("reader", "billing:read_costs")
    refused = await reader.post(INGEST, good, {"Idempotency-Key": "k1"})
    assert refused.status == 403, "another key's 202 is no business of one without the scope"
    await client.service.keys.edit("reader", by=ADMIN, grant=(await client.service.keys.show("everything")).grant)
    assert (await reader.post(INGEST, good, {"Idempotency-Key": "k1"})).status == 202
    await client.service.keys.edit("everything", by=ADMIN, grant=Fixed(frozenset({"billing:read_costs"})))
    assert (await client.post(INGEST, good, {"Idempotency-Key": "k1"})).status == 403, "its scope is gone by now"


async def test_each_api_key_has_a_cache_of_its_own(client: Client) -> None:
    assert (await client.post(INGEST, b"{", {"Idempotency-Key": "k1"})).status == 400
    other = await client.with_scopes("other", INGEST_SCOPE)
    assert (await other.post(INGEST, ai_envelope(ai_record("a")), {"Idempotency-Key": "k1"})).status == 202
    assert (await client.post(INGEST, ai_envelope(ai_record("a")), {"Idempotency-Key": "k1"})).status == 400


async def test_a_stranger_gets_no_answer_out_of_the_cache(client: Client) -> None:
    await client.post(SUM, ONE, {"Idempotency-Key": "k1"})
    stranger = client.with_authorization("someone")
    assert (await stranger.post(SUM, ONE, {"Idempotency-Key": "k1"})).status == 401
    assert (await client.post(SUM, ONE, {"Idempotency-Key": "k1"})).status == 200


async def test_one_key_on_another_path_is_another_request(client: Client) -> None:
    await client.post(SUM, ONE, {"Idempotency-Key": "k1"})
    await client.post(
        SUM.replace("/sum", "/replace"), {"records": [{**ONE["records"][0], "value": "7"}]}, {"Idempotency-Key": "k1"}
    )
    assert await total(client) == "7"


async def test_repeats_that_come_at_once_count_once(client: Client) -> None:
    replies = await asyncio.gather(*(client.post(SUM, ONE, {"Idempotency-Key": "k1"}) for _ in range(20)))
    assert {(reply.status, reply.body) for reply in replies} == {(200, b'{"records":1}')}
    assert await total(client) == "1"


async def test_an_answer_is_forgotten_after_a_week(client: Client, clock: Clock) -> None:
    await client.post(SUM, ONE, {"Idempotency-Key": "k1"})
    clock.time_ms += KEPT_MS + 1
    await client.post(SUM, ONE, {"Idempotency-Key": "another"})
    await client.post(SUM, ONE, {"Idempotency-Key": "k1"})
    assert await total(client) == "3"


async def test_an_answer_of_an_earlier_release_is_still_given(client: Client) -> None:
    def as_it_was(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE idempotency SET key_id = ''")

    await client.post(SUM, ONE, {"Idempotency-Key": "k1"})
    await client.service.database.write(as_it_was)
    assert (await client.post(SUM, ONE, {"Idempotency-Key": "k1"})).status == 200
    assert await total(client) == "1"
