"""The catalogue: every scope, its category, and the managed use case it belongs to. Pure.

One table holds what service-interface part 5 lists, and both sides read it: the gateway for its
inbound and outbound keys, the local service for its own. A managed key stores names of use cases
only; what it may do is read off the table at each check, so a scope added to a use case reaches
every key of that use case with no edit.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.common.suggestions import nearest

INGEST_SCOPE = "ai-telemetry-ingest:ingest-ai-telemetry"
"""Of every AI telemetry ingest endpoint."""
EVENT_SCOPE = "events_v1:create_event"
UNIT_COST_SCOPE = "unit-cost_v1:manage_telemetry_records"
READ_UNIT_COST_SCOPE = "unit-cost_v1:read_telemetry"
CREATE_STREAM_SCOPE = "unit-cost_v1:create_telemetry_stream"
DELETE_STREAM_SCOPE = "unit-cost_v1:delete_telemetry_stream"
ENROLL_SCOPE = "ai-control-plane:enroll-device"
HEARTBEAT_SCOPE = "ai-control-plane:heartbeat-device"
PING_SCOPE = "ai-control-plane:ping-device"
READ_COSTS_SCOPE = "billing:read_costs"
READ_DIMENSIONS_SCOPE = "billing:read_dimensions"
READ_TAGS_SCOPE = "billing:read_resource_tags"
CREATE_ALLOCATION_SCOPE = "allocation:create_definition_async"
CREATE_ALLOCATION_VERSION_SCOPE = "allocation:create_definition_version"
READ_ALLOCATION_VERSION_SCOPE = "allocation:read_definition_version"
READ_ALLOCATION_VERSIONS_SCOPE = "allocation:read_definition_versions"
MCP_SCOPE = "ai-hub:mcp"
DROP_SCOPE = "connections:create_billing_external_billing_drop"
VALIDATE_DROP_SCOPE = "connections:create_billing_external_validate_billing_drop"

SEND_AI_TELEMETRY = "send-ai-telemetry"
SEND_BILLING_DATA = "send-billing-data"

USE_CASES: dict[str, str] = {
    SEND_AI_TELEMETRY: "Send AI Telemetry",
    SEND_BILLING_DATA: "Send Billing Data",
}
"""Managed use case -> the name people see."""


class Scope(NamedTuple):
    name: str
    """`<group>:<operation>`."""
    category: str
    write_only: bool = False
    """It only accepts data, and answers nothing about the organization beyond
    whether a submission was accepted."""
    use_case: str | None = None
    """The managed use case that grants it; only a write-only scope may have one."""

    @property
    def opens_nothing(self) -> bool:
        """Whether no route of the gateway asks for it: it is a name of the published interface."""
        return self.category in CATEGORIES_THAT_OPEN_NOTHING and self.name not in OPENING


CATEGORIES_THAT_OPEN_NOTHING: Final = frozenset({
    "Optimization & Savings", "Cost Allocation", "Container agent", "Kubernetes Clusters", "Manage Billing Connections",
    "Roles & Access Control",
})  # fmt: skip
OPENING: Final = frozenset({
    CREATE_ALLOCATION_SCOPE, CREATE_ALLOCATION_VERSION_SCOPE, READ_ALLOCATION_VERSION_SCOPE,
    READ_ALLOCATION_VERSIONS_SCOPE, "optimize:list_recommendations", "optimize:get_recommendation",
    "optimize:update_recommendations",
})  # fmt: skip
"""The others of such categories."""
OPENS_NOTHING_TEXT: Final = "opens nothing at this gateway"


CATALOGUE: tuple[Scope, ...] = (
    Scope(INGEST_SCOPE, "Send AI Telemetry", write_only=True, use_case=SEND_AI_TELEMETRY),
    Scope(READ_COSTS_SCOPE, "Cost & Usage Data"),
    Scope(READ_DIMENSIONS_SCOPE, "Cost & Usage Data"),
    Scope(READ_TAGS_SCOPE, "Cost & Usage Data"),
    Scope("views:create_view", "Views"),
    Scope("views:delete_view", "Views"),
    Scope("views:read_view", "Views"),
    Scope("views:read_views", "Views"),
    Scope("views:update_view", "Views"),
    Scope("budgets:create_budget", "Budgets"),
    Scope("budgets:delete_budget", "Budgets"),
    Scope("budgets:read_budget", "Budgets"),
    Scope("budgets:read_budgets", "Budgets"),
    Scope("budgets:update_budget", "Budgets"),
    Scope("insights:create_insight", "Insights & Anomalies"),
    Scope("insights:create_insight_comment", "Insights & Anomalies"),
    Scope("insights:delete_insight", "Insights & Anomalies"),
    Scope("insights:read_insight", "Insights & Anomalies"),
    Scope("insights:read_insight_comments", "Insights & Anomalies"),
    Scope("insights:read_insights", "Insights & Anomalies"),
    Scope("insights:update_insight", "Insights & Anomalies"),
    Scope("insights:update_insight_comment", "Insights & Anomalies"),
    Scope("optimize:check", "Optimization & Savings"),
    Scope("optimize:create_comments", "Optimization & Savings"),
    Scope("optimize:delete_comment", "Optimization & Savings"),
    Scope("optimize:get_available_dimensions", "Optimization & Savings"),
    Scope("optimize:get_recommendation", "Optimization & Savings"),
    Scope("optimize:get_recommendation_type", "Optimization & Savings"),
    Scope("optimize:list_comments", "Optimization & Savings"),
    Scope("optimize:list_recommendation_types", "Optimization & Savings"),
    Scope("optimize:list_recommendations", "Optimization & Savings"),
    Scope("optimize:update_comment", "Optimization & Savings"),
    Scope("optimize:update_recommendation_type", "Optimization & Savings"),
    Scope("optimize:update_recommendations", "Optimization & Savings"),
    Scope("allocation:cancel_publish_job", "Cost Allocation"),
    Scope(CREATE_ALLOCATION_SCOPE, "Cost Allocation"),
    Scope(CREATE_ALLOCATION_VERSION_SCOPE, "Cost Allocation"),
    Scope("allocation:create_namespace", "Cost Allocation"),
    Scope("allocation:create_namespaced_definition_async", "Cost Allocation"),
    Scope("allocation:delete_namespace", "Cost Allocation"),
    Scope("allocation:list_publish_jobs", "Cost Allocation"),
    Scope("allocation:read_all_namespaces", "Cost Allocation"),
    Scope(READ_ALLOCATION_VERSION_SCOPE, "Cost Allocation"),
    Scope(READ_ALLOCATION_VERSIONS_SCOPE, "Cost Allocation"),
    Scope("allocation:read_namespace", "Cost Allocation"),
    Scope("allocation:read_publish_job", "Cost Allocation"),
    Scope("allocation:update_namespace", "Cost Allocation"),
    Scope("container-metrics_v1:abandon", "Container agent", write_only=True),
    Scope("container-metrics_v1:get-status", "Container agent"),
    Scope("container-metrics_v1:legacy", "Container agent", write_only=True),
    Scope("container-metrics_v1:upload", "Container agent", write_only=True),
    Scope("container:get-clusters", "Kubernetes Clusters"),
    Scope("container:update-cluster", "Kubernetes Clusters"),
    Scope(
        DROP_SCOPE,
        "Send Billing Data",
        write_only=True,
        use_case=SEND_BILLING_DATA,
    ),
    Scope(
        VALIDATE_DROP_SCOPE,
        "Send Billing Data",
        write_only=True,
        use_case=SEND_BILLING_DATA,
    ),
    Scope("connections:create_billing", "Manage Billing Connections"),
    Scope("connections:delete_billing", "Manage Billing Connections"),
    Scope("connections:read_billing", "Manage Billing Connections"),
    Scope("connections:read_billing_external_billing_drops", "Manage Billing Connections"),
    Scope("connections:read_billing_external_billing_drops_month", "Manage Billing Connections"),
    Scope("connections:read_billings", "Manage Billing Connections"),
    Scope("connections:update_billing", "Manage Billing Connections"),
    Scope(MCP_SCOPE, "AI Hub (MCP)"),
    # Enrolment and heartbeats answer with the device's state, so they are not write-only.
    Scope(ENROLL_SCOPE, "AI Device Control Plane"),
    Scope(HEARTBEAT_SCOPE, "AI Device Control Plane"),
    Scope(PING_SCOPE, "AI Device Control Plane", write_only=True),
    Scope(EVENT_SCOPE, "Telemetry & Usage Streams", write_only=True),
    Scope(CREATE_STREAM_SCOPE, "Telemetry & Usage Streams"),
    Scope(DELETE_STREAM_SCOPE, "Telemetry & Usage Streams"),
    Scope(UNIT_COST_SCOPE, "Telemetry & Usage Streams"),
    Scope(READ_UNIT_COST_SCOPE, "Telemetry & Usage Streams"),
    Scope("access-control:create_role", "Roles & Access Control"),
    Scope("access-control:delete_role", "Roles & Access Control"),
    Scope("access-control:read_permission_sets", "Roles & Access Control"),
    Scope("access-control:read_role", "Roles & Access Control"),
    Scope("access-control:read_roles", "Roles & Access Control"),
    Scope("access-control:update_role", "Roles & Access Control"),
)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Exactly these scopes, for ever."""

    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Managed:
    """These use cases, whatever the catalogue puts in them at the time of the check."""

    use_cases: frozenset[str]


