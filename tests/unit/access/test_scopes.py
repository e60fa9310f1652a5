"""The catalogue of service-interface part 5, and what a key is granted from it."""

import re

import pytest

from gateway.common.contract.scopes import (
    CATALOGUE,
    SEND_AI_TELEMETRY,
    SEND_BILLING_DATA,
    USE_CASES,
    Allowed,
    Denied,
    Fixed,
    Managed,
    Scope,
    catalogue_faults,
    decide,
    faults,
    granted,
)

INGEST = "ai-telemetry-ingest:ingest-ai-telemetry"
PER_CATEGORY = {
    "Send AI Telemetry": 1,
    "Cost & Usage Data": 3,
    "Views": 5,
    "Budgets": 5,
    "Insights & Anomalies": 8,
    "Optimization & Savings": 12,
    "Cost Allocation": 13,
    "Container agent": 4,
    "Kubernetes Clusters": 2,
    "Send Billing Data": 2,
    "Manage Billing Connections": 7,
    "AI Hub (MCP)": 1,
    "AI Device Control Plane": 3,
    "Telemetry & Usage Streams": 5,
    "Roles & Access Control": 6,
}


def test_the_catalogue_has_every_published_scope_in_its_category() -> None:
    counted = {category: sum(row.category == category for row in CATALOGUE) for category in PER_CATEGORY}
    assert counted == PER_CATEGORY
    assert len(CATALOGUE) == sum(PER_CATEGORY.values())
    assert all(re.fullmatch(r"[a-z0-9_-]+:[a-z0-9_-]+", row.name) for row in CATALOGUE)


def test_the_catalogue_breaks_none_of_its_own_rules() -> None:
    assert catalogue_faults() == []


@pytest.mark.parametrize("scope", [row for row in CATALOGUE if row.use_case is not None], ids=lambda row: row.name)
def test_a_managed_scope_only_accepts_data(scope: Scope) -> None:
    assert scope.write_only


def test_a_reading_scope_in_a_use_case_is_a_fault() -> None:
    reading = Scope("ai-telemetry-ingest:read-back", "Send AI Telemetry", use_case=SEND_AI_TELEMETRY)
    unknown = Scope("a:b", "Views", write_only=True, use_case="no-such")
    assert catalogue_faults([reading, unknown, unknown]) == [
        "ai-telemetry-ingest:read-back is managed but not write-only",
        "a:b names an unknown use case",
        "a:b names an unknown use case",
        "a:b stands twice",
    ]


def test_the_two_use_cases_grant_what_the_interface_lists() -> None:
    assert granted(Managed(frozenset({SEND_AI_TELEMETRY}))) == {INGEST}
    assert granted(Managed(frozenset({SEND_BILLING_DATA}))) == {
        "connections:create_billing_external_billing_drop",
        "connections:create_billing_external_validate_billing_drop",
    }
    assert USE_CASES == {SEND_AI_TELEMETRY: "Send AI Telemetry", SEND_BILLING_DATA: "Send Billing Data"}


def test_a_managed_grant_follows_the_catalogue_and_a_fixed_one_does_not() -> None:
    new = Scope("ai-telemetry-ingest:ingest-images", "Send AI Telemetry", write_only=True, use_case=SEND_AI_TELEMETRY)
    grown = (*CATALOGUE, new)
    managed, fixed = Managed(frozenset({SEND_AI_TELEMETRY})), Fixed(frozenset({INGEST}))
    assert decide(managed, new.name) == Denied(new.name)
    assert decide(managed, new.name, grown) == Allowed(new.name)
    assert decide(fixed, new.name, grown) == Denied(new.name)
    assert decide(fixed, INGEST, grown) == Allowed(INGEST)


@pytest.mark.parametrize(
    "grant",
    [
        Managed(frozenset({SEND_AI_TELEMETRY})),
        Managed(frozenset(USE_CASES)),
        Fixed(frozenset({INGEST, "views:read_view"})),
    ],
    ids=["one use case", "both use cases", "fixed"],
)
def test_a_decision_is_membership_in_what_is_granted(grant: Managed | Fixed) -> None:
    allowed = {row.name for row in CATALOGUE if isinstance(decide(grant, row.name), Allowed)}
    assert allowed == granted(grant)


def test_each_fault_of_a_grant_is_named() -> None:
    assert faults(Fixed(frozenset())) == ["scopes: a key with fixed scopes needs at least one scope"]
    assert faults(Managed(frozenset())) == ["managed: a key with managed scopes needs at least one use case"]
    assert faults(Fixed(frozenset({INGEST, "x:y"}))) == ["scopes: unknown scope 'x:y'"]
    assert faults(Managed(frozenset({"x"}))) == ["managed: unknown use case 'x'"]
    assert faults(Fixed(frozenset(row.name for row in CATALOGUE))) == []
