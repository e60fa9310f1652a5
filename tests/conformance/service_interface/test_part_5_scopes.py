"""Part 5, 6: every fixed scope, by name and category."""

import re

import pytest

from gateway.access.errors import InvalidKey
from gateway.common.contract.scopes import CATALOGUE, Allowed, Denied, Fixed, catalogue_faults, decide
from gateway.local_service.routes import ROUTES
from tests.conformance.service_interface import published
from tests.unit.local_service.conftest import ADMIN, Client

PAIRS = [(category, scope) for category, scopes in published.SCOPES.items() for scope in scopes]


def test_5_6_the_text_was_read_whole() -> None:
    """Counted by hand: what the parser passes over would be tested by no one."""
    assert len(published.SCOPES) == 15
    assert len(PAIRS) == len({scope for _, scope in PAIRS}) == 77
    assert published.part("## 5. Authentication").count("- `") == 77


@pytest.mark.parametrize(("category", "scope"), PAIRS)
def test_5_6_the_catalogue_has_the_scope_in_its_category(category: str, scope: str) -> None:
    assert [row.category for row in CATALOGUE if row.name == scope] == [category]
    assert re.fullmatch(r"[a-z0-9_-]+:[a-z0-9_-]+", scope)


def test_5_6_the_catalogue_has_no_other_scope_and_keeps_the_order() -> None:
    assert [row.name for row in CATALOGUE] == published.ALL_SCOPES
    assert catalogue_faults() == []


@pytest.mark.parametrize("scope", published.ALL_SCOPES)
def test_5_6_a_fixed_key_grants_exactly_its_scope(scope: str) -> None:
    grant = Fixed(frozenset({scope}))
    assert decide(grant, scope) == Allowed(scope)
    assert all(decide(grant, other) == Denied(other) for other in published.ALL_SCOPES if other != scope)


async def test_5_6_every_scope_can_be_given_to_a_key_and_an_unknown_one_cannot(client: Client) -> None:
    made = await client.service.keys.create("all", Fixed(frozenset(published.ALL_SCOPES)), by=ADMIN)
    assert made.key.scope_count == 77
    for unknown in ("insights:read", "insights:*", "*", "INSIGHTS:READ_INSIGHTS", "", "insights:read_insights "):
        with pytest.raises(InvalidKey, match="scope"):
            await client.service.keys.create("unknown", Fixed(frozenset({unknown})), by=ADMIN)


def test_5_6_the_agents_liveness_check_is_its_only_read() -> None:
    agent = {*published.SCOPES["Container agent"], "insights:read_insights"}
    reads = {route.path for route in ROUTES if route.method == "GET" and route.scope in agent}
    assert reads == {"/v2/insights"}
