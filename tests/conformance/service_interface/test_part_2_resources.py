"""Parts 2.1 and 2.2: what a key and an insight are."""

import re
from decimal import Decimal

import pytest

from exporters.secret import Secret
from gateway.access.errors import InvalidKey, NameTaken, NoSuchKey
from gateway.access.listing import key_page
from gateway.access.record import NOT_IN_USE
from gateway.common.contract.scopes import CATALOGUE, USE_CASES, Fixed, Managed, granted
from gateway.local_service.insights import Insight
from tests.conformance.service_interface import published
from tests.unit.local_service.conftest import ADMIN, NOW_MS, Client, Clock

ONE_SCOPE = Fixed(frozenset({"insights:read_insights"}))


async def test_2_1_a_name_is_required_and_has_three_characters_at_least(client: Client) -> None:
    for name in ("", "ab", "  ab  ", "\t\n"):
        with pytest.raises(InvalidKey, match="name"):
            await client.service.keys.create(name, ONE_SCOPE, by=ADMIN)
    assert (await client.service.keys.create("abc", ONE_SCOPE, by=ADMIN)).key.name == "abc"


async def test_2_1_a_name_is_unique_also_after_an_edit(client: Client) -> None:
    keys = client.service.keys
    for name in ("one", "two"):
        await keys.create(name + " key", ONE_SCOPE, by=ADMIN)
    with pytest.raises(NameTaken):
        await keys.create("one key", ONE_SCOPE, by=ADMIN)
    with pytest.raises(NameTaken):
        await keys.edit("two key", by=ADMIN, new_name="one key")


async def test_2_1_name_description_and_scopes_are_editable_and_state_who_and_when(
    client: Client, clock: Clock
) -> None:
    keys = client.service.keys
    made = (await keys.create("a key", ONE_SCOPE, by=ADMIN)).key
    assert (made.description, made.created_by, made.updated_by, made.status) == ("", ADMIN, ADMIN, "Enabled")
    clock.time_ms += 60_000
    other = Fixed(frozenset({"budgets:read_budget", "budgets:read_budgets"}))
    changed = await keys.edit("a key", by="other@example.com", new_name="its name", description="why", grant=other)
    assert (changed.name, changed.description, changed.grant, changed.scope_count) == ("its name", "why", other, 2)
    assert (changed.created_by, changed.updated_by) == (ADMIN, "other@example.com")
    assert changed.modified_at_ms == made.modified_at_ms + 60_000
    with pytest.raises(NoSuchKey):
        await keys.show("a key")


async def test_2_1_last_accessed_is_not_in_use_until_the_first_request(client: Client, clock: Clock) -> None:
    fresh = await client.with_scopes("fresh", "insights:read_insights")
    assert (await client.service.keys.show("fresh")).last_accessed == NOT_IN_USE == "Not In Use"
    clock.time_ms += 1_000
    assert (await fresh.get("/v2/insights")).status == 200
    assert (await client.service.keys.show("fresh")).last_accessed == "2026-01-05T10:00:01.000Z"


async def test_2_1_a_key_uses_fixed_or_managed_scopes_and_at_least_one(client: Client) -> None:
    for grant in (Fixed(frozenset()), Managed(frozenset())):
        with pytest.raises(InvalidKey, match="at least one"):
            await client.service.keys.create("none", grant, by=ADMIN)
    assert set(Fixed.__slots__) == {"scopes"}
    assert set(Managed.__slots__) == {"use_cases"}, "a grant has room for one of both only"


async def test_2_1_scope_count_is_the_number_of_granted_scopes(client: Client) -> None:
    every = (await client.service.keys.show("everything")).as_json()
    assert every["scope_count"] == len(CATALOGUE) == len(published.ALL_SCOPES)
    managed = await client.service.keys.create("all managed", Managed(frozenset(USE_CASES)), by=ADMIN)
    assert managed.key.scope_count == len(granted(managed.key.grant)) == 3


async def test_2_1_the_key_list_shows_who_when_and_how_many_scopes(client: Client, clock: Clock) -> None:
    keys = client.service.keys
    await keys.create("listed", ONE_SCOPE, by=ADMIN)
    clock.time_ms += 60_000
    await keys.edit("listed", by="other@example.com", description="why")
    (shown,) = key_page(await keys.list(), [("name", "listed")])["keys"]
    assert (shown["created_by"], shown["updated_by"]) == (ADMIN, "other@example.com")
    assert (shown["scope_count"], shown["last_accessed"], shown["status"]) == (1, NOT_IN_USE, "Enabled")
    assert shown["last_modified"] == "2026-01-05T10:01:00.000Z"


async def test_2_1_the_one_key_from_before_is_listed_by_its_published_name(client: Client) -> None:
    await client.service.keys.adopt(Secret("the-one-key-from-before"), ONE_SCOPE, by=ADMIN)
    names = [key["name"] for key in key_page(await client.service.keys.list(), [])["keys"]]
    assert "Legacy API Key" in names


async def test_2_1_the_secret_is_shown_once_and_is_in_no_later_answer(client: Client) -> None:
    created = await client.service.keys.create("a key", ONE_SCOPE, by=ADMIN)
    secret = created.secret.reveal()
    told = [await client.service.keys.show("a key"), *await client.service.keys.list(), created, created.secret]
    assert secret not in repr(told)
    assert secret not in repr([key.as_json() for key in await client.service.keys.list()])


async def test_2_2_an_insight_has_the_published_fields_and_its_id(client: Client) -> None:
    await client.service.add_insight(Insight("t", "c", "new", Decimal("12.50"), "low", NOW_MS))
    await client.service.add_insight(Insight("u", "c", "ignored", None, "low", NOW_MS))
    costly, unknown = (await client.get("/v2/insights?sort_key=title")).json["insights"]
    assert set(costly) == {*published.INSIGHT_FIELDS, "id"}
    assert (costly["cost_impact"], unknown["cost_impact"]) == ("12.5", None), "money is text, unknown is null"
    assert all(isinstance(costly[name], str) for name in costly)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", costly["last_updated"])


@pytest.mark.parametrize("status", published.INSIGHT_STATUSES)
async def test_2_2_each_published_status_can_be_had_and_filtered(client: Client, status: str) -> None:
    for each in published.INSIGHT_STATUSES:
        await client.service.add_insight(Insight(each, "c", each, None, "low", NOW_MS))
    (found,) = (await client.get("/v2/insights", status=status)).json["insights"]
    assert (found["title"], found["status"]) == (status, status)
