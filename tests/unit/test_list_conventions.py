"""The list conventions of service-interface parts 2.3 and 4.2, on lists in memory."""

import base64
import json
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.list_conventions import (
    BadListRequest,
    Filterable,
    ListRequest,
    ListShape,
    Page,
    Sort,
    envelope,
    page_of,
    read_request,
)

Row = tuple[int, str, int]
"""(id, colour, size)."""
SHAPE = ListShape(
    root="stones",
    sort_keys=("colour", "size"),
    default_sort=Sort("size", "asc"),
    filters=(Filterable("colour", ("red", "green", "blue")),),
)
ROWS: list[Row] = [(number, ("red", "green", "blue")[number % 3], number % 5) for number in range(23)]


def field_of(row: Row, name: str) -> str | int:
    return row[1] if name == "colour" else row[2]


def ask(query: Mapping[str, str] | str, rows: list[Row]) -> dict[str, object]:
    pairs = parse_qsl(query if isinstance(query, str) else urlencode(query), keep_blank_values=True)
    request = read_request(SHAPE, pairs)
    page = page_of(request, rows, field_of=field_of, id_of=lambda row: row[0], item_of=lambda row: row[0])
    body: dict[str, object] = json.loads(json.dumps(envelope(SHAPE, request, page)))
    return body


def cursor_of(body: Mapping[str, object], name: str) -> str | None:
    pagination = body["pagination"]
    assert isinstance(pagination, dict)
    cursor = pagination["cursor"]
    assert cursor["has_next"] == (cursor["next_cursor"] is not None)
    assert cursor["has_previous"] == (cursor["previous_cursor"] is not None)
    found: str | None = cursor[f"{name}_cursor"]
    return found


def test_an_empty_list_has_every_key_of_the_envelope() -> None:
    assert ask({}, []) == {
        "stones": [],
        "pagination": {
            "page_count": 0,
            "item_count": 0,
            "total_count": 0,
            "cursor": {"next_cursor": None, "previous_cursor": None, "has_next": False, "has_previous": False},
        },
        "filtering": {
            "available": [{"field": "colour", "valid_values": ["red", "green", "blue"], "valid_types": ["string"]}],
            "current": {},
        },
        "sorting": {
            "available": ["colour", "size"],
            "current": [{"sort_key": "size", "sort_order": "asc"}],
            "ordering": ["asc", "desc"],
        },
    }


def test_a_list_without_filters_has_no_filtering_key() -> None:
    shape = ListShape(root="stones", sort_keys=("size",), default_sort=Sort("size", "asc"))
    assert set(envelope(shape, ListRequest(shape.default_sort), Page([], 0, None, None))) == {
        "stones",
        "pagination",
        "sorting",
    }


@given(
    count=st.integers(0, 23),
    limit=st.integers(1, 9),
    key=st.sampled_from(["colour", "size"]),
    order=st.sampled_from(["asc", "desc"]),
    colours=st.sets(st.sampled_from(["red", "blue"])),
)
def test_walking_on_and_back_shows_every_row_once_in_order(
    count: int, limit: int, key: str, order: str, colours: set[str]
) -> None:
    rows = ROWS[:count]
    query = urlencode([("limit", limit), ("sort_key", key), ("sort_order", order), *(("colour", c) for c in colours)])
    kept = [row for row in rows if not colours or row[1] in colours]
    expected = [r[0] for r in sorted(kept, key=lambda row: (field_of(row, key), row[0]), reverse=order == "desc")]
    pages = [ask(query, rows)]
    while cursor := cursor_of(pages[-1], "next"):
        pages.append(ask({"cursor": cursor}, rows))
    assert [item for page in pages for item in page["stones"]] == expected  # type: ignore[attr-defined]  # a list
    assert all(page["pagination"]["total_count"] == len(expected) for page in pages)  # type: ignore[index]  # an object
    assert pages[0]["pagination"]["page_count"] == (len(pages) if expected else 0)  # type: ignore[index]  # an object
    back = [pages[-1]]
    while cursor := cursor_of(back[-1], "previous"):
        back.append(ask({"cursor": cursor}, rows))
    assert [page["stones"] for page in reversed(back)] == [page["stones"] for page in pages]


def test_a_repeated_filter_selects_several_values_and_is_shown_as_current() -> None:
    body = ask("colour=red&colour=blue&colour=red&limit=100", ROWS)
    assert body["filtering"]["current"] == {"colour": ["red", "blue"]}  # type: ignore[index]  # an object
    assert len(body["stones"]) == 15  # type: ignore[arg-type]  # a list


def test_a_row_that_came_meanwhile_moves_no_other_row_to_another_page() -> None:
    rows: list[Row] = [(number, "red", number * 10) for number in range(6)]
    first = ask({"limit": "3"}, rows)
    grown = [*rows, (6, "red", 5)]
    second = ask({"cursor": str(cursor_of(first, "next"))}, grown)
    assert (first["stones"], second["stones"]) == ([0, 1, 2], [3, 4, 5])


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("colour=pink", "colour"),
        ("sort_key=weight", "sort_key"),
        ("sort_order=up", "sort_order"),
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=ten", "limit"),
        ("limit=²", "limit"),
        ("cursor=", "cursor"),
        ("cursor=%00", "cursor"),
        ("cursor=abc", "cursor"),
        ("cursor=" + base64.urlsafe_b64encode(b"[" * 9000).decode(), "cursor"),
        ("cursor=" + base64.urlsafe_b64encode(b'["weight","asc",5,{},1,1,false]').decode(), "cursor"),
        ("cursor=" + base64.urlsafe_b64encode(b'["size","asc",5,{},[1],1,false]').decode(), "cursor"),
        ("cursor=" + base64.urlsafe_b64encode(b'["size","asc",5,{},1,99999999999999999999,false]').decode(), "cursor"),
        ("cursor=" + base64.urlsafe_b64encode(b'["size","asc",5,{"colour":["pink"]},1,1,false]').decode(), "cursor"),
    ],
)
def test_what_the_list_does_not_offer_is_refused_by_name(query: str, named: str) -> None:
    with pytest.raises(BadListRequest, match=named):
        ask(query, ROWS)


@given(st.binary(max_size=60))
def test_any_cursor_is_a_page_or_a_bad_request(content: bytes) -> None:
    try:
        ask({"cursor": base64.urlsafe_b64encode(content).decode()}, ROWS)
    except BadListRequest:
        return
    raise AssertionError("random bytes were taken for a cursor")


def test_a_cursor_whose_value_is_of_another_type_gives_a_page() -> None:
    forged = base64.urlsafe_b64encode(b'["size","asc",5,{},"text",1,true]').decode()
    assert len(ask({"cursor": forged}, ROWS)["stones"]) == 5  # type: ignore[arg-type]  # a list


def test_a_cursor_is_refused_under_another_sorting_or_filter() -> None:
    cursor = str(cursor_of(ask("limit=5&colour=red", ROWS), "next"))
    assert ask({"cursor": cursor, "colour": "red", "limit": "2"}, ROWS)["pagination"]["item_count"] == 2  # type: ignore[index]  # an object
    for other in ({"sort_key": "colour"}, {"sort_order": "desc"}, {"colour": "blue"}):
        with pytest.raises(BadListRequest, match="cursor"):
            ask({"cursor": cursor, **other}, ROWS)


def test_a_limit_beyond_the_largest_is_served_as_the_largest() -> None:
    assert read_request(SHAPE, [("limit", "5000000000")]).limit == 1000
