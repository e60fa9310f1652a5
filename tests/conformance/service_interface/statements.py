"""Which test holds each statement of the published text: every line of it that states something,
by how it begins. A scope's row is held by `docs/scopes.md` and its tests.
"""

from collections.abc import Mapping, Sequence
from typing import Final

NAME: Final = "a name only"
"""Nothing here acts on it; it stands in docs/scopes.md."""
OPEN: Final = ("not shown", "Only the insights list operation is specified in detail")
"""A line that says that the text leaves something open."""
HERE: Final = "tests.conformance.service_interface"
_RESOURCES: Final = f"{HERE}.test_part_2_resources"
_ENVELOPE: Final = f"{HERE}.test_part_2_3_envelope"
_STATES: Final = f"{HERE}.test_part_3_states"
_LISTS: Final = f"{HERE}.test_part_4_lists"
_AUTH: Final = f"{HERE}.test_part_5_authentication"
_SCOPES: Final = f"{HERE}.test_part_5_scopes"
_PAGE: Final = f"{HERE}.test_scopes_page"
_LIMITS: Final = f"{HERE}.test_parts_8_and_9"
_EVERY_SCOPE: Final = f"{_PAGE}.test_5_6_every_scope_has_a_row_with_routes_or_opens_nothing"
_KEY_LIST: Final = f"{_RESOURCES}.test_2_1_the_key_list_shows_who_when_and_how_many_scopes"

