"""A list's parameters and answer, from the shape that it is served by. Pure."""

from typing import Any, Final

from gateway.common.lists.conventions import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Filterable,
    Filtering,
    ListShape,
    Pagination,
    Sorting,
)

Json = dict[str, Any]
ENVELOPE: Final = (Pagination, Filtering, Sorting)
"""Types of the root keys that lists share."""


def list_parameters(shape: ListShape) -> list[Json]:
    """Filters, sorting and paging, as service-interface parts 4.1 and 4.2 have them."""
    return [
        *(filter_parameter(each) for each in shape.filters),
        *(sort_parameters(shape) if shape.sort_keys else ()),
        {
            "name": "limit",
            "in": "query",
            # No `default`: a client that fills it in beside a cursor would ask for another page
            # size than the cursor's.
            "description": f"Items per page: {DEFAULT_LIMIT} where neither it nor a cursor is given.",
            "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
        },
        {"$ref": "#/components/parameters/Cursor"},
    ]


def sort_parameters(shape: ListShape) -> list[Json]:
    return [
        {"name": "sort_key", "in": "query", "schema": {"type": "string", "enum": list(shape.sort_keys)}},
        {"$ref": "#/components/parameters/SortOrder"},
    ]


def filter_parameter(filterable: Filterable) -> Json:
    """One value per occurrence; it may be repeated."""
    value: Json = {"type": "string"} if filterable.is_open else {"type": "string", "enum": [*filterable.valid_values]}
    return {
        "name": filterable.name,
        "in": "query",
        "description": "Filter; may be repeated to select several values.",
        "style": "form",
        "explode": True,
        "schema": {"type": "array", "items": value},
    }


def list_answer(shape: ListShape, item: str) -> Json:
    """The envelope of part 2.3, with *item* as the name of the items' schema. Each feature of
    the list has its root key.
    """
    keys: Json = {
        shape.root: {"type": "array", "items": {"$ref": f"#/components/schemas/{item}"}},
        "pagination": {"$ref": f"#/components/schemas/{'' if shape.is_always_counted else 'Bounded'}Pagination"},
    }
    if shape.filters:
        keys["filtering"] = {"$ref": "#/components/schemas/Filtering"}
    if shape.sort_keys:
        keys["sorting"] = {"$ref": "#/components/schemas/Sorting"}
    schema = {"type": "object", "required": list(keys), "properties": keys}
    return {"description": "A page.", "content": {"application/json": {"schema": schema}}}
