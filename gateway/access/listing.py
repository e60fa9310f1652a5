"""The list of keys, by the list conventions. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from gateway.access.key import id_number
from gateway.access.record import KeyRecord, Status
from gateway.common.contract.scopes import CATALOGUE, USE_CASES, Fixed, granted
from gateway.common.lists.conventions import Filterable, ListRequest, ListShape, Sort, SortValue, envelope, read_request
from gateway.common.lists.memory import page_of

MODES: Final = ("fixed", "managed")

SORT_VALUES: Final[Mapping[str, Callable[[KeyRecord], SortValue]]] = {
    "created_at": lambda key: key.created_at_ms,
    "created_by": lambda key: key.created_by,
    "last_accessed": lambda key: key.accessed_at_ms or 0,  # never used: sorts first
    "last_modified": lambda key: key.modified_at_ms,
    "name": lambda key: key.name,
    "scope_count": lambda key: key.scope_count,
    "status": lambda key: key.status,
    "updated_by": lambda key: key.updated_by,
}

KEY_LIST: Final = ListShape(
    root="keys",
    sort_keys=tuple(SORT_VALUES),
    default_sort=Sort("name", "asc"),
    filters=(
        Filterable("status", get_args(Status)),
        Filterable("mode", MODES),
        Filterable("managed", tuple(USE_CASES)),
        Filterable("scope", tuple(scope.name for scope in CATALOGUE)),
        Filterable("name", (), is_open=True),
        Filterable("id", (), is_open=True),
    ),
)


def key_page(keys: Sequence[KeyRecord], query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The page of *keys* that *query* asks for. Raises BadListRequest."""
    request = read_request(KEY_LIST, query)
    kept = [key for key in keys if is_asked_for(key, request)]
    page = page_of(
        replace(request, filters={}),
        kept,
        field_of=lambda key, name: SORT_VALUES[name](key),
        id_of=lambda key: id_number(key.key_id),
        item_of=KeyRecord.as_json,
    )
    return envelope(KEY_LIST, request, page)


def is_asked_for(key: KeyRecord, request: ListRequest) -> bool:
    """A key has several scopes and use cases: one that matches is enough."""
    return all(values_of(key, name).intersection(values) for name, values in request.filters.items())


def values_of(key: KeyRecord, filter_name: str) -> frozenset[str]:
    """The values of *key* that a filter compares with."""
    match filter_name:
        case "status":
            return frozenset({key.status})
        case "mode":
            return frozenset({MODES[0] if isinstance(key.grant, Fixed) else MODES[1]})
        case "managed":
            return frozenset() if isinstance(key.grant, Fixed) else key.grant.use_cases
        case "scope":
            return granted(key.grant)
        case "id":
            return frozenset({key.key_id})
        case _:
            return frozenset({key.name})