STATEMENTS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "## 1. What the service does": {
        "The service is a cloud cost management service": [f"{_AUTH}.test_5_1_every_endpoint_needs_a_key"],
        "- read cost, usage, dimension": [_EVERY_SCOPE],
        "- manage saved views, budgets": [_EVERY_SCOPE],
        "- manage cost-allocation": [NAME],
        "- upload container metrics": [NAME],
        "- send billing data": [
            "tests.unit.local_service.test_billing.test_a_drop_goes_to_an_established_connection_only",
            "tests.unit.local_service.test_billing.test_a_connection_is_established_renamed_paused_and_removed",
        ],
        "- send AI inference telemetry": [f"{_AUTH}.test_5_2_an_endpoint_opens_to_its_scope_and_to_no_other"],
        "- manage unit-cost telemetry streams": [
            "tests.unit.local_service.test_unit_cost_streams.test_streams_are_listed_by_the_conventions",
            f"{_AUTH}.test_5_2_an_endpoint_opens_to_its_scope_and_to_no_other",
        ],
        "- manage roles": [NAME],
        "- reach an AI assistant": [
            "tests.e2e.test_mcp.test_a_key_without_further_scopes_only_reads_and_every_answer_is_by_its_schema"
        ],
        "Access is controlled by": [
            f"{_AUTH}.test_5_2_an_endpoint_opens_to_its_scope_and_to_no_other",
            f"{_LISTS}.test_4_2_1_each_feature_of_a_list_works_on_it",
        ],
    },
    "### 2.1 API key (organization-level)": {
        "| Name |": [
            f"{_RESOURCES}.test_2_1_a_name_is_required_and_has_three_characters_at_least",
            f"{_RESOURCES}.test_2_1_a_name_is_unique_also_after_an_edit",
        ],
        "| Description |": [f"{_RESOURCES}.test_2_1_name_description_and_scopes_are_editable_and_state_who_and_when"],
        "| Scopes |": [f"{_RESOURCES}.test_2_1_a_key_uses_fixed_or_managed_scopes_and_at_least_one"],
        "| Status |": [f"{_STATES}.test_3_1_a_key_is_enabled_when_made"],
        "| Created By |": [
            _KEY_LIST,
            "tests.unit.operate.test_identity.test_a_key_is_made_by_an_operator_whom_the_proxy_or_the_body_names",
        ],
        "| Updated By |": [
            _KEY_LIST,
            "tests.unit.access.test_operators.test_with_operators_only_one_of_them_is_taken_in_any_case_of_letters",
        ],
        "| Last Modified |": [_KEY_LIST],
        "| Last Accessed |": [_KEY_LIST, f"{_RESOURCES}.test_2_1_last_accessed_is_not_in_use_until_the_first_request"],
        "| Scope count |": [_KEY_LIST, f"{_RESOURCES}.test_2_1_scope_count_is_the_number_of_granted_scopes"],
        "The key secret": [f"{_RESOURCES}.test_2_1_the_secret_is_shown_once_and_is_in_no_later_answer"],
        "An organization that had a single key": [
            f"{_RESOURCES}.test_2_1_the_one_key_from_before_is_listed_by_its_published_name"
        ],
    },
    "### 2.2 Insight (list item of the insights list)": {
        "| status |": [f"{_RESOURCES}.test_2_2_each_published_status_can_be_had_and_filtered"],
        **{
            f"| {field} |": [
                f"{_RESOURCES}.test_2_2_an_insight_has_the_published_fields_and_its_id",
                f"{_LISTS}.test_4_1_every_published_sort_key_sorts_both_ways_also_over_pages",
            ]
            for field in ("category", "cost_impact", "effort", "last_updated", "title")
        },
    },
    "### 2.3 Response envelope of list endpoints": {
        "A list response is a JSON object": [f"{_ENVELOPE}.test_2_3_the_root_keys_are_the_same_in_every_response"],
        **{
            f"| {field} |": [f"{_ENVELOPE}.test_2_3_every_field_has_its_published_type"]
            for field in (
                "page_count",
                "item_count",
                "total_count",
                "cursor.has_next",
                "cursor.has_previous",
                "ordering",
            )
        },
        **{
            f"| cursor.{way}_cursor |": [f"{_LISTS}.test_4_2_2_pages_lead_on_and_back_by_encoded_cursors"]
            for way in ("next", "previous")
        },
        "An empty list": [
            f"{_ENVELOPE}.test_2_3_an_empty_list_has_page_count_0_and_every_key_with_nulls_and_an_empty_array"
        ],
        "| available |": [f"{_ENVELOPE}.test_2_3_the_insights_list_offers_what_is_published"],
        "| current |": [
            f"{_ENVELOPE}.test_2_3_filtering_current_maps_a_field_to_all_its_values",
            f"{_LISTS}.test_4_1_every_parameter_is_optional_and_the_default_sort_is_status_ascending",
        ],
    },
    "### 3.1 API key status": {
        "States:": [f"{_STATES}.test_3_1_a_deleted_key_no_longer_exists_and_its_name_is_free"],
        "| (none) |": [f"{_STATES}.test_3_1_a_key_is_enabled_when_made"],
        "| `Enabled` | disable": [
            f"{_STATES}.test_3_1_disable_enable_and_delete_count_from_the_next_request_of_an_open_connection"
        ],
        "| `Disabled` | enable": [f"{_STATES}.test_3_1_states_outlast_a_restart"],
        "| `Enabled` or `Disabled` | edit": [
            f"{_STATES}.test_3_1_an_edit_leaves_the_status_and_moves_last_modified",
            f"{_STATES}.test_3_1_an_edit_of_scopes_counts_on_an_open_connection",
        ],
        "| `Enabled` or `Disabled` | delete": [
            f"{_STATES}.test_3_1_delete_takes_the_exact_name",
            f"{_STATES}.test_3_1_disable_enable_and_delete_count_from_the_next_request_of_an_open_connection",
        ],
    },
    "### 3.2 Insight status": {
        "States:": [
            f"{_STATES}.test_3_2_there_is_no_other_state",
            f"{_STATES}.test_3_2_an_insight_goes_from_each_state_to_each_other",
        ],
    },
    "## 4. Endpoints": {"All paths are relative": [f"{_AUTH}.test_5_1_every_endpoint_needs_a_key"]},
    "### 4.1 List insights": {
        "- Method and path": [f"{_LISTS}.test_4_1_the_list_needs_its_scope_and_only_that"],
        "- Required scope": [f"{_LISTS}.test_4_1_the_list_needs_its_scope_and_only_that"],
        "- Request body": [f"{_LISTS}.test_4_1_every_parameter_is_optional_and_the_default_sort_is_status_ascending"],
        "- Query parameters": [
            f"{_LISTS}.test_4_1_every_parameter_is_optional_and_the_default_sort_is_status_ascending"
        ],
        "| status |": [f"{_LISTS}.test_4_1_status_may_be_repeated_to_select_several"],
        "| sort_key |": [f"{_LISTS}.test_4_1_every_published_sort_key_sorts_both_ways_also_over_pages"],
        "| sort_order |": [f"{_LISTS}.test_4_1_every_published_sort_key_sorts_both_ways_also_over_pages"],
        "| limit |": [f"{_LISTS}.test_4_1_limit_is_the_number_of_items_of_a_page"],
        "| cursor |": [f"{_LISTS}.test_4_2_2_pages_lead_on_and_back_by_encoded_cursors"],
        "- Response:": [f"{_ENVELOPE}.test_2_3_the_insights_list_offers_what_is_published"],
    },
    "### 4.2 Common rules for list endpoints": {
        "1. An endpoint": [f"{_LISTS}.test_4_2_1_each_feature_of_a_list_works_on_it"],
        "2. Pagination": [f"{_LISTS}.test_4_2_2_pages_lead_on_and_back_by_encoded_cursors"],
        "3. Filtering": [
            f"{_LISTS}.test_4_2_3_a_filter_that_matches_nothing_gives_an_empty_list",
            f"{_LISTS}.test_4_1_status_may_be_repeated_to_select_several",
        ],
        "4. Sorting": [f"{_LISTS}.test_4_1_every_published_sort_key_sorts_both_ways_also_over_pages"],
    },
    "### 4.3 Other endpoints": {},
    "## 5. Authentication": {
        "1. Every request": [
            f"{_AUTH}.test_5_1_the_key_is_the_entire_header_value",
            f"{_AUTH}.test_5_1_anything_but_the_key_is_refused",
        ],
        "2. An organization": [f"{_AUTH}.test_5_2_an_organization_holds_several_keys_each_with_its_own_scopes"],
        "3. Only users": [
            "tests.unit.operate.test_roles.test_a_viewer_changes_nothing_and_sees_no_key",
            "tests.unit.operate.test_identity.test_what_the_proxy_states_is_the_persons_role_and_no_other_is_let_in",
        ],
        "4. A key is scoped": [f"{_AUTH}.test_5_4_a_key_is_scoped_in_exactly_one_way"],
        "   - **Managed scopes**": [
            f"{_AUTH}.test_5_4_a_managed_key_gains_a_new_endpoint_with_no_edit_and_a_fixed_one_does_not",
            f"{_AUTH}.test_5_4_the_answer_to_a_managed_key_does_not_depend_on_what_is_kept",
        ],
        "   - **Fixed scopes**": [
            f"{_AUTH}.test_5_4_a_managed_key_gains_a_new_endpoint_with_no_edit_and_a_fixed_one_does_not",
            f"{_SCOPES}.test_5_6_a_fixed_key_grants_exactly_its_scope",
        ],
        "5. Managed use cases": [f"{_AUTH}.test_5_5_the_use_cases_are_the_published_two"],
        "| Send AI Telemetry |": [f"{_AUTH}.test_5_4_a_managed_key_opens_only_endpoints_that_accept_data"],
        "| Send Billing Data |": [
            f"{_AUTH}.test_5_4_a_managed_key_opens_only_endpoints_that_accept_data",
            "tests.unit.local_service.test_billing.test_a_drop_goes_to_an_established_connection_only",
        ],
        "6. Fixed scopes": [f"{_SCOPES}.test_5_6_the_catalogue_has_the_scope_in_its_category"],
        "- `ai-telemetry-ingest:": [f"{_AUTH}.test_5_4_a_managed_key_opens_only_endpoints_that_accept_data"],
        "- The agent additionally": [f"{_SCOPES}.test_5_6_the_agents_liveness_check_is_its_only_read"],
        "- `ai-hub:mcp`": [
            "tests.e2e.test_mcp.test_only_a_key_with_the_scope_and_those_who_read_the_page_are_admitted",
            "tests.e2e.test_mcp.test_tools_that_change_something_are_offered_to_keys_with_their_scope",
            NAME,  # sign-in of a person
        ],
        "- `events_v1:": [f"{_AUTH}.test_5_2_an_endpoint_opens_to_its_scope_and_to_no_other"],
        "- `unit-cost_v1:manage": [
            "tests.unit.local_service.test_unit_cost_streams.test_post_is_a_sum_with_the_stream_in_the_path_or_in_each_record",
            "tests.unit.serve.test_unit_cost_streams.test_each_route_takes_its_own_scope_alone",
        ],
        "- `unit-cost_v1:read": ["tests.unit.serve.test_unit_cost_streams.test_each_route_takes_its_own_scope_alone"],
        "7. Key lifecycle rules": [
            f"{_AUTH}.test_5_7_the_secret_cannot_be_retrieved",
            f"{_AUTH}.test_5_7_deleting_a_key_ends_the_access_of_everything_that_uses_it",
        ],
    },
    "## 6. Events": {},
    "## 7. Errors": {},
    "## 8. Limits": {
        "| API key name length |": [f"{_LIMITS}.test_8_a_name_has_at_least_3_characters_at_creation_and_at_edit"],
        "| API key name |": [f"{_LIMITS}.test_8_a_name_is_unique_within_the_organization_at_creation_and_at_edit"],
        "| Scopes on a fixed-scope key |": [f"{_LIMITS}.test_8_a_fixed_key_has_at_least_one_scope"],
        "| Items per page |": [f"{_LIMITS}.test_8_items_per_page_are_set_by_limit_on_every_list"],
    },
    "## 9. Versioning": {
        "1. The version": [f"{_LIMITS}.test_9_1_the_version_is_in_the_path"],
        "2. Scopes of a fixed-scope key": [
            f"{_AUTH}.test_5_4_a_managed_key_gains_a_new_endpoint_with_no_edit_and_a_fixed_one_does_not"
        ],
    },
}
"""Heading -> how a statement below it begins -> tests."""
