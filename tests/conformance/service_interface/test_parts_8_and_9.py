"""Parts 8 and 9: limits and versioning."""

import pytest

from gateway.access.errors import InvalidKey, NameTaken
from gateway.common.contract.scopes import Fixed, Managed
from gateway.common.lists.conventions import DEFAULT_LIMIT, MAX_LIMIT
from gateway.local_service.routes import ROUTES, Route
from tests.conformance.service_interface.endpoints import LISTS, prepared
from tests.unit.local_service.conftest import ADMIN, Client

ONE_SCOPE = Fixed(frozenset({"insights:read_insights"}))


async def test_8_a_name_has_at_least_3_characters_at_creation_and_at_edit(client: Client) -> None:
    keys = client.service.keys
    with pytest.raises(InvalidKey, match="name"):
        await keys.create("ab", ONE_SCOPE, by=ADMIN)
    await keys.create("éüß", ONE_SCOPE, by=ADMIN)
    with pytest.raises(InvalidKey, match="name"):
        await keys.edit("éüß", by=ADMIN, new_name="ab")
    assert (await keys.edit("éüß", by=ADMIN, new_name="abc")).name == "abc"


async def test_8_a_name_is_unique_within_the_organization_at_creation_and_at_edit(client: Client) -> None:
    keys = client.service.keys
    await keys.create("first", ONE_SCOPE, by=ADMIN)
    await keys.disable("first", by=ADMIN)
    with pytest.raises(NameTaken):
        await keys.create("first", ONE_SCOPE, by=ADMIN)
    await keys.create("second", ONE_SCOPE, by=ADMIN)
    with pytest.raises(NameTaken):
        await keys.edit("second", by=ADMIN, new_name="first")
    assert (await keys.edit("second", by=ADMIN, new_name="second")).name == "second", "its own name is no clash"


async def test_8_a_fixed_key_has_at_least_one_scope(client: Client) -> None:
    with pytest.raises(InvalidKey, match="at least one scope"):
        await client.service.keys.create("none", Fixed(frozenset()), by=ADMIN)
    await client.service.keys.create("one", ONE_SCOPE, by=ADMIN)
    with pytest.raises(InvalidKey, match="at least one"):
        await client.service.keys.edit("one", by=ADMIN, grant=Managed(frozenset()))


@pytest.mark.parametrize("route", LISTS, ids=lambda route: route.path)
async def test_8_items_per_page_are_set_by_limit_on_every_list(client: Client, route: Route) -> None:
    path = (await prepared(client)).path(route)
    assert (DEFAULT_LIMIT, MAX_LIMIT) == (50, 500)
    for limit in ("1", "500"):
        assert (await client.get(path, limit=limit)).status == 200
    for limit in ("0", "501"):
        reply = await client.get(path, limit=limit)
        assert (reply.status, reply.json["error"]["message"]) == (400, "limit: a whole number from 1 to 500 is needed")


async def test_9_1_the_version_is_in_the_path(client: Client) -> None:
    assert (await client.get("/v2/insights")).status == 200
    for path in ("/insights", "/v1/insights", "/v3/insights", "/V2/insights", "/v2/insights/x/y"):
        assert (await client.get(path)).status == 404
    assert all("/v2/" in route.path or "/v1/" in route.path for route in ROUTES)