Grant = Fixed | Managed


@dataclass(frozen=True, slots=True)
class Allowed:
    scope: str


@dataclass(frozen=True, slots=True)
class Denied:
    scope: str
    """The scope that was asked for and is missing."""


def granted(grant: Grant, catalogue: Iterable[Scope] = CATALOGUE) -> frozenset[str]:
    """Every scope that *grant* gives now."""
    match grant:
        case Fixed(scopes):
            return scopes
        case Managed(use_cases):
            return frozenset(scope.name for scope in catalogue if scope.use_case in use_cases)


def decide(grant: Grant, scope: str, catalogue: Iterable[Scope] = CATALOGUE) -> Allowed | Denied:
    """Whether *grant* gives *scope* now; as `scope in granted(grant)`, without the set: this
    is asked on every request.
    """
    return Allowed(scope) if _gives(grant, scope, catalogue) else Denied(scope)


def _gives(grant: Grant, scope: str, catalogue: Iterable[Scope]) -> bool:
    match grant:
        case Fixed(scopes):
            return scope in scopes
        case Managed(use_cases):
            return any(row.name == scope and row.use_case in use_cases for row in catalogue)


_WRITE_ONLY: Final = frozenset(scope.name for scope in CATALOGUE if scope.write_only)


def is_write_only(scope: str) -> bool:
    """Whether nothing is answered under *scope* beyond whether a submission was accepted."""
    return scope in _WRITE_ONLY


