"""Part 5, 6: docs/scopes.md names what each scope guards here, or that it opens nothing. Where
scopes are offered, those that open nothing at the gateway are marked.
"""

import re

import pytest

from gateway.common.contract.scopes import CATALOGUE
from gateway.local_service.routes import ROUTES
from gateway.operate.registry import OPERATIONS
from gateway.serve.http.forwarded import forwarded_routes
from gateway.serve.http.telemetry import telemetry_routes
from gateway.serve.otlp import otlp_routes
from tests.conformance.otlp_http.recording import RecordingIntake
from tests.conformance.service_interface import published
from tests.support import scopes_table

ROW = re.compile(r"^\| `([^`]+)`[^|]* \| (.+) \| (.+) \|$", re.MULTILINE)


def rows() -> dict[str, tuple[set[str], set[str]]]:
    """Scope -> (routes at the gateway, routes at the local service), as the page has them."""
    found = ROW.findall(scopes_table.PAGE.read_text())
    return {
        name: (set(re.findall("`([^`]+)`", here)), set(re.findall("`([^`]+)`", there))) for name, here, there in found
    }


def test_5_6_the_page_is_the_one_of_this_release() -> None:
    assert scopes_table.PAGE.read_text() == scopes_table.page(), "python -m tests.support.scopes_table"


def test_5_6_every_scope_has_a_row_with_routes_or_opens_nothing() -> None:
    assert list(rows()) == published.ALL_SCOPES
    cells = [routes for both in rows().values() for routes in both]
    assert scopes_table.PAGE.read_text().count(f"| {scopes_table.NONE} ") == sum(not routes for routes in cells)


def test_5_6_a_scope_is_marked_where_it_is_offered_if_it_opens_nothing_at_the_gateway() -> None:
    marked = {scope.name for scope in CATALOGUE if scope.opens_nothing}
    assert marked == {name for name, (here, _) in rows().items() if not here}
    assert not any(scope.use_case for scope in CATALOGUE if scope.opens_nothing), "every use case opens something"


def test_5_6_every_route_of_the_local_service_is_in_the_row_of_its_scope_and_no_other() -> None:
    assert {scope: there for scope, (_, there) in rows().items() if there} == {
        scope: {f"{route.method} {route.path}" for route in ROUTES if route.scope == scope}
        for scope in {route.scope for route in ROUTES}
    }


@pytest.mark.parametrize("of", ["senders", "admin"])
def test_5_6_every_route_of_the_gateway_is_in_the_row_of_its_scope(of: str) -> None:
    intake = RecordingIntake()
    routes = [*otlp_routes(intake), *telemetry_routes(intake), *forwarded_routes(intake)]
    guarded = {
        "senders": {(f"{method} {route.path}", route.scope) for route in routes for method in route.methods - {"HEAD"}},
        "admin": {(f"{row.method} {row.path}", row.scope) for row in OPERATIONS if row.scope is not None},
    }
    page = {(route, scope) for scope, (here, _) in rows().items() for route in here}
    assert guarded[of] - page == set()