def faults(grant: Grant, catalogue: Iterable[Scope] = CATALOGUE) -> list[str]:
    """What keeps *grant* from being given to a key, each with what
    comes near; empty when nothing does.
    """
    scopes = [scope.name for scope in catalogue]
    match grant:
        case Fixed(names):
            empty = [] if names else ["scopes: a key with fixed scopes needs at least one scope"]
            unknown = sorted(names.difference(scopes))
            return empty + [f"scopes: unknown scope {_with_nearest(name, scopes, USE_CASES)}" for name in unknown]
        case Managed(names):
            empty = [] if names else ["managed: a key with managed scopes needs at least one use case"]
            unknown = sorted(names.difference(USE_CASES))
            return empty + [f"managed: unknown use case {_with_nearest(name, USE_CASES, scopes)}" for name in unknown]


def scope_name(text: str) -> str:
    """The catalogue's name for a scope as people type it: any case, blanks anywhere;
    *text* itself when it has none.
    """
    name = "".join(text.split()).lower()
    return name if any(scope.name == name for scope in CATALOGUE) else text


def use_case_name(text: str) -> str:
    """The same for a use case, which people also call by the name they see: `Send AI Telemetry`."""
    name = re.sub(r"[\s_-]+", "-", text.strip().lower())
    return name if name in USE_CASES else text


def _with_nearest(text: str, names: Collection[str], others: Collection[str]) -> str:
    """*others*: the names of the other kind of grant, which *text* may be one of."""
    near, misplaced = nearest(text, names), {scope_name(text), use_case_name(text)} & set(others)
    if misplaced:
        kind = "a managed use case" if misplaced & USE_CASES.keys() else "a fixed scope"
        return f"{quoted(text)} (it is {kind})"
    return quoted(text) if near is None else f"{quoted(text)} (did you mean {near!r}?)"


def quoted(text: str) -> str:
    """*text* for an error; not what may be a key that was given in the wrong place."""
    return repr(text) if re.fullmatch(r"[\w:.@ -]{1,48}", text) else "that is not repeated here"


def catalogue_faults(catalogue: Iterable[Scope] = CATALOGUE) -> list[str]:
    """Rows that break a rule of the catalogue: a managed scope that is not write-only, a use case
    no one knows, a name twice.
    """
    rows = tuple(catalogue)
    names = [row.name for row in rows]
    return (
        [f"{row.name} is managed but not write-only" for row in rows if row.use_case is not None and not row.write_only]
        + [f"{row.name} names an unknown use case" for row in rows if row.use_case not in (None, *USE_CASES)]
        + [f"{name} stands twice" for name in sorted(set(names)) if names.count(name) > 1]
    )
